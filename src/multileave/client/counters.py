"""What a client counts of what it does."""

import threading
from dataclasses import dataclass, replace

__all__ = ["Counters", "Stats"]


@dataclass(frozen=True)
class Stats:
    """What a client has done so far.

    sent: events that the service answered, of which it accepted or rejected each.
    spilled: events that were written to the spill folder; they are sent later, and counted as sent then.
    dropped: events that are lost, as there was room neither in the queue nor on the disk.
    ignored: events of pages that nothing was recorded of.
    fallbacks: pages of the control's list, shown as there was no answer that could be used.
    """

    sent: int = 0
    accepted: int = 0
    rejected: int = 0
    spilled: int = 0
    dropped: int = 0
    ignored: int = 0
    fallbacks: int = 0


class Counters:
    """Stats that several threads add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stats = Stats()

    def add(self, **counts: int) -> None:
        """Add to some of the counts."""
        with self._lock:
            more = {name: getattr(self._stats, name) + count for name, count in counts.items()}
            self._stats = replace(self._stats, **more)

    @property
    def stats(self) -> Stats:
        """The counts now."""
        return self._stats
