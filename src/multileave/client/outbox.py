"""The outbox: events wait in a queue, and a thread sends them in batches.

What cannot be sent is tried again, after pauses that double up to half a minute, each shortened at
random so that clients do not return all at once. While the service is away, or where the queue is full,
events go to the spill folder; without one they wait in the queue while it has room, and are dropped,
and counted, when it has none.
"""

import atexit
import enum
import random
import threading
import time
from collections import deque
from collections.abc import Callable

from multileave.client.counters import Counters
from multileave.client.spill import Spill

__all__ = ["Outbox", "Outcome"]

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0  # seconds
PATIENCE = 3  # tries in a row that fail before a batch is spilled


class Outcome(enum.Enum):
    """What became of a batch."""

    DONE = "answered, and counted"
    LATER = "to be tried again"
    TOO_LARGE = "to be tried again in halves"


class Outbox:
    """A bounded queue of events with a thread that sends them.

    send: sends a batch, counts what became of its events, and does not raise.
    most_queued: events. batch: most events of a request. flush_seconds: how long an event waits at most
    before a batch is sent that is not full.
    """

    def __init__(
        self,
        send: Callable[[list[bytes]], Outcome],
        counters: Counters,
        spill: Spill | None,
        *,
        most_queued: int,
        batch: int,
        flush_seconds: float,
    ) -> None:
        self._send_batch, self._counters, self._spill = send, counters, spill
        self._most_queued, self._batch, self._flush_seconds = most_queued, batch, flush_seconds
        self._queue: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._busy = False  # the thread holds events that are not in the queue
        self._hurried = 0  # who waits for the queue to be empty
        self._closing = False
        self._failures = 0  # tries in a row
        self._again_at = 0.0  # when the service may be tried again
        self._look_at = 0.0  # when to look whether something waits in the spill folder
        self._thread = threading.Thread(target=self._run, name="multileave-outbox", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def put(self, event: bytes) -> None:
        """Take an event; this waits for nothing but a write to a file where the queue is full."""
        with self._changed:
            if len(self._queue) < self._most_queued and not self._closing:
                self._queue.append(event)
                if len(self._queue) >= self._batch:
                    self._changed.notify_all()
                return
        self._keep([event])

    def flush(self, timeout: float) -> bool:
        """Try to send all there is, the spill folder included; return whether it was sent in this time."""
        with self._changed:
            self._hurried += 1
            self._failures, self._again_at, self._look_at = 0, 0.0, 0.0
            self._changed.notify_all()
            try:
                self._changed.wait_for(self._is_idle, timeout)
                return not self._queue and not self._busy and not self._failures
            finally:
                self._hurried -= 1

    def _is_idle(self) -> bool:
        """Whether there is nothing to do: all is sent, or the service stays away and all is spilled."""
        looked = self._spill is None or time.monotonic() < self._look_at or self._failures >= PATIENCE
        return not self._queue and not self._busy and looked

    def close(self, timeout: float = 5.0) -> None:
        """Send what waits within a time, spill the rest, and end."""
        atexit.unregister(self.close)
        if self._closing:
            return
        self.flush(timeout)
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout)
        with self._changed:
            rest = list(self._queue)
            self._queue.clear()
        self._keep(rest)
        if self._spill is not None:
            self._spill.close()

    def _run(self) -> None:
        while not self._closing:
            batch = self._take()
            if batch:
                self._deliver(batch)
            elif self._spill is not None and time.monotonic() >= max(self._again_at, self._look_at):
                found = self._spill.send_file(self._try, self._batch)
                with self._changed:
                    if found is None:
                        self._look_at = time.monotonic() + LONGEST_PAUSE
                    self._changed.notify_all()

    def _take(self) -> list[bytes]:
        """Wait for a batch: a full one, or what there is after the flush time."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._queue) >= self._batch or self._hurried or self._closing,
                                   self._flush_seconds)  # fmt: skip
            if self._closing:
                return []
            taken = [self._queue.popleft() for _ in range(min(self._batch, len(self._queue)))]
            self._busy = bool(taken)
            if not taken and self._hurried:  # let them see it, and do not spin while the spill folder is sent
                self._changed.notify_all()
                self._changed.wait(0.01)
            return taken

    def _deliver(self, batch: list[bytes]) -> None:
        """Send a batch; where the service stays away, spill it, or put it back where it was."""
        while not (sent := self._try(batch)) and self._failures < PATIENCE and not self._closing:
            self._pause()
        if not sent and self._spill is not None:
            self._keep(batch)
        with self._changed:
            if not sent and self._spill is None:
                self._queue.extendleft(reversed(batch))
            self._busy = False
            self._changed.notify_all()
        if not sent and self._spill is None:
            self._pause()

    def _try(self, batch: list[bytes]) -> bool:
        """Send a batch once, unless it is too early to try again; return whether it was answered."""
        if time.monotonic() < self._again_at or self._closing:
            return False
        outcome = self._send_batch(batch)
        if outcome is Outcome.TOO_LARGE:
            middle = len(batch) // 2
            return self._try(batch[:middle]) and self._try(batch[middle:])
        if outcome is Outcome.DONE:
            self._failures = 0
            return True
        pause = min(FIRST_PAUSE * 2.0**self._failures, LONGEST_PAUSE)
        self._failures += 1
        self._again_at = time.monotonic() + pause * random.uniform(0.5, 1.0)
        return False

    def _pause(self) -> None:
        """Wait until the service may be tried again; whoever hurries ends it."""
        with self._changed:
            wait = self._again_at - time.monotonic()
            if wait > 0:
                self._changed.wait_for(lambda: self._closing or time.monotonic() >= self._again_at, wait)

    def _keep(self, events: list[bytes]) -> None:
        """Spill events; count those that are lost."""
        if not events:
            return
        kept = 0
        if self._spill is not None:
            kept = self._spill.append(events)
            self._look_at = 0.0
        self._counters.add(spilled=kept, dropped=len(events) - kept)
