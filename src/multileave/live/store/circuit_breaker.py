"""The circuit breaker: while the database does not answer, requests are refused at once instead of waiting for it.

After an operation has waited for its whole deadline, the breaker opens. A thread then tries the database from time to
time, and closes the breaker when it answers; no request is used to find out.
"""

import threading
from collections.abc import Callable

from multileave.live.errors import Unavailable

PAUSE = 0.25  # seconds between attempts


class CircuitBreaker:
    """Refuses operations from a failure until `probe`, which is called in a thread, returns without an error."""

    def __init__(self, probe: Callable[[], None], on_recovery: Callable[[], None]) -> None:
        self._probe, self._on_recovery = probe, on_recovery
        self._reason: str | None = None
        self._starting = threading.Lock()
        self._over = threading.Event()

    def check(self) -> None:
        """Refuse an operation while the breaker is open."""
        if self._reason is not None:
            raise Unavailable(self._reason)

    def open(self, reason: str) -> None:
        """Refuse operations for this reason until the database answers again."""
        with self._starting:
            if self._reason is None and not self._over.is_set():
                self._reason = reason
                threading.Thread(target=self._watch, name="multileave-breaker", daemon=True).start()

    def end(self) -> None:
        """Stop trying; for when the database is closed."""
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(PAUSE):
            try:
                self._probe()
            except Exception:
                continue
            self._reason = None
            self._on_recovery()
            return
