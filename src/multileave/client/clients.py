"""Clients of a service: `Client`, and `AsyncClient` for applications with an event loop."""

import asyncio
import atexit
import os
from collections.abc import Mapping, Sequence
from typing import Self

from multileave.client.base import BlockingClient, ClientBase
from multileave.client.http import Service
from multileave.client.outbox import Outbox, event_line
from multileave.client.search import Click, Document, Page, Search
from multileave.client.spill import Spill
from multileave.errors import DataError

MEGABYTE = 1 << 20


class ServiceClient(ClientBase):
    """What both clients of a service share: the connection and the outbox."""

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
        super().__init__(control, k)
        if not deadline > 0 or not flush_seconds > 0 or min(most_queued, batch, most_spilled) < 1:
            raise DataError(
                f"deadline is {deadline}, flush_seconds {flush_seconds}, most_queued {most_queued}, batch {batch} and "
                f"most_spilled {most_spilled}; expected numbers above 0."
            )
        self._deadline = deadline
        self._service = Service(address, experiment, key, self._counters)
        self._outbox = Outbox(
            self._service.send_events,
            self._counters,
            None if spill is None else Spill(spill, most_spilled),
            most_queued=most_queued,
            batch=batch,
            flush_seconds=flush_seconds,
        )
        atexit.register(self._close)

    def _record(self, click: Click) -> None:
        self._outbox.put(event_line(click))

    def _close(self, timeout: float = 5.0) -> None:
        """Send queued events within the timeout, end the requests still under way, and spill their events."""
        atexit.unregister(self._close)
        self._outbox.flush(timeout)
        self._service.close()
        self._outbox.close()


class Client(ServiceClient, BlockingClient):
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

    def _find_page(self, search: Search) -> Page:
        self._service.check_circuit()
        try:
            return self._service.wait(self._service.request_page(search), self._deadline)
        except TimeoutError:
            raise self._service.missed_deadline(self._deadline) from None

    def flush(self, timeout: float = 5.0) -> bool:
        """Send all events now; return whether all were sent within the timeout."""
        return self._outbox.flush(timeout)

    def close(self, timeout: float = 5.0) -> None:
        """Send queued events within the timeout, spill the rest, and stop."""
        self._close(timeout)


class AsyncClient(ServiceClient):
    """`Client` for applications with an event loop; a background thread talks to the service."""

    async def interleave(
        self,
        rankings: Mapping[str, Sequence[Document] | None],
        unit: str,
        query: str = "",
        *,
        page: int = 1,
        pinned: Mapping[int, Document] | None = None,
        salt: str = "",
        segment: str | None = None,
    ) -> Page:
        """Return the page to show, as `Client.interleave` does."""
        search = Search.checked(rankings, unit, query, page, pinned, salt, segment)
        try:
            return await self._find_page(search)
        except Exception as why:  # a search never fails
            return self._fall_back(search, why)

    async def _find_page(self, search: Search) -> Page:
        self._service.check_circuit()
        try:
            async with asyncio.timeout(self._deadline):
                return await asyncio.wrap_future(self._service.start(self._service.request_page(search)))
        except TimeoutError:
            raise self._service.missed_deadline(self._deadline) from None

    async def click(
        self,
        impression: str | None,
        document: Document | None = None,
        *,
        position: int | None = None,
        action: str = "click",
        dwell: float | None = None,
        value: float | None = None,
    ) -> None:
        """Queue what a user did, as `Client.click` does."""
        self._take(Click(impression, document, position, action, dwell, value))

    async def flush(self, timeout: float = 5.0) -> bool:
        """Send all events now; return whether all were sent within the timeout."""
        return await asyncio.to_thread(self._outbox.flush, timeout)

    async def close(self, timeout: float = 5.0) -> None:
        """Send queued events within the timeout, spill the rest, and stop."""
        await asyncio.to_thread(self._close, timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
