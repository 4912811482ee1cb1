"""Routes of traffic: lists to show and events. Searches wait for these."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic_core import to_json

from multileave.live.access.rate_limits import MINUTE
from multileave.live.errors import TooMany
from multileave.live.http.auth import Allow, service_of
from multileave.live.http.event_batches import EventBatch
from multileave.live.http.request_body import JSON, JsonBody, check_lengths, parts_of_a_search
from multileave.live.http.responses import EventsAnswer
from multileave.live.http.routes import API, Number, errors
from multileave.live.http.routes.fast_route import FastRoute
from multileave.live.records import Event, Receipt, Shown, ShowRequest

EVENTS = f"{API}/events"
router = APIRouter(tags=["traffic"], route_class=FastRoute)


@router.post(
    API + "/experiments/{number}/impressions",
    dependencies=[Depends(Allow("ingest"))],
    response_model=Shown,
    responses=errors(404),
)
async def show(
    number: Number, body: Annotated[ShowRequest, Depends(JsonBody(ShowRequest, parts_of_a_search))], request: Request
) -> Response:
    """Combine rankings into one list to show. The same request again is the same impression, counted once."""
    state = request.app.state
    check_lengths(body, state.settings.longest_id)
    shown = await service_of(request).show(number, body)
    state.metrics.count_shown(recorded=shown.recorded)
    return Response(to_json(shown), media_type=JSON)


@router.post(
    EVENTS,
    dependencies=[Depends(Allow("ingest", scope="any", without_key=True))],
    response_model=EventsAnswer,
    responses=errors(429),
)
async def record(batch: Annotated[list[Event | Receipt], Depends(EventBatch())], request: Request) -> Response:
    """Record a batch of events. Each is accepted or rejected separately; repeats are counted once.

    No key is required: the impression's id is signed, and permits reporting on that impression. Without a key, an
    address may send a limited number of events in a minute.
    """
    recorded = iter(await service_of(request).record([entry for entry in batch if isinstance(entry, Event)]))
    receipts = [next(recorded) if isinstance(entry, Event) else entry for entry in batch]
    request.app.state.metrics.count_events((receipt.accepted, receipt.duplicate, receipt.code) for receipt in receipts)
    if receipts and all(receipt.code == TooMany.code for receipt in receipts):
        raise TooMany("The impression got too many events within a minute. Send them later.", MINUTE)
    accepted = sum(receipt.accepted for receipt in receipts)
    answer = {
        "accepted": accepted,
        "duplicates": sum(receipt.duplicate for receipt in receipts),
        "rejected": len(receipts) - accepted,
        "receipts": receipts,
    }
    return Response(to_json(answer), media_type=JSON)
