"""Background tasks: compiling kernels, aggregation and retention, in threads so that requests do not wait."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from multileave.live.access.keys import SAVED
from multileave.live.errors import Unavailable
from multileave.live.http.json_logging import log
from multileave.live.service import Service

WARM_AGAIN = 1.0  # seconds


@asynccontextmanager
async def background_tasks(service: Service) -> AsyncIterator[None]:
    """Warm the kernels, then aggregate and apply retention from time to time until the context ends."""
    over = asyncio.Event()
    settings = service.settings
    tasks = [
        asyncio.create_task(_warm(service, over)),
        asyncio.create_task(_every(settings.fold_seconds, over, "fold", service.fold)),
        asyncio.create_task(_every(settings.sweep_seconds, over, "sweep", service.sweep)),
        asyncio.create_task(_every(SAVED, over, "use of keys", service.access.save)),
    ]
    try:
        yield
    finally:
        over.set()
        await asyncio.gather(*tasks)
        await _once("use of keys", service.access.save)


async def _warm(service: Service, over: asyncio.Event) -> None:
    """Load kernels until the service is ready; it may take several attempts if the database is away."""
    while not over.is_set() and not service.ready:
        await _once("warm", service.warm)
        if not service.ready:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), WARM_AGAIN)


async def _every(seconds: float, over: asyncio.Event, name: str, task: Callable[[], object]) -> None:
    while not over.is_set():
        try:
            await asyncio.wait_for(over.wait(), seconds)
        except TimeoutError:
            await _once(name, task)


async def _once(name: str, task: Callable[[], object]) -> None:
    """Run a task; if it fails, that is logged, and it is run again at its next time."""
    try:
        await asyncio.to_thread(task)
    except Unavailable as problem:
        log.warning("background task postponed", extra={"fields": {"task": name, "says": problem.reason}})
    except Exception:
        log.exception("background task failed", extra={"fields": {"task": name}})
