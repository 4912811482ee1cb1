"""UBI: logs of User Behavior Insights, schema 1.3.0, as JSON lines of queries and events.

OpenSearch and others log searches in UBI: a row per query, and a row per user action, which names its query by
`query_id` (https://github.com/o19s/ubi). If multileave combined the results, the impression is in the query's
`query_attributes`, and `replay_ubi` infers it. `integrations.ubi_teams` reads team drafts made by other software,
whose events name the ranker of each hit.

Rows may be as exported, with the document under `_source`. Queries and events may be in the same files: a row with
`action_name` is an event.
"""

import json
from collections.abc import Mapping
from typing import Any

from multileave.errors import DataError
from multileave.impression import Impression
from multileave.log.reader import LATEST, RowError, short
from multileave.replay.engine import replay
from multileave.replay.reading.files import LogFile, Paths, find_files
from multileave.replay.report import Replay

__all__ = ["ATTRIBUTE", "Ubi", "query_attributes", "replay_ubi"]

ATTRIBUTE = "multileave"
"""The key of the impression in query_attributes."""


def query_attributes(impression: Impression) -> dict[str, str]:
    """Return the `query_attributes` of the query that an impression answers.

    The impression is JSON text, as OpenSearch's plugin accepts only strings.

    >>> from multileave import TeamDraft
    >>> impression = TeamDraft().combine({"bm25": "abc", "dense": "bca"}, k=2, seed=4)
    >>> text = query_attributes(impression)["multileave"]
    >>> Impression.from_dict(json.loads(text)) == impression
    True
    """
    return {ATTRIBUTE: json.dumps(impression.to_dict(), separators=(",", ":"), allow_nan=False)}


def replay_ubi(
    queries: Paths, events: Paths, *, unit: str | None = "client_id", first_ordinal: int = 1, **options: Any
) -> Replay:
    """Infer UBI queries whose `query_attributes` hold our impressions, with their events.

    Queries without an impression are left out and counted as filtered.

    queries, events: files, folders or URIs of JSON lines; they may be the same.
    unit: `client_id`, or another field of queries or of their `query_attributes`.
    first_ordinal: the ordinal of the first result, 1 or 0. Used only for events without object_id.
    options: those of `multileave.replay.replay`.
    """
    for paths in (queries, events):
        line_files(paths, options.get("filesystem"))
    return replay(queries, clicks=events, unit=unit, other=Ubi(first_ordinal), **options)


class Ubi:
    """How UBI rows become ours; see `multileave.replay.reading.parts.OtherFormat`."""

    def __init__(self, first_ordinal: int = 1) -> None:
        self.first_ordinal = first_ordinal

    def impression_id(self, raw: Mapping[str, Any]) -> Any:
        """Return a query's id."""
        row = unwrapped(raw)
        return None if "action_name" in row else row.get("query_id")

    def impression(self, raw: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the impression of a query, None if it has none of ours."""
        row = unwrapped(raw)
        attributes = attributes_of(row, "query_attributes")
        held = attributes.get(ATTRIBUTE)
        if "action_name" in row or held is None:
            return None
        if isinstance(held, str):
            try:
                held = json.loads(held)
            except (ValueError, RecursionError) as error:
                raise RowError(f"{ATTRIBUTE!r} of 'query_attributes' is not JSON: {error}"[:200]) from None
        if not isinstance(held, Mapping):
            raise RowError(f"{ATTRIBUTE!r} of 'query_attributes' is {short(held)}; expected an impression.")
        if row.get("query_id") in (None, ""):
            raise RowError("The query has no 'query_id', so no event can refer to it.")
        return {
            **query_fields(row, attributes),
            **held,
            "impression_id": row["query_id"],
            "timestamp": time_of(row),
            "query": row.get("user_query"),
        }

    def click(self, raw: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return an event on a result, None if it is on something else or has no query."""
        row = unwrapped(raw)
        if "action_name" not in row or row.get("query_id") in (None, ""):
            return None
        attributes = attributes_of(row, "event_attributes")
        document, ordinal = document_of(attributes), ordinal_of(attributes)
        if document is None and ordinal is None:
            return None
        return {
            "impression_id": row["query_id"],
            "document": document,
            # The object is more reliable: some count from 0 and some from 1.
            "position": ordinal - self.first_ordinal if document is None and ordinal is not None else None,
            "action": row["action_name"],
            "timestamp": time_of(row),
            "dwell": attributes.get("dwell_time"),
        }


def line_files(paths: Paths, filesystem: Any = None) -> list[LogFile]:
    """Return the files of paths, which must be JSON lines."""
    files = find_files(paths, filesystem)
    for file in files:
        if file.is_parquet:
            raise DataError(
                f"{file.path} is Parquet; expected JSON lines of UBI queries and events. Export them as JSON lines."
            )
    return files


def unwrapped(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row, which an export keeps under `_source`."""
    source = raw.get("_source")
    return source if isinstance(source, Mapping) else raw


def attributes_of(row: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """Return an object of a row, empty if it has none."""
    value = row.get(field)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise RowError(f"{field!r} is {short(value)}; expected an object.")
    return value


def query_fields(row: Mapping[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a query and of its attributes that can be a unit; empty text is no value."""
    both = {**attributes, **{name: value for name, value in row.items() if value not in (None, "")}}
    return {name: value for name, value in both.items() if isinstance(value, str | int | float) and value != ""}


def document_of(attributes: Mapping[str, Any]) -> Any:
    """Return the id of the result that an event is about, None if it is about something else."""
    target = attributes_of(attributes, "object")
    found = (target.get(name) for name in ("object_id", "id", "internal_id"))
    return next((value for value in found if value not in (None, "")), None)


def ordinal_of(attributes: Mapping[str, Any]) -> int | None:
    """Return the ordinal of the result that an event is about, None if it is not given."""
    ordinal = attributes_of(attributes, "position").get("ordinal")
    if ordinal is None:
        return None
    if type(ordinal) is not int or abs(ordinal) >= 2**31 - 1:
        raise RowError(f"The 'ordinal' of a position is {short(ordinal)}; expected an integer.")
    return None if ordinal < 0 else ordinal


def time_of(row: Mapping[str, Any]) -> Any:
    """Return a row's time as the log's reader takes it; large numbers are milliseconds."""
    value = row.get("timestamp")
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) > LATEST:
        return value / 1000
    return value
