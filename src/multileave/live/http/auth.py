"""Permissions: which role a route asks for, and whether a request has it."""

import ipaddress

from fastapi import Request
from fastapi.security import HTTPBearer

from multileave.live.errors import Forbidden, Unauthorized
from multileave.live.records import Role
from multileave.live.service import Service

__all__ = ["Allow", "check_open", "is_loopback", "service_of"]

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class Allow(HTTPBearer):
    """A dependency that lets in those with a key of a role, or of an admin.

    without_key: let in as well who has no key at all. from_here: let in without a key who asks from this machine.
    """

    def __init__(self, role: Role, *, without_key: bool = False, from_here: bool = False) -> None:
        super().__init__(scheme_name="key", description="A key, made with `multileave keys create`.", auto_error=False)
        self.role = role
        self.without_key = without_key
        self.from_here = from_here

    async def __call__(self, request: Request) -> None:  # type: ignore[override]
        """Refuse a request that may not do this."""
        if request.app.state.settings.open:
            if not self.without_key:
                check_open(request)
            return
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        if not scheme:
            if self.without_key or (self.from_here and _comes_from_here(request)):
                return
            raise Unauthorized("this route needs a key; send the header Authorization: Bearer KEY.")
        key = service_of(request).access.authenticate(text.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            raise Unauthorized("the key is not known, or was revoked; send one that is, as Authorization: Bearer KEY.")
        if key.role not in (self.role, "admin"):
            needed = "admin" if self.role == "admin" else f"{self.role} or admin"
            raise Forbidden(f"this key has the role {key.role}; the route needs {needed}.")


def service_of(request: Request) -> Service:
    """Return the service that answers a request."""
    service: Service = request.app.state.service
    return service


def is_loopback(host: str) -> bool:
    """Whether a host is this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _comes_from_here(request: Request) -> bool:
    forwarded = "forwarded" in request.headers or "x-forwarded-for" in request.headers
    return request.client is not None and is_loopback(request.client.host) and not forwarded


def check_open(request: Request) -> None:
    """Without keys, refuse what pages of other sites ask for through a browser on this machine."""
    host = request.headers.get("host", "")
    origin = request.headers.get("origin")
    if not is_loopback(host.rpartition(":")[0] if host[-1:] != "]" and ":" in host else host):
        raise Forbidden("an open service is asked at 127.0.0.1 or localhost only. Give it keys to use another name.")
    if request.method not in SAFE_METHODS and origin is not None and origin.partition("://")[2] != host:
        raise Forbidden("an open service does not take requests from pages of other sites.")
