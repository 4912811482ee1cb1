"""Group commit: requests that arrive together are committed together, and each is answered after the commit.

A commit costs more than a row. While one is running, the requests for the next one gather, and those that an event
loop receives in one turn are handed over together; so a commit has as many rows as the load asks for, and a single row
without load. The answers return to the loop together as well. The first requests of a long turn are handed over before
it ends, so that the loop and the writer do not wait for each other.

If the database does not answer, all that wait are refused together, and the queue is bounded: a request that finds it
full is refused at once. A request is also refused once it has waited for the deadline, whatever the writer is doing.
It may have been stored all the same, so it is not acknowledged; the same request again is recognised.
"""

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

from multileave.live.errors import Contended, Unavailable
from multileave.live.store.database import Connection, Store

T = TypeVar("T")
R = TypeVar("R")
Handler = Callable[[Connection, Sequence[T]], Sequence[R]]

MOST_TOGETHER = 200
AT_ONCE = 8  # requests that are handed over before the loop's turn has ended
MOST_WAITING = 1000
LOOK_EVERY = 0.25  # seconds between looks for requests that have waited too long
FULL = "Too many requests wait for the database. Try again in a few seconds; sending the same request again is safe."
LATE = "The database did not answer in time. Try again in a few seconds; sending the same request again is safe."


@dataclass(slots=True)
class _Job:
    handler: Handler[Any, Any]
    item: Any
    answer: "asyncio.Future[Any]"
    ends: float
    result: Any = None

    def resolve(self) -> None:
        """Answer the waiting request, in its loop; it may have been cancelled."""
        if self.answer.done():
            return
        if isinstance(self.result, Exception):
            self.answer.set_exception(self.result)
        else:
            self.answer.set_result(self.result)


class Writer:
    """A thread that writes impressions and events.

    most_waiting: requests that may wait. seconds: how long each waits at most.
    """

    def __init__(self, store: Store, *, most_waiting: int = MOST_WAITING, seconds: float = 4.0) -> None:
        self._store = store
        self._most_waiting, self._seconds = most_waiting, seconds
        self._submitted = self._finished = 0  # each is written by one thread only
        self._loop: asyncio.AbstractEventLoop | None = None  # the one whose requests are looked at
        self._unanswered: deque[_Job] = deque()
        self._heard: deque[_Job] = deque()  # in this turn of the loop
        self._handed: queue.SimpleQueue[list[_Job] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="multileave-writer", daemon=True)
        self._thread.start()

    def submit(self, handler: "Handler[T, R]", item: T) -> "asyncio.Future[R]":
        """Let a handler store an item; the future, of the running loop, is done once it is committed.

        A handler is called with all items that wait for it and returns a result for each. If storing them together
        fails, it is called again with one item at a time, unless the database is unavailable.
        """
        if self._submitted - self._finished >= self._most_waiting:
            raise Unavailable(FULL)
        loop = asyncio.get_running_loop()
        job = _Job(handler, item, loop.create_future(), loop.time() + self._seconds)
        self._submitted += 1
        if loop is not self._loop:
            self._loop, self._unanswered = loop, deque()
            loop.call_later(LOOK_EVERY, self._look, loop)
        self._unanswered.append(job)
        self._heard.append(job)
        if len(self._heard) >= AT_ONCE:
            self._hand_over()
        else:
            loop.call_soon(self._hand_over)
        return job.answer

    def close(self) -> None:
        """Store what is waiting, and end."""
        self._hand_over()
        self._handed.put(None)
        self._thread.join()

    def _hand_over(self) -> None:
        jobs = []
        while self._heard:
            jobs.append(self._heard.popleft())
        if jobs:
            self._handed.put(jobs)

    def _run(self) -> None:
        last = False
        while not last and (jobs := self._handed.get()) is not None:
            while len(jobs) < MOST_TOGETHER and not self._handed.empty():
                more = self._handed.get()
                if more is None:
                    last = True
                    break
                jobs.extend(more)
            wanted = [job for job in jobs if not job.answer.done()]  # cancelled, or refused as late
            if not self._store_jobs(wanted):
                for single in wanted:
                    self._store_jobs([single])
            self._finished += len(jobs)
            _resolve(wanted)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Refuse requests that have waited for too long, and look again later."""
        if loop is not self._loop:
            return
        now, waiting = loop.time(), self._unanswered
        while waiting and (waiting[0].answer.done() or waiting[0].ends <= now):
            job = waiting.popleft()
            if not job.answer.done():
                job.answer.set_exception(Unavailable(LATE))
        if waiting:
            loop.call_later(LOOK_EVERY, self._look, loop)
        else:
            self._loop = None

    def _store_jobs(self, jobs: list[_Job]) -> bool:
        """Commit jobs together, all or none; a single job that fails is answered with its error."""
        if not jobs:
            return True
        try:
            results: list[tuple[_Job, Any]] = []
            with self._store.write() as connection:
                for handler, group in groupby(sorted(jobs, key=lambda j: id(j.handler)), key=lambda j: j.handler):
                    waiting = list(group)
                    found = handler(connection, [job.item for job in waiting])
                    results.extend(zip(waiting, found, strict=True))
        except Exception as error:
            if len(jobs) > 1 and (isinstance(error, Contended) or not isinstance(error, Unavailable)):
                return False
            for job in jobs:
                job.result = error
            return True
        for job, result in results:
            job.result = result
        return True


def _resolve(jobs: list[_Job]) -> None:
    """Answer jobs in their loops, waking each loop once."""
    for loop, group in groupby(jobs, key=lambda job: job.answer.get_loop()):
        with contextlib.suppress(RuntimeError):  # the loop has ended, and everything that waited with it
            loop.call_soon_threadsafe(lambda done: [job.resolve() for job in done], list(group))
