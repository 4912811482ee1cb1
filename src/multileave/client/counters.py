"""The counts and warnings of a client."""

import logging
import threading
import time
from dataclasses import dataclass, replace

log = logging.getLogger("multileave.client")

QUIET = 10.0  # seconds between warnings


@dataclass(frozen=True)
class Stats:
    """What a client has done so far.

    sent: events that the service has answered; it accepted or rejected each.
    spilled: events written to the spill folder; they are sent later, and then counted as sent.
    dropped: events lost because queue and spill folder were full.
    ignored: events of pages that were not recorded.
    fallbacks: pages of the control's list, shown because there was no usable answer.
    """

    sent: int = 0
    accepted: int = 0
    rejected: int = 0
    spilled: int = 0
    dropped: int = 0
    ignored: int = 0
    fallbacks: int = 0


class Counters:
    """Stats that several threads add to, and what they warn about."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stats = Stats()
        self._warned = -QUIET

    def add(self, **counts: int) -> None:
        """Add to some of the counts."""
        with self._lock:
            more = {name: getattr(self._stats, name) + count for name, count in counts.items()}
            self._stats = replace(self._stats, **more)

    @property
    def stats(self) -> Stats:
        """The current counts."""
        return self._stats

    def warn(self, message: str, *values: object) -> None:
        """Log a warning, at most one in ten seconds."""
        if time.monotonic() - self._warned >= QUIET:
            self._warned = time.monotonic()
            log.warning(message, *values)
