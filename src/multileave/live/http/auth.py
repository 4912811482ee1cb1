"""Authorization: which role a route requires, and whether a request has it."""

from collections.abc import Callable
from typing import Literal, TypeVar

import anyio
import anyio.to_thread
from fastapi import Request
from fastapi.security import HTTPBearer

from multileave.live.access.actor import ANYBODY, Actor, acting
from multileave.live.access.scope import check_scope
from multileave.live.errors import Forbidden, Unauthorized, Unavailable
from multileave.live.records import Key, Role
from multileave.live.service import Service
from multileave.live.settings import is_loopback

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
LOOKUP_THREADS = 4
MOST_LOOKUPS = 256  # requests whose keys are looked up or wait for that
T = TypeVar("T")


class Allow(HTTPBearer):
    """A dependency that requires a key of a role, or an admin's.

    scope: what keys that are limited to some experiments may use. address: the experiment that the route's {number}
        names, nothing without one; service: nothing; any: everything, since the route itself looks at the limit.
    without_key: also allow requests without any key. unless: a setting under which no key is required.
    """

    def __init__(
        self,
        role: Role,
        *,
        scope: Literal["address", "service", "any"] = "address",
        without_key: bool = False,
        unless: Literal["open_metrics"] | None = None,
    ) -> None:
        super().__init__(scheme_name="key", description="A key from `multileave keys create`.", auto_error=False)
        self.role = role
        self.scope = scope
        self.without_key = without_key
        self.unless = unless

    async def __call__(self, request: Request) -> None:  # type: ignore[override]
        """Refuse a request that is not allowed."""
        settings = request.app.state.settings
        if settings.open:
            if not self.without_key:
                check_open(request)
            acting.set(ANYBODY)
            return
        if self.unless is not None and getattr(settings, self.unless):
            return
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        if not scheme:
            if self.without_key:
                return
            raise Unauthorized("This route requires a key. Send the header Authorization: Bearer KEY.")
        key = await _find(request, text.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            raise Unauthorized("The key is unknown, revoked or expired. Send a valid one as Authorization: Bearer KEY.")
        if key.role not in (self.role, "admin"):
            needed = "admin" if self.role == "admin" else f"{self.role} or admin"
            raise Forbidden(f"This key has the role {key.role}; the route requires {needed}.")
        if self.scope != "any":
            check_scope(key, request.path_params.get("number") if self.scope == "address" else None)
        request.state.key = key
        acting.set(Actor("key", key.number, key.name))


def service_of(request: Request) -> Service:
    """Return the service of a request."""
    service: Service = request.app.state.service
    return service


def key_of(request: Request) -> Key | None:
    """Return the key that a request was allowed with, None on an open service."""
    return getattr(request.state, "key", None)


class Lookups:
    """Looks up keys and sessions off the event loop.

    These threads are their own, so that unknown keys cannot take those of the routes; too many requests are refused.
    """

    def __init__(self) -> None:
        self._threads = anyio.CapacityLimiter(LOOKUP_THREADS)
        self._requests = 0  # the limiter's own count lags behind by a turn of the loop

    async def run(self, find: Callable[[str], T], text: str) -> T:
        """Return what a function finds in the database."""
        if self._requests >= MOST_LOOKUPS:
            raise Unavailable("Too many keys are waiting to be checked. Try again in a second.")
        self._requests += 1
        try:
            return await anyio.to_thread.run_sync(find, text, limiter=self._threads)
        finally:
            self._requests -= 1


async def look_up(request: Request, find: Callable[[str], T], text: str) -> T:
    """Return what a function finds in the database, by the text of a key or a cookie."""
    state = request.app.state
    if not hasattr(state, "lookups"):
        state.lookups = Lookups()
    lookups: Lookups = state.lookups
    return await lookups.run(find, text)


async def _find(request: Request, text: str) -> Key | None:
    access = service_of(request).access
    known = access.remembered(text)
    return known if known is not None else await look_up(request, access.authenticate, text)


def check_open(request: Request) -> None:
    """Without keys, refuse requests that pages of other sites make through a browser on this machine."""
    host = request.headers.get("host", "")
    origin = request.headers.get("origin")
    if not is_loopback(host.rpartition(":")[0] if host[-1:] != "]" and ":" in host else host):
        raise Forbidden("Without keys, the service answers at 127.0.0.1 or localhost only. Create keys to change that.")
    if request.method not in SAFE_METHODS and origin is not None and origin.partition("://")[2] != host:
        raise Forbidden("Without keys, the service accepts no requests from pages of other sites.")
