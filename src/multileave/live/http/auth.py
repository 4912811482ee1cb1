"""Authorization: which role a route requires, and whether a request has it."""

from fastapi import Request
from fastapi.security import HTTPBearer

from multileave.live.errors import Forbidden, Unauthorized
from multileave.live.records import Role
from multileave.live.service import Service
from multileave.live.settings import is_loopback

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class Allow(HTTPBearer):
    """A dependency that requires a key of a role, or an admin's.

    without_key: also allow requests without any key. from_here: allow requests from this machine without a key.
    """

    def __init__(self, role: Role, *, without_key: bool = False, from_here: bool = False) -> None:
        super().__init__(scheme_name="key", description="A key from `multileave keys create`.", auto_error=False)
        self.role = role
        self.without_key = without_key
        self.from_here = from_here

    async def __call__(self, request: Request) -> None:  # type: ignore[override]
        """Refuse a request that is not allowed."""
        if request.app.state.settings.open:
            if not self.without_key:
                check_open(request)
            return
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        if not scheme:
            if self.without_key or (self.from_here and _comes_from_here(request)):
                return
            raise Unauthorized("This route requires a key. Send the header Authorization: Bearer KEY.")
        key = service_of(request).access.authenticate(text.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            raise Unauthorized("The key is unknown or revoked. Send a valid one as Authorization: Bearer KEY.")
        if key.role not in (self.role, "admin"):
            needed = "admin" if self.role == "admin" else f"{self.role} or admin"
            raise Forbidden(f"This key has the role {key.role}; the route requires {needed}.")


def service_of(request: Request) -> Service:
    """Return the service of a request."""
    service: Service = request.app.state.service
    return service


def _comes_from_here(request: Request) -> bool:
    forwarded = "forwarded" in request.headers or "x-forwarded-for" in request.headers
    return request.client is not None and is_loopback(request.client.host) and not forwarded


def check_open(request: Request) -> None:
    """Without keys, refuse requests that pages of other sites make through a browser on this machine."""
    host = request.headers.get("host", "")
    origin = request.headers.get("origin")
    if not is_loopback(host.rpartition(":")[0] if host[-1:] != "]" and ":" in host else host):
        raise Forbidden("Without keys, the service answers at 127.0.0.1 or localhost only. Create keys to change that.")
    if request.method not in SAFE_METHODS and origin is not None and origin.partition("://")[2] != host:
        raise Forbidden("Without keys, the service accepts no requests from pages of other sites.")
