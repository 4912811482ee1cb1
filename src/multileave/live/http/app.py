"""The app: routes, error responses, middleware and background tasks around one `Service`."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
from fastapi import FastAPI
from starlette.middleware import Middleware

from multileave.live.access.rate_limits import RateLimit
from multileave.live.background_tasks import background_tasks
from multileave.live.http import json_logging
from multileave.live.http.error_responses import handle_errors
from multileave.live.http.metrics import Metrics
from multileave.live.http.middleware import CorsForOnePath, ResponseMiddleware
from multileave.live.http.openapi import describe
from multileave.live.http.routes import API, audit, experiments, keys, operations, reading, traffic
from multileave.live.pages import pages
from multileave.live.service import Service
from multileave.live.settings import Settings

LOG_LEVEL = "MULTILEAVE_LOG"
SWITCH_SECONDS = 0.001


def create_app(settings: Settings) -> FastAPI:
    """Return the app; its service opens the database when the app starts and closes it at the end."""
    metrics = Metrics()
    app = _App(
        lifespan=_lifespan,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=[
            Middleware(ResponseMiddleware, metrics=metrics),
            Middleware(CorsForOnePath, path=traffic.EVENTS, origins=settings.origins),
        ],
    )
    app.state.settings = settings
    app.state.metrics = metrics
    app.state.event_limit = RateLimit(settings.events_per_minute)
    handle_errors(app)
    # In one flat list, with what searches wait for first: the first route that matches is taken.
    for part in (traffic, reading, experiments, keys, audit, operations):
        app.router.routes.extend(part.router.routes)
    app.router.routes.extend(pages.routes)
    return app


def from_environment() -> FastAPI:
    """Return the app with settings from the environment, for servers that start it by name."""
    json_logging.configure(os.environ.get(LOG_LEVEL, "info"))
    # The writer's thread needs the interpreter several times per commit, also while the event loop is busy.
    sys.setswitchinterval(SWITCH_SECONDS)
    return create_app(Settings.from_environment())


class _App(FastAPI):
    """A FastAPI app whose OpenAPI schema includes our dependencies."""

    def openapi(self) -> dict[str, Any]:
        """Return the schema, made once."""
        if self.openapi_schema is None:
            self.openapi_schema = describe(self)
        return self.openapi_schema


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service = await anyio.to_thread.run_sync(Service, app.state.settings)
    app.state.service = service
    for warning in service.warnings:
        json_logging.log.warning(warning)
    try:
        async with background_tasks(service):
            yield
    finally:
        await anyio.to_thread.run_sync(service.close)
