"""Batches of events: a JSON array, {"events": [...]}, or a JSON object on each line.

An event that makes no sense is rejected by itself, with its reason, and the others of its batch go on.
"""

from dataclasses import dataclass
from typing import Any, Literal

from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from multileave.live.errors import Invalid, TooLarge
from multileave.live.http.body_limits import JSON, media_type, read_body
from multileave.live.http.error_responses import Malformed, UnsupportedMedia, bad_body, printable
from multileave.live.http.requests import EVENT, EventBody, EventsBody, events_list

__all__ = ["EventBatch", "Rejected", "read_batch"]

LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")
BEACON = "text/plain"  # what a browser's sendBeacon sends a string as
LONGEST_ID = 128


@dataclass(frozen=True)
class Rejected:
    """An event that could not be read; the fields of a `Receipt`, though its id may be missing."""

    id: str | None
    code: str
    reason: str
    accepted: Literal[False] = False
    duplicate: Literal[False] = False


class EventBatch:
    """A dependency that reads a batch; `live.openapi` describes it by `models` and `content`."""

    models: tuple[type[BaseModel], ...] = (EventBody, EventsBody)

    def content(self) -> dict[str, Any]:
        """Return how OpenAPI describes the body."""
        event = {"$ref": "#/components/schemas/EventBody"}
        either = {"anyOf": [{"type": "array", "items": event}, {"$ref": "#/components/schemas/EventsBody"}]}
        lines = {"type": "string", "description": "an event as JSON on each line"}
        return {
            JSON: {"schema": either, "examples": {"array": {"value": [EVENT]}}},
            LINES[0]: {"schema": lines, "examples": {"lines": {"value": to_json(EVENT).decode() + "\n"}}},
        }

    async def __call__(self, request: Request) -> list[EventBody | Rejected]:
        """Return the batch."""
        kind = media_type(request)
        if kind not in (JSON, BEACON, *LINES):
            raise UnsupportedMedia(
                f"the body is {printable(kind, 50) or 'of no type'}; expected Content-Type: {JSON} or {LINES[0]}."
            )
        settings = request.app.state.settings
        body = await read_body(request, settings.most_body)
        return read_batch(body, lines=kind in LINES, most=settings.most_events)


def read_batch(body: bytes, *, lines: bool, most: int) -> list[EventBody | Rejected]:
    """Return the events of a body, or why each cannot be read.

    >>> read_batch(b'[{"id": "e1", "impression": "i"}, 7]', lines=False, most=10)
    [EventBody(id='e1', ...), Rejected(id=None, code='invalid', reason='expected an object', ...)]
    """
    if lines:
        written = [line for line in body.split(b"\n") if line.strip()]
        _check_size(len(written), most)
        return [_read_event(line) for line in written]
    try:
        batch = EventsBody.model_validate_json(body).events if _is_object(body) else events_list.validate_json(body)
    except ValidationError:
        return _read_one_by_one(body, most)
    _check_size(len(batch), most)
    return list(batch)


def _read_one_by_one(body: bytes, most: int) -> list[EventBody | Rejected]:
    """Read a batch of which some part makes no sense."""
    try:
        data = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Malformed(f"the body is no JSON: {error}.") from None
    if isinstance(data, dict):
        if data.keys() != {"events"}:
            raise Invalid('the body is an object without "events", or with more than that; expected {"events": [...]}.')
        data = data["events"]
    if not isinstance(data, list):
        raise Invalid('the body holds no list of events; expected an array, or {"events": [...]}.')
    _check_size(len(data), most)
    return [_read_event(to_json(entry)) for entry in data]


def _read_event(written: bytes) -> EventBody | Rejected:
    try:
        return EventBody.model_validate_json(written)
    except ValidationError as error:
        problem = bad_body(error)
    if isinstance(problem, Malformed):
        return Rejected(None, "malformed", str(problem).replace("the body", "the line"))
    entry = from_json(written)
    if not isinstance(entry, dict):
        return Rejected(None, "invalid", "expected an object")
    given = entry.get("id")
    known = given if isinstance(given, str) and 0 < len(given) <= LONGEST_ID else None
    reasons = [f"{detail['where']}: {detail['reason']}" for detail in problem.details[:3]]
    return Rejected(known, "invalid", "; ".join(reasons))


def _is_object(body: bytes) -> bool:
    return body.lstrip(b" \t\r\n")[:1] == b"{"


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise TooLarge(f"the batch has {size:,} events; expected at most {most:,}. Send them in several batches.")
