"""Deadlines for Postgres: no call waits forever for a server that has stopped answering.

`statement_timeout` is the server's, and a stopped server enforces nothing; TCP's timeouts do not help either, since the
machine still acknowledges packets. So the client also stops waiting: it closes the connection and raises an error.
Whether a commit took place is then unknown.
"""

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

import psycopg


class Stalled(psycopg.OperationalError):
    """The server did not answer within the deadline."""


class Patience(threading.local):
    """How many seconds a call of this thread waits for the server."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    @contextmanager
    def of(self, seconds: float) -> Iterator[None]:
        """Wait for this long within the context."""
        before, self.seconds = self.seconds, seconds
        try:
            yield
        finally:
            self.seconds = before


class PatientConnection(psycopg.Connection[Any]):
    """A connection that closes itself if the server does not answer in time."""

    patience: Patience | None = None

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        """Run an operation until it is complete, or the deadline has passed."""
        return super().wait(gen if self.patience is None else self._limited(gen), *arguments, **options)

    def _limited(self, operation: Any) -> Generator[Any, Any, Any]:
        assert self.patience is not None
        seconds = self.patience.seconds
        end = monotonic() + seconds
        try:
            wanted = next(operation)
            while True:
                ready = yield wanted
                if not ready and monotonic() >= end:
                    self.pgconn.finish()
                    raise Stalled(f"the server did not answer within {seconds:g} s")
                wanted = operation.send(ready)
        except StopIteration as done:
            return done.value
