"""Routes for reading: verdict, arms, segments, health, history, impressions and export."""

import shutil
import tempfile
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from multileave.live.http.auth import Allow, service_of
from multileave.live.http.responses import ArmsAnswer, HealthAnswer, ImpressionList, SegmentsAnswer, VerdictAnswer
from multileave.live.http.routes import API, Action, Number, errors
from multileave.live.records import History, ImpressionDetail

PARQUET = "application/vnd.apache.parquet"
router = APIRouter(
    prefix=API + "/experiments/{number}", tags=["reading"], dependencies=[Depends(Allow("read"))], responses=errors(404)
)
Key = Annotated[str, Path(pattern="^[A-Za-z0-9._~=-]{1,300}$", description="Key of the impression, from the list.")]
Limit = Annotated[int, Query(ge=1, le=500, description="How many to return.")]


@router.get("/verdict", response_model=VerdictAnswer)
def verdict(number: Number, request: Request, action: Action = None) -> dict[str, Any]:
    """Return which ranker is preferred; the confidence intervals are valid however often one looks."""
    report = service_of(request).report(number, action)
    found = None if report.verdict is None else report.verdict.to_dict()
    said = {
        "experiment": number, "action": report.action, "verdict": found, "rates_note": report.rates_note,
        "traffic": report.traffic,
    }  # fmt: skip
    return {**said, "as_of": report.as_of, "stale": report.stale}


@router.get("/arms", response_model=ArmsAnswer)
def arms(number: Number, request: Request, action: Action = None) -> dict[str, Any]:
    """Return what arms that see a single ranker's own pages say; the intervals are valid however often one looks."""
    report = service_of(request).report(number, action)
    found = None if report.arms is None else report.arms.to_dict()
    said = {"experiment": number, "action": report.action, "verdict": found}
    said |= {"agreements": [one.to_dict() for one in report.agreements]}
    return {**said, "as_of": report.as_of, "stale": report.stale}


@router.get("/segments", response_model=SegmentsAnswer, responses=errors(409))
def segments(number: Number, request: Request, action: Action = None) -> dict[str, Any]:
    """Return which ranker is preferred in each segment, and how much segments differ; computed from all impressions."""
    found = service_of(request).segments(number, action)
    said = {"segments": {}, "left_out": [], "interactions": []} if found.verdict is None else found.verdict.to_dict()
    said |= {"experiment": number, "action": found.report.action, "as_of": found.report.as_of}
    return {**said, "stale": found.report.stale, "merged": found.merged, "impressions": found.impressions}


@router.get("/health", response_model=HealthAnswer)
def health(number: Number, request: Request) -> dict[str, Any]:
    """Return whether the data can be trusted."""
    report = service_of(request).report(number)
    found = None if report.health is None else report.health.to_dict()
    said = {"experiment": number, "health": found, "traffic": report.traffic}
    return {**said, "as_of": report.as_of, "stale": report.stale}


@router.get("/history")
def history(number: Number, request: Request, action: Action = None) -> History:
    """Return the preferences over time."""
    return service_of(request).history(number, action)


@router.get("/impressions")
def recent(number: Number, request: Request, limit: Limit = 50) -> ImpressionList:
    """List the newest impressions."""
    return ImpressionList(impressions=service_of(request).recent(number, limit))


@router.get("/impressions/{key}")
def impression(number: Number, key: Key, request: Request) -> ImpressionDetail:
    """Return an impression and what each ranker contributed to it."""
    return service_of(request).impression(number, key)


@router.get(
    "/export",
    response_class=FileResponse,
    responses={200: {"description": "A Parquet file.", "content": {PARQUET: {"schema": {"type": "string"}}}}},
)
def export(number: Number, request: Request) -> FileResponse:
    """Return all impressions and their events as a Parquet file for `multileave replay`."""
    folder = FilePath(tempfile.mkdtemp(prefix="multileave-export-"))
    target = folder / f"experiment-{number}.parquet"
    try:
        service_of(request).export(number, target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    remove = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
    return FileResponse(target, media_type=PARQUET, filename=target.name, background=remove)
