"""Traffic: lists to show, and what users did with them. These are the routes that searches wait for."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic_core import to_json

from multileave.live.http.auth import Allow, service_of
from multileave.live.http.body_limits import JSON, JsonBody, check_ids
from multileave.live.http.event_batches import EventBatch, Rejected
from multileave.live.http.requests import EventBody, ShowBody
from multileave.live.http.responses import EventsAnswer, ShownAnswer
from multileave.live.http.routes import API, Number, may
from multileave.live.http.routes.fast_route import QuickRoute

__all__ = ["EVENTS", "router"]

EVENTS = f"{API}/events"
router = APIRouter(tags=["traffic"], route_class=QuickRoute)


@router.post(
    API + "/experiments/{number}/impressions",
    dependencies=[Depends(Allow("ingest"))],
    response_model=ShownAnswer,
    responses=may(404),
)
async def show(number: Number, body: Annotated[ShowBody, Depends(JsonBody(ShowBody))], request: Request) -> Response:
    """Combine rankings into one list to show. The same rankings again are the same impression, counted once."""
    state = request.app.state
    check_ids(body, state.settings.longest_id)
    shown = await service_of(request).show(number, body.request)
    state.metrics.count_shown(recorded=shown.recorded)
    answer = {
        "impression": shown.impression,
        "shown": shown.shown,
        "page": shown.page,
        "recorded": shown.recorded,
    }
    return Response(to_json(answer), media_type=JSON)


@router.post(EVENTS, dependencies=[Depends(Allow("ingest", without_key=True))], response_model=EventsAnswer)
async def record(batch: Annotated[list[EventBody | Rejected], Depends(EventBatch())], request: Request) -> Response:
    """Record a batch of events. Each is accepted or rejected by itself; sent again, it is counted once.

    No key is needed: the impression's id is signed, and is the permission to report on that impression.
    """
    receipts = iter(await service_of(request).record([entry.event for entry in batch if isinstance(entry, EventBody)]))
    entries = [entry if isinstance(entry, Rejected) else next(receipts) for entry in batch]
    request.app.state.metrics.count_events((entry.accepted, entry.duplicate, entry.code) for entry in entries)
    accepted = sum(entry.accepted for entry in entries)
    answer = {
        "accepted": accepted,
        "duplicates": sum(entry.duplicate for entry in entries),
        "rejected": len(entries) - accepted,
        "receipts": entries,
    }
    return Response(to_json(answer), media_type=JSON)
