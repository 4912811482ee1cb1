"""Route of the audit log; it can only be read."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request

from multileave.live.http.auth import Allow, service_of
from multileave.live.http.responses import AuditList
from multileave.live.http.routes import API

router = APIRouter(prefix=API, tags=["audit"], dependencies=[Depends(Allow("admin"))])
LARGEST = 2**31 - 1
Before = Annotated[int | None, Query(ge=1, le=LARGEST, description="Only entries with smaller numbers.")]
Of = Annotated[int | None, Query(ge=1, le=LARGEST, description="Only entries about this experiment.")]
Limit = Annotated[int, Query(ge=1, le=500, description="How many to return.")]


@router.get("/audit")
def audit(request: Request, before: Before = None, experiment: Of = None, limit: Limit = 50) -> AuditList:
    """List who did what, newest first."""
    entries, following = service_of(request).audit(before=before, experiment=experiment, limit=limit)
    return AuditList(entries=entries, next=following)
