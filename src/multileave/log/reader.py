"""Reading rows of a log one by one, strictly: the definition of a valid row.

Whatever a row holds, it is returned in the flat notation of the Arrow schema, checked, or raises `RowError`. Replay's
columnar reading (`replay.reading.preparing`) accepts only batches that are valid as a whole, and passes all others
here. Whether ranks, lengths and notes fit each other is checked by `Impression.from_dict`, and in replay by a kernel.
"""

import json
import math
from collections.abc import Hashable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from multileave.errors import ImpressionError
from multileave.impression import ABSENT, ALONE, FORMAT_VERSION, Impression

MICROSECONDS = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LARGEST_VALUE = 1e9  # of an event, so that those of a page add up to no more than an arm's sums can hold
LATEST = 2**33  # seconds since 1970; anything later, in the year 2242, is in milliseconds


class RowError(ImpressionError):
    """Why a row is invalid; `kind` is what it is counted as."""

    def __init__(self, reason: str, kind: str = "malformed") -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


def from_row(row: Mapping[str, Any]) -> Impression:
    """Return the impression of a row in either notation, checked.

    >>> from multileave import TeamDraft
    >>> from multileave.log import to_row
    >>> impression = TeamDraft().combine({"bm25": "abc", "dense": "bca"}, k=2, seed=4)
    >>> from_row(to_row(impression, impression_id="i1", user_id="u7")) == impression
    True
    """
    held = _read_impression(row)
    shown, ranks, width = held["shown"], held["ranks"], len(held["rankers"])
    held["ranks"] = [ranks[start : start + width] for start in range(0, len(ranks), width or 1)]
    held["pinned"] = [
        pin if isinstance(pin, list) else [pin, shown[pin] if 0 <= pin < len(shown) else None] for pin in row["pinned"]
    ]
    return Impression.from_dict({**held, "version": row["version"], "stat": row.get("stat")})


def read_row(raw: Any, unit: str | None) -> dict[str, Any]:
    """Return a row of impressions in the flat notation, or raise `RowError`.

    unit: the column that is returned as `unit`. `documents` are the shown ids as text, and times are in microseconds.
    """
    held = _read_impression(raw)
    events = raw.get("clicks")
    if events is not None and not isinstance(events, list):
        raise RowError(f"'clicks' is {short(events)}; expected a list.")
    return {
        **held,
        "documents": [_text(document) for document in held["shown"]],
        "stat": _figures(raw.get("stat")),
        "impression_id": read_name(raw, "impression_id"),
        "unit": None if unit is None else read_name(raw, unit),
        "time": read_time(raw.get("timestamp")),
        "clicks": [_read_event({"document": e} if isinstance(e, str) else e) for e in events or ()],
    }


def _figures(stat: Any) -> list[float]:
    """Return the figures of a draw, none if they are not numbers: only rates need them."""
    plain = isinstance(stat, list) and all(isinstance(x, int | float) and abs(x) < 1e300 for x in stat)
    return [float(x) for x in stat] if plain else []


def read_click(raw: Any) -> dict[str, Any]:
    """Return a row of clicks as an event with its impression_id, or raise `RowError`."""
    event = _read_event(raw)
    event["impression_id"] = read_name(raw, "impression_id")
    if event["impression_id"] is None:
        raise RowError("The click has no 'impression_id'.")
    return event


def _read_impression(raw: Any) -> dict[str, Any]:
    """Return the columns that make up an impression, flat; ids as they were before they became text."""
    if not isinstance(raw, Mapping):
        raise RowError(f"The row is {short(raw)}; expected an object.")
    version, method, rankers = raw.get("version"), raw.get("method"), raw.get("rankers")
    if type(version) is not int:
        raise RowError(f"'version' is {short(version)}; expected {FORMAT_VERSION}.")
    if version != FORMAT_VERSION:
        raise RowError(f"'version' is {short(version)}; this multileave reads {FORMAT_VERSION}.", "unknown version")
    if not isinstance(method, str):
        raise RowError(f"'method' is {short(method)}; expected a string.")
    if not isinstance(rankers, list) or not all(isinstance(name, str) for name in rankers):
        raise RowError(f"'rankers' is {short(rankers)}; expected a list of names.")
    shown, hidden = _ids(raw, "shown"), _ids(raw, "hidden")
    pinned, ranks = _list(raw, "pinned"), _list(raw, "ranks")
    if pinned and isinstance(pinned[0], list):
        pinned = [pin[0] if isinstance(pin, list) and pin else None for pin in pinned]
    if ranks and isinstance(ranks[0], list):
        if not all(isinstance(row, list) and len(row) == len(rankers) for row in ranks):
            raise RowError(f"'ranks' is {short(ranks)}; expected rows of {len(rankers)}.")
        ranks = [rank for row in ranks for rank in row]
    note = _list(raw, "note")
    drawn = len(shown) + len(hidden) - len(pinned)
    for name, count, each in (("ranks", len(ranks), len(rankers)), ("note", len(note), 1)):
        if (count or (name == "note" and method == ALONE)) and count != drawn * each:
            raise RowError(f"{name!r} has {count} entries; expected {each} for each of {drawn} documents.")
    return {
        "method": method,
        "rankers": rankers,
        "k": _integers("k", [raw.get("k")])[0],
        "shown": shown,
        "hidden": hidden,
        "pinned": _integers("pinned", pinned),
        "lengths": _integers("lengths", _list(raw, "lengths")),
        "ranks": _integers("ranks", ranks),
        "note": _integers("note", note),
    }


