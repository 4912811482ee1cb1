"""Clients of a service: `Client`, and `AsyncClient` for applications with an event loop."""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from multileave.client.counters import Counters, Stats
from multileave.client.http import CONNECTIONS, EventSender, NoAnswer, Service, httpx
from multileave.client.outbox import Outbox, event_line
from multileave.client.search import Document, Page, Search, check_control
from multileave.client.spill import Spill
from multileave.errors import DataError

MEGABYTE = 1 << 20


class _Common(ABC):
    """What both clients share: counters, the outbox, and the fallback."""

    def __init__(
        self,
        address: str,
        experiment: int,
        *,
        control: str,
        k: int = 10,
        key: str | None = None,
        deadline: float = 0.15,
        spill: str | os.PathLike[str] | None = None,
        most_spilled: int = 256 * MEGABYTE,
        most_queued: int = 10_000,
        batch: int = 500,
        flush_seconds: float = 0.5,
    ) -> None:
        check_control(control, k)
        if not deadline > 0 or not flush_seconds > 0 or min(most_queued, batch, most_spilled) < 1:
            raise DataError(
                f"deadline is {deadline}, flush_seconds {flush_seconds}, most_queued {most_queued}, batch {batch} and "
                f"most_spilled {most_spilled}; expected numbers above 0."
            )
        self._control, self._k, self._deadline = control, k, deadline
        self._counters = Counters()
        self._service = Service(address, experiment, key, deadline)
        self._sender = EventSender(self._service, self._counters)
        self._outbox = Outbox(
            self._sender.send,
            self._counters,
            None if spill is None else Spill(spill, most_spilled),
            most_queued=most_queued,
            batch=batch,
            flush_seconds=flush_seconds,
        )
        self._connect()

    @abstractmethod
    def _connect(self) -> None:
        """Create the HTTP client for searches."""

    @property
    def stats(self) -> Stats:
        """The counts so far."""
        return self._counters.stats

    def _fall_back(self, search: Search, why: str) -> Page:
        self._counters.add(fallbacks=1)
        self._service.warn("Showing the control's list: %s", why)
        return search.fall_back(self._control, self._k, why)

    def _put(
        self,
        impression: str | None,
        document: Document | None,
        position: int | None,
        action: str,
        dwell: float | None,
    ) -> None:
        line = event_line(impression or "none", document, position, action, dwell)
        if impression is None:
            self._counters.add(ignored=1)
        else:
            self._outbox.put(line)

    def _close_outbox(self, timeout: float) -> None:
        self._outbox.close(timeout)
        self._sender.close()


class Client(_Common):
    """Requests the lists to show from a service, and sends it what users did; thread-safe.

    address: of the service, such as "http://127.0.0.1:8421". experiment: its number. key: with the role ingest.
    control, k: the ranker to fall back to, and the results on a page; as in the experiment.
    deadline: seconds until a search falls back.
    spill: a folder for events while the service is down; several processes may share it. most_spilled: its
        maximum size in bytes.
    most_queued: the maximum number of events in memory. batch, flush_seconds: events are sent after `batch`
        events or `flush_seconds`.

    Create it once per process, after any fork, and close it at the end, or use it as a context manager.
    """

    def _connect(self) -> None:
        self._http = httpx().Client(**self._service.settings(self._deadline))
        # Each part of a request may meet the deadline while the whole does not; the search must not wait for it.
        self._pool = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="multileave-client")

    def interleave(
        self,
        rankings: Mapping[str, Sequence[Document] | None],
        unit: str,
        query: str = "",
        *,
        page: int = 1,
        pinned: Mapping[int, Document] | None = None,
        salt: str = "",
    ) -> Page:
        """Return the page to show to a unit; the control's after the deadline or any failure.

        rankings: each ranker's documents, best first; None for one that failed. pinned: documents at positions
        from 0, over all pages. salt: another salt gives another draw.
        """
        search = Search.checked(rankings, unit, query, page, pinned, salt)
        try:
            self._service.check_circuit()
            future = self._pool.submit(self._service.request_page, self._http, search)
            try:
                return future.result(self._deadline)
            except TimeoutError:
                future.cancel()
                raise self._service.missed_deadline() from None
        except NoAnswer as why:
            return self._fall_back(search, str(why))

    def click(
        self,
        impression: str | None,
        document: Document | None = None,
        *,
        position: int | None = None,
        action: str = "click",
        dwell: float | None = None,
    ) -> None:
        """Queue what a user did with a document of a page; ignored if the page was not recorded.

        impression: of the page. document, position: its id, or its position from 0 over all pages.
        dwell: seconds on the document.
        """
        self._put(impression, document, position, action, dwell)

    def flush(self, timeout: float = 5.0) -> bool:
        """Send all events now; return whether all were sent within the timeout."""
        return self._outbox.flush(timeout)

    def close(self, timeout: float = 5.0) -> None:
        """Send queued events within the timeout, spill the rest, and stop."""
        self._close_outbox(timeout)
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(_Common):
    """`Client` for applications with an event loop; a background thread sends events."""

    def _connect(self) -> None:
        self._http = httpx().AsyncClient(**self._service.settings(self._deadline))

    async def interleave(
        self,
        rankings: Mapping[str, Sequence[Document] | None],
        unit: str,
        query: str = "",
        *,
        page: int = 1,
        pinned: Mapping[int, Document] | None = None,
        salt: str = "",
    ) -> Page:
        """Return the page to show, as `Client.interleave` does."""
        search = Search.checked(rankings, unit, query, page, pinned, salt)
        try:
            self._service.check_circuit()
            try:
                async with asyncio.timeout(self._deadline):
                    return await self._service.request_page_async(self._http, search)
            except TimeoutError:
                raise self._service.missed_deadline() from None
        except NoAnswer as why:
            return self._fall_back(search, str(why))

    async def click(
        self,
        impression: str | None,
        document: Document | None = None,
        *,
        position: int | None = None,
        action: str = "click",
        dwell: float | None = None,
    ) -> None:
        """Queue what a user did, as `Client.click` does."""
        self._put(impression, document, position, action, dwell)

    async def flush(self, timeout: float = 5.0) -> bool:
        """Send all events now; return whether all were sent within the timeout."""
        return await asyncio.to_thread(self._outbox.flush, timeout)

    async def close(self, timeout: float = 5.0) -> None:
        """Send queued events within the timeout, spill the rest, and stop."""
        await asyncio.to_thread(self._close_outbox, timeout)
        await self._http.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
