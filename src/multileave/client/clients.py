"""Clients of a service: `Client`, and `AsyncClient` for applications with an event loop."""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from multileave.client.counters import Counters, Stats
from multileave.client.event import event_line
from multileave.client.http import CONNECTIONS, Asking, EventSender, Unanswered, httpx
from multileave.client.outbox import Outbox
from multileave.client.search import Document, Page, Search, check_control
from multileave.client.spill import Spill
from multileave.errors import DataError

__all__ = ["AsyncClient", "Client"]

MEGABYTE = 1 << 20


class _Common(ABC):
    """What both clients do alike: they count, send events, and fall back."""

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
        self._asking = Asking(address, experiment, key)
        self._sender = EventSender(self._asking, self._counters)
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
        """Make what searches are asked through."""

    @property
    def stats(self) -> Stats:
        """What was done so far."""
        return self._counters.stats

    def _fall_back(self, search: Search, why: str) -> Page:
        self._counters.add(fallbacks=1)
        self._asking.complain("the control's list is shown: %s", why)
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
    """Asks a service for the lists to show, and tells it what users did; may be used by many threads.

    address: of the service, such as "http://127.0.0.1:8421". experiment: its number. key: one with the
        role ingest.
    control, k: the ranker to fall back to, and how many results a page has; as in the experiment.
    deadline: seconds until a search falls back.
    spill: a folder for events while the service is away; several processes may share it. most_spilled:
        bytes in it.
    most_queued: events that wait in memory. batch, flush_seconds: events are sent when there are so many,
        or so late.

    Make it once per process, after any fork, and close it at the end, or use it as a context.
    """

    def _connect(self) -> None:
        self._http = httpx().Client(**self._asking.settings(self._deadline))
        # A request may take longer than the deadline in parts that each keep to it; who searches does not wait.
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
        """Return the page to show to a unit; the control's within the deadline, whatever happens.

        rankings: each ranker's documents, best first; None for one that failed. pinned: documents at
        positions from 0, over all pages. salt: another salt, another draw.
        """
        search = Search.checked(rankings, unit, query, page, pinned, salt)
        try:
            self._asking.check_rest()
            future = self._pool.submit(self._asking.ask, self._http, search)
            try:
                return future.result(self._deadline)
            except TimeoutError:
                future.cancel()
                raise self._asking.too_late(self._deadline) from None
        except Unanswered as why:
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
        """Queue what a user did with a document of a page; nothing is done where nothing was recorded.

        impression: of the page. document or position: which one, by id or from 0 over all pages.
        dwell: seconds on the document.
        """
        self._put(impression, document, position, action, dwell)

    def flush(self, timeout: float = 5.0) -> bool:
        """Send all events now; return whether they were sent in this time."""
        return self._outbox.flush(timeout)

    def close(self, timeout: float = 5.0) -> None:
        """Send what waits within a time, spill the rest, and end."""
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
    """`Client` for applications with an event loop; events are sent by a thread beside it."""

    def _connect(self) -> None:
        self._http = httpx().AsyncClient(**self._asking.settings(self._deadline))

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
            self._asking.check_rest()
            try:
                async with asyncio.timeout(self._deadline):
                    return await self._asking.ask_async(self._http, search)
            except TimeoutError:
                raise self._asking.too_late(self._deadline) from None
        except Unanswered as why:
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
        """Send all events now; return whether they were sent in this time."""
        return await asyncio.to_thread(self._outbox.flush, timeout)

    async def close(self, timeout: float = 5.0) -> None:
        """Send what waits within a time, spill the rest, and end."""
        await asyncio.to_thread(self._close_outbox, timeout)
        await self._http.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
