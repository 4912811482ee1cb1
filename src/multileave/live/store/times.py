"""Times as the store keeps them: microseconds since 1970, in UTC."""

from datetime import UTC, datetime, timedelta

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
