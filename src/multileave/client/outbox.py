"""The outbox: a queue of events that a thread sends in batches.

Failed batches are retried with exponential backoff, up to half a minute, with jitter so that clients do not all return
at once. While the service is down, or if the queue is full, events go to the spill folder; without one they stay in
the queue, and are dropped and counted once it is full.
"""

import enum
import json
import random
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime

from multileave.client.counters import Counters
from multileave.client.search import Click
from multileave.client.spill import Spill

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0  # seconds
END_SECONDS = 1.0  # until the thread ends
PATIENCE = 3  # failed tries in a row before a batch is spilled


class SendResult(enum.Enum):
    """The result of sending a batch."""

    DONE = "answered, and counted"
    LATER = "retry"
    TOO_LARGE = "retry in halves"


def event_line(click: Click) -> bytes:
    """Return a click as a line of JSON, with the current time and a new id: sent twice, it counts once."""
    numbers = {name: float(value) for name in ("dwell", "value") if (value := getattr(click, name)) is not None}
    fields = {"id": uuid.uuid4().hex, **vars(click), "timestamp": datetime.now(UTC).isoformat(), **numbers}
    given = {name: value for name, value in fields.items() if value is not None}
    return json.dumps(given, separators=(",", ":")).encode() + b"\n"


class Outbox:
    """A bounded queue of events with a thread that sends them.

    send: sends a batch, counts its events, and does not raise.
    most_queued: events in the queue. batch: events in a request, at most. flush_seconds: how long an event waits
    before a batch that is not full is sent.
    """

    def __init__(
        self,
        send: Callable[[list[bytes]], SendResult],
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
        self._busy = False  # the thread holds events taken from the queue
        self._hurried = 0  # how many callers wait for the queue to be empty
        self._closing = False
        self._failures = 0  # in a row
        self._again_at = 0.0  # when to try the service again
        self._look_at = 0.0  # when to check the spill folder
        self._thread = threading.Thread(target=self._run, name="multileave-outbox", daemon=True)
        self._thread.start()

    def put(self, event: bytes) -> None:
        """Queue an event; never blocks, except to write to a file if the queue is full."""
        with self._changed:
            if len(self._queue) < self._most_queued and not self._closing:
                self._queue.append(event)
                if len(self._queue) >= self._batch:
                    self._changed.notify_all()
                return
        self._keep([event])

    def flush(self, timeout: float) -> bool:
        """Send all events, including the spill folder; return whether all were sent within the timeout."""
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
        """Whether there is nothing to do: all is sent, or the service is down and all is spilled."""
        looked = self._spill is None or time.monotonic() < self._look_at or self._failures >= PATIENCE
        return not self._queue and not self._busy and looked

    def close(self) -> None:
        """Stop, and spill what was not sent; sending must fail at once by now."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(END_SECONDS)
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
        """Wait for a full batch, or take what there is after `flush_seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._queue) >= self._batch or self._hurried or self._closing,
                                   self._flush_seconds)  # fmt: skip
            if self._closing:
                return []
            taken = [self._queue.popleft() for _ in range(min(self._batch, len(self._queue)))]
            self._busy = bool(taken)
            if not taken and self._hurried:  # wake those who wait, and do not spin while the spill folder is sent
                self._changed.notify_all()
                self._changed.wait(0.01)
            return taken

    def _deliver(self, batch: list[bytes]) -> None:
        """Send a batch; if the service is down, spill it, or put it back into the queue."""
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
        """Send a batch once, unless it is too early to retry; return whether it was answered."""
        if time.monotonic() < self._again_at or self._closing:
            return False
        outcome = self._send_batch(batch)
        if outcome is SendResult.TOO_LARGE:
            middle = len(batch) // 2
            return self._try(batch[:middle]) and self._try(batch[middle:])
        if outcome is SendResult.DONE:
            self._failures = 0
            return True
        pause = min(FIRST_PAUSE * 2.0**self._failures, LONGEST_PAUSE)
        self._failures += 1
        self._again_at = time.monotonic() + pause * random.uniform(0.5, 1.0)
        return False

    def _pause(self) -> None:
        """Wait until the service may be tried again, or until somebody calls flush."""
        with self._changed:
            wait = self._again_at - time.monotonic()
            if wait > 0:
                self._changed.wait_for(lambda: self._closing or time.monotonic() >= self._again_at, wait)

    def _keep(self, events: list[bytes]) -> None:
        """Spill events, and count those that are lost."""
        if not events:
            return
        kept = 0
        if self._spill is not None:
            kept = self._spill.append(events)
            self._look_at = 0.0
        self._counters.add(spilled=kept, dropped=len(events) - kept)