def _read_event(raw: Any) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise RowError(f"A click is {short(raw)}; expected an object.")
    document, position, action, dwell, value = map(raw.get, ("document", "position", "action", "dwell", "value"))
    if document is None and position is None:
        raise RowError("A click has neither 'document' nor 'position'; expected one of them.")
    if document is not None and not isinstance(document, str | int | float):
        raise RowError(f"The 'document' of a click is {short(document)}; expected an id.")
    if position is not None and (type(position) is not int or abs(position) > ABSENT):
        raise RowError(f"The 'position' of a click is {short(position)}; expected an integer from 0.")
    if action is not None and not isinstance(action, str):
        raise RowError(f"The 'action' of a click is {short(action)}; expected a name.")
    if dwell is not None and (isinstance(dwell, bool) or not isinstance(dwell, int | float) or abs(dwell) > 1e300):
        raise RowError(f"The 'dwell' of a click is {short(dwell)}; expected seconds.")
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise RowError(f"The 'value' of a click is {short(value)}; expected a number.")
    if value is not None and not abs(value) <= LARGEST_VALUE:
        raise RowError(f"The 'value' of a click is {short(value)}; expected at most {LARGEST_VALUE:g}.")
    return {
        "document": None if document is None else _text(document),
        "position": position,
        "action": None if action is None else _clean(action),
        "time": read_time(raw.get("timestamp")),
        "dwell": None if dwell is None or math.isnan(dwell) else float(dwell),
        "value": None if value is None else float(value),
    }


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
    raise RowError(f"'timestamp' is {short(value)}; expected ISO 8601 or seconds since 1970.")


def parse_line(line: bytes) -> dict[str, Any]:
    """Return the object of a JSON line, or raise `RowError` if it is not one."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RowError(f"The line is not JSON: {error}"[:200]) from None
    if not isinstance(row, dict):
        raise RowError(f"The row is {short(row)}; expected an object.")
    return row


def document_text(document: Hashable) -> str:
    """Return the text that documents are matched by: a string as it is, anything else as JSON.

    >>> document_text("d1"), document_text(17), document_text(None)
    ('d1', '17', 'null')
    """
    return document if isinstance(document, str) else json.dumps(document)


def id_text(value: Any) -> str | None:
    """Return an id as text, None if it is not an id."""
    if isinstance(value, str):
        return _clean(value)
    return str(value) if type(value) is int and abs(value) < 2**64 else None


def short(value: Any) -> str:
    """Return a value as text for an error message."""
    if isinstance(value, int) and abs(value) > 10**30:
        return "a huge integer"
    text = ascii(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _ids(raw: Mapping[str, Any], field: str) -> list[Any]:
    """Return document ids, decoded if they are JSON text."""
    found = _list(raw, field)
    if raw.get("ids") == "json":
        try:
            found = [json.loads(document) for document in found]
        except (TypeError, ValueError, RecursionError):
            raise RowError(f"'ids' is 'json' and {field!r} is {short(found)}; expected JSON texts.") from None
    if not all(isinstance(document, str | int | float | None) for document in found):
        raise RowError(f"{field!r} is {short(found)}; expected document ids.")
    return found


def _text(document: Any) -> str:
    try:
        return _clean(document_text(document))
    except ValueError:
        raise RowError("A document id is an integer of thousands of digits; expected a shorter one.") from None


def _clean(text: str) -> str:
    """Return a string that UTF-8 can hold: JSON allows half a surrogate pair."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def read_name(raw: Mapping[str, Any], field: str) -> str | None:
    """Return a name or an id of a row as text, None if there is none; raise `RowError` if it is something else."""
    value = raw.get(field)
    text = id_text(value)
    if text is None and value is not None:
        raise RowError(f"{field!r} is {short(value)}; expected a string or an integer.")
    return text


def _list(raw: Mapping[str, Any], field: str) -> list[Any]:
    value = raw.get(field)
    if not isinstance(value, list):
        raise RowError(f"{field!r} is {short(value)}; expected a list.")
    return value


def _integers(field: str, values: list[Any]) -> list[int]:
    for value in values:
        if type(value) is not int or not -ABSENT <= value <= ABSENT:
            raise RowError(f"{field!r} contains {short(value)}; expected integers below 2**31.")
    return values
