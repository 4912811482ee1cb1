"""Recent experiments: what searches need to know about an experiment, read in threads and never on the event loop.

A worker uses an experiment for a second after it was read, since another worker may have changed it. It is read again
before that, so that under load no search waits for it, and once for all searches that want it.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from multileave.live.errors import Unavailable
from multileave.live.experiment import Experiment

T = TypeVar("T")
FRESH = 1.0  # seconds for which an experiment is used
AGEING = 0.5  # seconds after which it is read again while it is still used
THREADS = 4
LATE = "The database does not answer. Try again in a few seconds; sending the same request again is safe."


class RecentExperiments:
    """Experiments as they were within the last second. read: returns one from the database."""

    def __init__(self, read: Callable[[int], Experiment]) -> None:
        self._read = read
        self._known: dict[int, tuple[float, Experiment]] = {}
        self._changes = 0
        self._threads = ThreadPoolExecutor(THREADS, "multileave-lookup")
        self._under_way: dict[int | str, Future[Any]] = {}

    def known(self, number: int) -> Experiment | None:
        """Return an experiment if it was read within the last second; never waits."""
        known = self._known.get(number)
        age = FRESH if known is None else time.monotonic() - known[0]
        if known is None or age >= FRESH:
            return None
        if age >= AGEING:
            self._look_up(number)
        return known[1]

    def get(self, number: int) -> Experiment:
        """Return an experiment; may wait for the database, so it is not for an event loop."""
        return self.known(number) or self._load(number)

    async def wait_for(self, number: int, seconds: float) -> Experiment:
        """Return an experiment, or raise `Unavailable` if the database does not answer in time."""
        return await _within(self._look_up(number), seconds)

    async def call(self, name: str, call: Callable[[], T], seconds: float) -> T:
        """Make another call in a thread, once for all that ask for it meanwhile, with a deadline."""
        return await _within(self._shared(name, call), seconds)

    def forget(self, number: int) -> None:
        """Let everybody read an experiment anew, after a change of it."""
        self._changes += 1
        self._known.pop(number, None)
        self._under_way.pop(number, None)

    def close(self) -> None:
        """Start no more lookups."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _load(self, number: int) -> Experiment:
        at, changes = time.monotonic(), self._changes
        found = self._read(number)
        if changes == self._changes:  # else it may have been read before the change
            self._known[number] = at, found
        return found

    def _look_up(self, number: int) -> "Future[Experiment]":
        return self._shared(number, partial(self._load, number))

    def _shared(self, key: int | str, call: Callable[[], T]) -> "Future[T]":
        found = self._under_way.get(key)
        if found is None:
            found = self._under_way[key] = self._threads.submit(call)
            found.add_done_callback(partial(self._done, key))
        return found

    def _done(self, key: int | str, call: "Future[Any]") -> None:
        if self._under_way.get(key) is call:
            self._under_way.pop(key, None)


async def _within(call: "Future[T]", seconds: float) -> T:
    waited = asyncio.wrap_future(call)
    waited.add_done_callback(lambda done: done.cancelled() or done.exception())  # its error may come after we left
    done, _ = await asyncio.wait([waited], timeout=seconds)  # others may wait for the call, so it is not cancelled
    if not done:
        raise Unavailable(LATE)
    return waited.result()
