"""The log format: what stands in a row of impressions, of clicks, and of both joined.

The same columns in two notations. In Parquet a row follows the Arrow schemas below. In JSON lines an
impression is what `Impression.to_dict` wrote, so nested ranks and [position, document] pins, with the
envelope (impression_id, timestamp, user_id, ...) beside it; the flat form of Parquet is read as well.

Ranks are flat, document after document, 0 where a ranker did not return it. They are int32 in memory;
Parquet packs them into as few bits as the largest needs. Document ids are strings; where some are not,
`ids` is "json" and each is the JSON text of the id. Columns that are not named here are kept out of
inference and can be filtered by, or be the unit.
"""

import json
from collections.abc import Hashable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from multileave.errors import ImpressionError, MissingExtra
from multileave.impression import ABSENT, FORMAT_VERSION, Impression

try:
    import pyarrow as pa
except ImportError as error:
    raise MissingExtra("logs need pyarrow, which is absent: pip install 'multileave[replay]'") from error

__all__ = ["CLICKS", "IMPRESSIONS", "JOINED", "from_row", "json_line", "to_row"]

TIME = pa.timestamp("us", tz="UTC")

IMPRESSIONS = pa.schema(
    [
        pa.field("version", pa.int32(), nullable=False),
        pa.field("impression_id", pa.string()),
        pa.field("timestamp", TIME),
        pa.field("user_id", pa.string()),
        pa.field("session_id", pa.string()),
        pa.field("query", pa.string()),
        pa.field("method", pa.string(), nullable=False),
        pa.field("rankers", pa.list_(pa.string()), nullable=False),
        pa.field("k", pa.int32(), nullable=False),
        pa.field("shown", pa.list_(pa.string()), nullable=False),
        pa.field("hidden", pa.list_(pa.string()), nullable=False),
        pa.field("pinned", pa.list_(pa.int32()), nullable=False),
        pa.field("ids", pa.string()),
        pa.field("lengths", pa.list_(pa.int32()), nullable=False),
        pa.field("ranks", pa.list_(pa.int32()), nullable=False),
        pa.field("note", pa.list_(pa.int32()), nullable=False),
        pa.field("stat", pa.list_(pa.float64()), nullable=False),
    ]
)
"""The Arrow schema of impressions."""

# What a click is, without the impression it belongs to. Either document or position is needed; where
# both are given the position counts. dwell: seconds spent on the document. No action: a click.
EVENT = [
    pa.field("document", pa.string()),
    pa.field("position", pa.int32()),
    pa.field("action", pa.string()),
    pa.field("timestamp", TIME),
    pa.field("dwell", pa.float64()),
]
CLICKS = pa.schema([pa.field("impression_id", pa.string(), nullable=False), *EVENT])
"""The Arrow schema of clicks in files of their own."""
JOINED = IMPRESSIONS.append(pa.field("clicks", pa.list_(pa.struct(EVENT)), nullable=False))
"""The Arrow schema of impressions with their clicks."""


def to_row(impression: Impression, **envelope: Any) -> dict[str, Any]:
    """Return an impression as a row of `IMPRESSIONS`, or of `JOINED` with clicks=[...].

    envelope: impression_id, timestamp, user_id, session_id, query, clicks.

    >>> from multileave import TeamDraft
    >>> impression = TeamDraft().combine({"bm25": "abc", "dense": "bca"}, k=2, seed=4)
    >>> from_row(to_row(impression, impression_id="i1", user_id="u7")) == impression
    True
    """
    data = impression.to_dict()
    plain = all(isinstance(document, str) for document in (*impression.shown, *impression.hidden))
    for name in ("shown", "hidden"):
        data[name] = data[name] if plain else [json.dumps(document) for document in data[name]]
    data["ids"] = None if plain else "json"
    data["pinned"] = [position for position, _ in impression.pinned]
    data["ranks"] = np.where(impression.ranks == ABSENT, 0, impression.ranks).ravel().tolist()
    return {**dict.fromkeys(name for name in IMPRESSIONS.names if name not in data), **data, **envelope}


def from_row(row: Mapping[str, Any]) -> Impression:
    """Return the impression of a row in either notation, checked."""
    data = dict(row)
    if data.get("ids") == "json":
        try:
            for name in ("shown", "hidden"):
                data[name] = [json.loads(document) for document in data[name]]
        except (TypeError, ValueError) as error:
            raise ImpressionError(
                f"'ids' is 'json' and {name!r} holds {data[name]!r}; expected JSON texts ({error})."
            ) from error
    pinned, shown, ranks = data.get("pinned"), data.get("shown"), data.get("ranks")
    if isinstance(pinned, list) and isinstance(shown, list):
        data["pinned"] = [[p, shown[p]] if type(p) is int and 0 <= p < len(shown) else p for p in pinned]
    width = len(data["rankers"]) if isinstance(data.get("rankers"), list) else 0
    if isinstance(ranks, list) and ranks and width and not isinstance(ranks[0], list) and len(ranks) % width == 0:
        data["ranks"] = [ranks[x : x + width] for x in range(0, len(ranks), width)]
    return Impression.from_dict(data)


def json_line(fields: Mapping[str, Any]) -> bytes:
    """Return fields as one JSON line with its newline; times are written as ISO 8601 in UTC."""
    spelled = {name: spell_time(value) if isinstance(value, datetime) else value for name, value in fields.items()}
    return json.dumps(spelled, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def spell_time(time: datetime) -> str:
    """Return a time as ISO 8601 in UTC; one without a zone is taken to be in UTC.

    >>> spell_time(datetime(2026, 5, 4, 12, 0, 0, 250000))
    '2026-05-04T12:00:00.250000Z'
    """
    aware = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    return aware.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def document_text(document: Hashable) -> str:
    """Return what documents are matched by: a string itself, anything else its JSON text.

    >>> document_text("d1"), document_text(17), document_text(None)
    ('d1', '17', 'null')
    """
    return document if isinstance(document, str) else json.dumps(document)


assert FORMAT_VERSION == 1, "a new format version needs a row of its own here"
