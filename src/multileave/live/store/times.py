"""Times as the store keeps them: microseconds since 1970, in UTC."""

from datetime import UTC, datetime, timedelta

SECOND = 1_000_000
CLOCK_SKEW = 300 * SECOND  # how far a client's clock may be off
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def now() -> int:
    """Return the current time."""
    return micros(datetime.now(UTC))


def micros(time: datetime) -> int:
    """Return a time as it is stored; without a zone it is taken as UTC."""
    aware = time.replace(tzinfo=UTC) if time.tzinfo is None else time
    return (aware - _EPOCH) // _MICROSECOND


def from_micros(stored: int) -> datetime:
    """Return a stored time."""
    return _EPOCH + stored * _MICROSECOND


def event_time(stored: int, created: int, window: float) -> datetime:
    """Return the time of an event, no further than the clock skew outside its impression's window.

    Events are checked before they are stored, but earlier versions stored any time a client sent, even in the year 0.

    >>> [str(event_time(stored, 0, 60.0)) for stored in (-(10**17), 7 * SECOND, 10**18)]
    ['1969-12-31 23:55:00+00:00', '1970-01-01 00:00:07+00:00', '1970-01-01 00:06:00+00:00']
    """
    first, last = created - CLOCK_SKEW, created + round(window * SECOND) + CLOCK_SKEW
    return from_micros(min(max(stored, first), last))
