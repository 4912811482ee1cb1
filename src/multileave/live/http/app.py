"""The app: routes, refusals and chores put around one `Service`."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
from fastapi import FastAPI
from starlette.middleware import Middleware

from multileave.live.background_tasks import chores
from multileave.live.http import logs
from multileave.live.http.cors import EventsFromBrowsers
from multileave.live.http.error_responses import handle_refusals
from multileave.live.http.metrics import Metrics
from multileave.live.http.middleware import Envelope
from multileave.live.http.openapi import describe
from multileave.live.http.routes import API, experiments, keys, operations, reading, traffic
from multileave.live.pages import pages
from multileave.live.service import Service
from multileave.live.settings import Settings

__all__ = ["create_app", "from_environment"]

LOG_LEVEL = "MULTILEAVE_LOG"
SWITCH_SECONDS = 0.001


def create_app(settings: Settings) -> FastAPI:
    """Return the app; its service opens the database when the app starts and closes it when it ends."""
    metrics = Metrics()
    app = _App(
        lifespan=_lifespan,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=[
            Middleware(Envelope, metrics=metrics),
            Middleware(EventsFromBrowsers, path=traffic.EVENTS, origins=settings.origins),
        ],
    )
    app.state.settings = settings
    app.state.metrics = metrics
    handle_refusals(app)
    # Declared flat and with what searches wait for first: the first route that matches is taken.
    for router in (traffic.router, reading.router, experiments.router, keys.router, operations.router, pages):
        app.router.routes.extend(router.routes)
    return app


def from_environment() -> FastAPI:
    """Return the app with settings of the environment, for servers that start it by name."""
    logs.configure(os.environ.get(LOG_LEVEL, "info"))
    # The writer's thread takes the interpreter back from a busy loop several times for each commit.
    sys.setswitchinterval(SWITCH_SECONDS)
    return create_app(Settings.from_environment())


class _App(FastAPI):
    """A FastAPI whose description knows our dependencies."""

    def openapi(self) -> dict[str, Any]:
        """Return the description, made once."""
        if self.openapi_schema is None:
            self.openapi_schema = describe(self)
        return self.openapi_schema


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service = await anyio.to_thread.run_sync(Service, app.state.settings)
    app.state.service = service
    try:
        async with chores(service):
            yield
    finally:
        await anyio.to_thread.run_sync(service.close)
