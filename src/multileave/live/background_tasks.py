"""Chores: what the service does beside answering, in threads so that answers do not wait."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from multileave.live.http.logs import log
from multileave.live.service import Service

__all__ = ["chores"]


@asynccontextmanager
async def chores(service: Service) -> AsyncIterator[None]:
    """Warm the kernels, then fold and sweep from time to time until the context ends."""
    over = asyncio.Event()
    settings = service.settings
    tasks = [
        asyncio.create_task(_once("warm", service.warm)),
        asyncio.create_task(_every(settings.fold_seconds, over, "fold", service.fold)),
        asyncio.create_task(_every(settings.sweep_seconds, over, "sweep", service.sweep)),
    ]
    try:
        yield
    finally:
        over.set()
        await asyncio.gather(*tasks)


async def _every(seconds: float, over: asyncio.Event, name: str, chore: Callable[[], object]) -> None:
    while not over.is_set():
        try:
            await asyncio.wait_for(over.wait(), seconds)
        except TimeoutError:
            await _once(name, chore)


async def _once(name: str, chore: Callable[[], object]) -> None:
    """Do a chore; one that fails is logged, and done again when its time comes."""
    try:
        await asyncio.to_thread(chore)
    except Exception:
        log.exception("chore failed", extra={"fields": {"chore": name}})
