"""What experiments say: verdict, health, history, single impressions, and all of them as a file."""

import shutil
import tempfile
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from multileave.live.http.auth import Allow, service_of
from multileave.live.http.responses import (
    HealthAnswer,
    HealthFigures,
    HistoryAnswer,
    ImpressionAnswer,
    LookAnswer,
    RecentAnswer,
    TrafficAnswer,
    VerdictAnswer,
    VerdictFigures,
)
from multileave.live.http.routes import API, Action, Number, may

__all__ = ["router"]

PARQUET = "application/vnd.apache.parquet"
router = APIRouter(
    prefix=API + "/experiments/{number}", tags=["reading"], dependencies=[Depends(Allow("read"))], responses=may(404)
)
Key = Annotated[str, Path(pattern="^[A-Za-z0-9._~=-]{1,300}$", description="of the impression, from the list")]
Limit = Annotated[int, Query(ge=1, le=500, description="how many")]


@router.get("/verdict")
def verdict(number: Number, request: Request, action: Action = None) -> VerdictAnswer:
    """Say which ranker is preferred; the intervals hold however often one looks."""
    service = service_of(request)
    found = service.verdict(number, action)
    return VerdictAnswer(
        experiment=number,
        action=action or service.experiment(number).definition.actions[0],
        verdict=None if found is None else VerdictFigures.model_validate(found.to_dict()),
        traffic=TrafficAnswer.of(service.counts(number)),
    )


@router.get("/health")
def health(number: Number, request: Request) -> HealthAnswer:
    """Say whether the data can be trusted."""
    service = service_of(request)
    found = service.health(number)
    return HealthAnswer(
        experiment=number,
        health=None if found is None else HealthFigures.model_validate(found.to_dict()),
        traffic=TrafficAnswer.of(service.counts(number)),
    )


@router.get("/history")
def history(number: Number, request: Request, action: Action = None) -> HistoryAnswer:
    """Return how the preferences came about."""
    service = service_of(request)
    return HistoryAnswer(
        experiment=number,
        action=action or service.experiment(number).definition.actions[0],
        looks=[LookAnswer.of(look) for look in service.history(number, action)],
    )


@router.get("/impressions")
def recent(number: Number, request: Request, limit: Limit = 50) -> RecentAnswer:
    """List the newest impressions."""
    return RecentAnswer.of(service_of(request).recent(number, limit))


@router.get("/impressions/{key}")
def impression(number: Number, key: Key, request: Request) -> ImpressionAnswer:
    """Return an impression, and who contributed what to it."""
    return ImpressionAnswer.of(service_of(request).impression(number, key))


@router.get(
    "/export",
    response_class=FileResponse,
    responses={200: {"description": "A Parquet file.", "content": {PARQUET: {"schema": {"type": "string"}}}}},
)
def export(number: Number, request: Request) -> FileResponse:
    """Return all impressions and their events as a Parquet file that `multileave replay` reads."""
    folder = FilePath(tempfile.mkdtemp(prefix="multileave-export-"))
    target = folder / f"experiment-{number}.parquet"
    try:
        service_of(request).export(number, target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    remove = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
    return FileResponse(target, media_type=PARQUET, filename=target.name, background=remove)
