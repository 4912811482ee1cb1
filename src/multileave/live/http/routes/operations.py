"""Routes for operations: liveness, readiness and metrics."""

from fastapi import APIRouter, Depends, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from multileave.live.http.auth import Allow, service_of
from multileave.live.http.error_responses import NotReady
from multileave.live.http.responses import ServiceState
from multileave.live.http.routes import errors
from multileave.version import __version__

router = APIRouter(tags=["operations"])


@router.get("/healthz")
async def healthz() -> ServiceState:
    """Return that the process is alive."""
    return ServiceState(status="ok", version=__version__)


@router.get("/readyz", responses=errors(503))
async def readyz(request: Request) -> ServiceState:
    """Return whether the service is ready for traffic: running experiments' methods and the database are there."""
    service = service_of(request)
    if not service.ready:
        raise NotReady("The methods of running experiments are being compiled. Try again in a few seconds.")
    await service.check_database()
    return ServiceState(status="ready", version=__version__)


@router.get(
    "/metrics",
    dependencies=[Depends(Allow("read", unless="open_metrics"))],
    response_class=Response,
    responses={200: {"description": "Metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def metrics(request: Request) -> Response:
    """Return the metrics for Prometheus. With the setting open_metrics, no key is required."""
    service = service_of(request)
    page = request.app.state.metrics.page(service.experiments(), ready=service.ready)
    return Response(page, media_type=CONTENT_TYPE_LATEST)
