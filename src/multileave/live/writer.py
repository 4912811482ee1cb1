"""The writer: requests that come together are committed together, each answered after the commit.

A commit costs more than a row. While one is under way the requests of the next gather, so that there
are as many rows to a commit as the load asks for, and one row if there is no load.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import groupby
from typing import Any, TypeVar

from sqlalchemy.engine import Connection

from multileave.live.store import Store

__all__ = ["Writer"]

T = TypeVar("T")
R = TypeVar("R")
Handler = Callable[[Connection, Sequence[T]], Sequence[R]]

MOST_TOGETHER = 200


class _Job:
    def __init__(self, handler: Handler[Any, Any], item: Any) -> None:
        self.handler, self.item = handler, item
        self.answer: Future[Any] = Future()


class Writer:
    """A thread that owns the writing of impressions and events."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="multileave-writer", daemon=True)
        self._thread.start()

    def submit(self, handler: "Handler[T, R]", item: T) -> "Future[R]":
        """Let a handler store an item; the future is done when it is committed.

        A handler is called with all items that wait for it, and answers each. It is called again, with one
        item at a time, if storing them together failed.
        """
        job = _Job(handler, item)
        self._jobs.put(job)
        return job.answer

    def close(self) -> None:
        """Store what waits, and end."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            jobs = [job]
            last = False
            while len(jobs) < MOST_TOGETHER:
                try:
                    another = self._jobs.get_nowait()
                except queue.Empty:
                    break
                if another is None:
                    last = True
                    break
                jobs.append(another)
            if not self._store_jobs(jobs):
                for single in jobs:
                    self._store_jobs([single], final=True)
            if last:
                return

    def _store_jobs(self, jobs: list[_Job], *, final: bool = False) -> bool:
        try:
            answers: list[tuple[_Job, Any]] = []
            with self._store.write() as connection:
                for handler, group in groupby(sorted(jobs, key=lambda j: id(j.handler)), key=lambda j: j.handler):
                    waiting = list(group)
                    found = handler(connection, [job.item for job in waiting])
                    answers.extend(zip(waiting, found, strict=True))
        except Exception as error:
            if final or len(jobs) == 1:
                for job in jobs:
                    job.answer.set_exception(error)
                return True
            return False
        for job, answer in answers:
            job.answer.set_result(answer)
        return True
