"""Batches of events: a JSON array, {"events": [...]}, or a JSON object on each line.

An invalid event is rejected with its reason, and the others of its batch are recorded.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from anyio import to_thread
from fastapi import Request
from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from multileave.live.access.rate_limits import client_of
from multileave.live.errors import Invalid, TooLarge, TooMany
from multileave.live.http.error_responses import Malformed, UnsupportedMedia, invalid_body, printable
from multileave.live.http.request_body import JSON, SMALL, Parts, media_type, read_body
from multileave.live.records import EVENT, Event, Receipt, request_config
from multileave.live.settings import is_loopback

LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")
BEACON = "text/plain"  # what a browser's sendBeacon sends a string as
LONGEST_ID = 128
FIELDS = 8  # of an event, at most
KILOBYTE = 1000
EventList = Annotated[list[Event], Field(fail_fast=True)]  # the first invalid event is enough to read them one by one


@dataclass(frozen=True)
class Events:
    """A batch of events."""

    __pydantic_config__ = request_config({"events": [EVENT]})

    events: EventList


_event: TypeAdapter[Event] = TypeAdapter(Event)
_events: TypeAdapter[Events] = TypeAdapter(Events)
_list: TypeAdapter[list[Event]] = TypeAdapter(EventList)


class EventBatch:
    """A dependency that reads a batch; `http.openapi` describes it by `models` and `content`."""

    models: tuple[type, ...] = (Event, Events)

    def content(self) -> dict[str, Any]:
        """Return how OpenAPI describes the body."""
        event = {"$ref": "#/components/schemas/Event"}
        either = {"anyOf": [{"type": "array", "items": event}, {"$ref": "#/components/schemas/Events"}]}
        lines = {"type": "string", "description": "One event as JSON per line."}
        return {
            JSON: {"schema": either, "examples": {"array": {"value": [EVENT]}}},
            LINES[0]: {"schema": lines, "examples": {"lines": {"value": to_json(EVENT).decode() + "\n"}}},
        }

    async def __call__(self, request: Request) -> list[Event | Receipt]:
        """Return the batch."""
        kind = media_type(request)
        if kind not in (JSON, BEACON, *LINES):
            found = printable(kind, 50) or "of no type"
            raise UnsupportedMedia(f"The request body is {found}; expected Content-Type: {JSON} or {LINES[0]}.")
        settings = request.app.state.settings
        spent = _spend(request, 1)
        body = await read_body(request, settings.most_body)
        spent = _spend(request, len(body) // KILOBYTE, spent)  # a body that is refused costs time, too
        read = partial(read_batch, body, lines=kind in LINES, most=settings.most_events)
        batch = read() if len(body) <= SMALL else await to_thread.run_sync(read)
        _spend(request, len(batch), spent)
        return batch


def _is_limited(request: Request) -> bool:
    """Whether a request's address may send a limited number of events: it has no key and is not on this machine."""
    settings = request.app.state.settings
    if not settings.open and "authorization" in request.headers:
        return False  # the key has been checked
    return settings.limit_loopback or (request.client is not None and not is_loopback(request.client.host))


def _spend(request: Request, events: int, spent: int = 0) -> int:
    """Count the events of a request, or refuse it if its address has sent too many in this minute.

    spent: how many the request has been counted as. Return how many it is counted as now.
    """
    if events <= spent or not _is_limited(request):
        return spent
    host = "" if request.client is None else request.client.host
    wait = request.app.state.event_limit.wait(client_of(host), events - spent, already=spent)
    if wait:
        most = request.app.state.settings.events_per_minute
        raise TooMany(f"This address sent over {most:,} events within a minute. Send them later, or with a key.", wait)
    return events


def read_batch(body: bytes, *, lines: bool, most: int) -> list[Event | Receipt]:
    """Return the events of a body, or the receipts of those that cannot be read.

    >>> read_batch(b'[{"id": "e1", "impression": "i"}, 7]', lines=False, most=10)
    [Event(id='e1', ...), Receipt(id=None, accepted=False, ..., reason='expected an object')]
    """
    if len(body) > SMALL:
        Parts(nested=2 * most + 10, keys=FIELDS * most, commas=FIELDS * most).check(body)
    if lines:
        breaks = body.count(b"\n")
        if breaks > 2 * most + 1:  # every other line may be blank
            raise TooLarge(f"The batch has {breaks:,} lines; expected at most {most:,} events. Send several batches.")
        written = [line for line in body.split(b"\n") if line.strip()]
        _check_size(len(written), most)
        return [_read_event(line) for line in written]
    try:
        batch = _events.validate_json(body).events if _is_object(body) else _list.validate_json(body)
    except ValidationError:
        return _read_one_by_one(body, most)
    _check_size(len(batch), most)
    return list(batch)


def _read_one_by_one(body: bytes, most: int) -> list[Event | Receipt]:
    """Read a batch in which something is invalid."""
    try:
        data = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Malformed(f"The request body is not JSON: {error}.") from None
    if isinstance(data, dict):
        if data.keys() != {"events"}:
            raise Invalid('The request body is an object with other keys than "events"; expected {"events": [...]}.')
        data = data["events"]
    if not isinstance(data, list):
        raise Invalid('The request body has no list of events; expected an array or {"events": [...]}.')
    _check_size(len(data), most)
    return [_read_event(to_json(entry)) for entry in data]


def _read_event(written: bytes) -> Event | Receipt:
    try:
        return _event.validate_json(written)
    except ValidationError as error:
        problem = invalid_body(error)
    if isinstance(problem, Malformed):
        return Receipt(None, False, code="malformed", reason=str(problem).replace("The request body", "The line"))
    entry = from_json(written)
    if not isinstance(entry, dict):
        return Receipt(None, False, code="invalid", reason="expected an object")
    given = entry.get("id")
    known = given if isinstance(given, str) and 0 < len(given) <= LONGEST_ID else None
    reasons = [f"{detail['where']}: {detail['reason']}" for detail in problem.details[:3]]
    return Receipt(known, False, code="invalid", reason="; ".join(reasons))


def _is_object(body: bytes) -> bool:
    return body.lstrip(b" \t\r\n")[:1] == b"{"


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise TooLarge(f"The batch has {size:,} events; expected at most {most:,}. Send them in several batches.")
