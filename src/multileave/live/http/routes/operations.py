"""Operations: whether the service lives, whether it is ready, and what it counts."""

from fastapi import APIRouter, Depends, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from multileave.live.http.auth import Allow, service_of
from multileave.live.http.error_responses import NotReady
from multileave.live.http.responses import StateAnswer
from multileave.live.http.routes import may
from multileave.version import __version__

__all__ = ["router"]

router = APIRouter(tags=["operations"])


@router.get("/healthz")
async def healthz() -> StateAnswer:
    """Say that the process lives."""
    return StateAnswer(status="ok", version=__version__)


@router.get("/readyz", responses=may(503))
async def readyz(request: Request) -> StateAnswer:
    """Say whether the service may be sent traffic: its kernels are compiled."""
    if not service_of(request).ready:
        raise NotReady("the kernels are being compiled; ask again in some seconds.")
    return StateAnswer(status="ready", version=__version__)


@router.get(
    "/metrics",
    dependencies=[Depends(Allow("read", from_here=True))],
    response_class=Response,
    responses={200: {"description": "Metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def metrics(request: Request) -> Response:
    """Return the metrics as Prometheus reads them; from this machine no key is needed."""
    service = service_of(request)
    page = request.app.state.metrics.page(service.experiments(), ready=service.ready)
    return Response(page, media_type=CONTENT_TYPE_LATEST)
