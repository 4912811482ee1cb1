"""Rows one by one: the slow, strict reading of what came from JSON, or does not fit the Arrow schema.

Whatever is in a row, it either becomes a prepared row (`PREPARED`) or raises `RowError` with the reason.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from multileave.impression import ABSENT, FORMAT_VERSION
from multileave.log.schema import document_text
from multileave.replay.reading.comparisons import Headers, RowError

__all__ = ["EVENT_LIST", "MICROSECONDS", "PREPARED", "id_text", "prepare_click", "prepare_row", "read_time"]

MICROSECONDS = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = 2**33  # seconds since 1970; what is later, in the year 2242, was given in milliseconds

EVENT_FIELDS = [
    pa.field("document", pa.string()),
    pa.field("position", pa.int32()),
    pa.field("action", pa.string()),
    pa.field("time", pa.int64()),
    pa.field("dwell", pa.float64()),
]
EVENT_LIST = pa.list_(pa.struct(EVENT_FIELDS))

# A row with all that inference needs: `header` numbers its method and rankers, `documents` are the
# shown ids as text, times are microseconds, and file, row_group and row say where it came from.
PREPARED = pa.schema(
    [
        ("impression_id", pa.string()),
        ("unit", pa.string()),
        ("time", pa.int64()),
        ("header", pa.int32()),
        ("k", pa.int32()),
        ("lengths", pa.list_(pa.int32())),
        ("ranks", pa.list_(pa.int32())),
        ("note", pa.list_(pa.int32())),
        ("pinned", pa.list_(pa.int32())),
        ("documents", pa.list_(pa.string())),
        ("clicks", EVENT_LIST),
        ("file", pa.int32()),
        ("row_group", pa.int32()),
        ("row", pa.int64()),
    ]
)


def prepare_row(raw: Any, unit: str | None, headers: Headers) -> dict[str, Any]:
    """Return a prepared row without its origin, or raise `RowError`."""
    if not isinstance(raw, Mapping):
        raise RowError("malformed", f"a row is an object, not {_short(raw)}")
    version = raw.get("version")
    if type(version) is not int:
        raise RowError("malformed", f"'version' is {_short(version)}; expected {FORMAT_VERSION}")
    if version != FORMAT_VERSION:
        raise RowError("unknown version", f"'version' is {_short(version)}; this multileave reads {FORMAT_VERSION}")
    method, rankers = raw.get("method"), raw.get("rankers")
    if not isinstance(method, str):
        raise RowError("malformed", f"'method' is {_short(method)}; expected a string")
    if not isinstance(rankers, list) or not all(isinstance(name, str) for name in rankers):
        raise RowError("malformed", f"'rankers' is {_short(rankers)}; expected a list of names")
    header = headers.number(method, tuple(rankers))
    documents = _documents(raw)
    pinned = _list(raw, "pinned")
    if pinned and isinstance(pinned[0], list):
        pinned = [pin[0] if isinstance(pin, list) and pin else None for pin in pinned]
    ranks = _list(raw, "ranks")
    if ranks and isinstance(ranks[0], list):
        if not all(isinstance(row, list) and len(row) == len(rankers) for row in ranks):
            raise RowError("malformed", f"'ranks' is {_short(ranks)}; expected rows of {len(rankers)}")
        ranks = [rank for row in ranks for rank in row]
    note = _integers("note", _list(raw, "note"))
    drawn = len(documents) + len(_list(raw, "hidden")) - len(pinned)
    for name, count, each in (("ranks", len(ranks), len(rankers)), ("note", len(note), 1)):
        if count and count != drawn * each:
            raise RowError("malformed", f"{name!r} has {count} entries; expected {each} for each of {drawn} documents")
    events = raw.get("clicks")
    if events is not None and not isinstance(events, list):
        raise RowError("malformed", f"'clicks' is {_short(events)}; expected a list")
    return {
        "impression_id": _name(raw, "impression_id"),
        "unit": None if unit is None else _name(raw, unit),
        "time": read_time(raw.get("timestamp")),
        "header": header,
        "k": _integers("k", [raw.get("k")])[0],
        "lengths": _integers("lengths", _list(raw, "lengths")),
        "ranks": _integers("ranks", ranks),
        "note": note,
        "pinned": _integers("pinned", pinned),
        "documents": documents,
        "clicks": [_event({"document": e} if isinstance(e, str) else e) for e in events or ()],
    }


def prepare_click(raw: Any) -> dict[str, Any]:
    """Return a row of a click file as an event with its impression_id, or raise `RowError`."""
    event = _event(raw)
    event["impression_id"] = _name(raw, "impression_id")
    if event["impression_id"] is None:
        raise RowError("malformed", "a click without 'impression_id'")
    return event


def read_time(value: Any) -> int | None:
    """Return microseconds since 1970 for a datetime, an ISO 8601 string or seconds since 1970.

    >>> read_time("1970-01-01T00:00:02Z"), read_time(2), read_time(None)
    (2000000, 2000000, None)
    """
    if value is None:
        return None
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            value = value.replace(tzinfo=UTC) if value.tzinfo is None else value
            since: timedelta = value - EPOCH
            return (since.days * 86_400 + since.seconds) * MICROSECONDS + since.microseconds
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LATEST:
            return round(value * MICROSECONDS)
    except (ValueError, OverflowError):
        pass
    raise RowError("malformed", f"'timestamp' is {_short(value)}; expected ISO 8601 or seconds since 1970")


def _event(raw: Any) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise RowError("malformed", f"a click is an object, not {_short(raw)}")
    document, position, action, dwell = (raw.get(name) for name in ("document", "position", "action", "dwell"))
    if document is None and position is None:
        raise RowError("malformed", "a click has neither 'document' nor 'position'")
    if document is not None and not isinstance(document, str | int | float):
        raise RowError("malformed", f"'document' of a click is {_short(document)}; expected an id")
    if position is not None and (type(position) is not int or abs(position) > ABSENT):
        raise RowError("malformed", f"'position' of a click is {_short(position)}; expected an integer from 0")
    if action is not None and not isinstance(action, str):
        raise RowError("malformed", f"'action' of a click is {_short(action)}; expected a name")
    if dwell is not None and (isinstance(dwell, bool) or not isinstance(dwell, int | float) or abs(dwell) > 1e300):
        raise RowError("malformed", f"'dwell' of a click is {_short(dwell)}; expected seconds")
    return {
        "document": None if document is None else _text(document),
        "position": position,
        "action": None if action is None else _clean(action),
        "time": read_time(raw.get("timestamp")),
        "dwell": None if dwell is None or math.isnan(dwell) else float(dwell),
    }


def _documents(raw: Mapping[str, Any]) -> list[str]:
    shown, ids = _list(raw, "shown"), raw.get("ids")
    _list(raw, "hidden")
    if ids == "json":
        import json

        try:
            shown = [json.loads(document) for document in shown]
        except (TypeError, ValueError, RecursionError):
            raise RowError(
                "malformed", f"'ids' is 'json' and 'shown' is {_short(shown)}; expected JSON texts"
            ) from None
    if not all(isinstance(document, str | int | float | None) for document in shown):
        raise RowError("malformed", f"'shown' is {_short(shown)}; expected document ids")
    return [_text(document) for document in shown]


def _text(document: Any) -> str:
    try:
        return _clean(document_text(document))
    except ValueError:  # an integer of too many digits
        raise RowError("malformed", "a document id is an integer of thousands of digits; expected an id") from None


def _clean(text: str) -> str:
    """Return a string that UTF-8 can hold: JSON allows half a surrogate pair."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def _name(raw: Mapping[str, Any], field: str) -> str | None:
    value = raw.get(field)
    text = id_text(value)
    if text is None and value is not None:
        raise RowError("malformed", f"{field!r} is {_short(value)}; expected a string or an integer")
    return text


def id_text(value: Any) -> str | None:
    """Return an id as text, None if it is none."""
    if isinstance(value, str):
        return _clean(value)
    return str(value) if type(value) is int and abs(value) < 2**64 else None


def _list(raw: Mapping[str, Any], field: str) -> list[Any]:
    value = raw.get(field)
    if not isinstance(value, list):
        raise RowError("malformed", f"{field!r} is {_short(value)}; expected a list")
    return value


def _integers(field: str, values: list[Any]) -> list[int]:
    for value in values:
        if type(value) is not int or not -ABSENT <= value <= ABSENT:
            raise RowError("malformed", f"{field!r} holds {_short(value)}; expected integers below 2**31")
    return values


def _short(value: Any) -> str:
    if isinstance(value, int) and abs(value) > 10**30:
        return "a huge integer"
    text = ascii(value)
    return text if len(text) <= 80 else text[:77] + "..."
