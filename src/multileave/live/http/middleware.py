"""Middleware: request ids, security headers, logging, metrics and CORS for every response, and no unhandled errors."""

from time import perf_counter
from typing import Any

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from multileave.live.http.error_responses import error_response
from multileave.live.http.json_logging import log, request_id_from
from multileave.live.http.metrics import Metrics

DISCONNECTED = 499  # the usual status in logs for a client that left before the response
POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"content-security-policy", POLICY.encode()),
    (b"cache-control", b"no-store"),
]


class ResponseMiddleware:
    """Gives every request an id, and every response its headers, a log line and a count."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = perf_counter()
        given = next((value for name, value in scope["headers"] if name == b"x-request-id"), None)
        request_id = scope["request_id"] = request_id_from(given)
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name for name, _ in message["headers"]}
                ours = [header for header in HEADERS if header[0] not in present]
                message["headers"] = [*message["headers"], *ours, (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except ClientDisconnect:
            status = DISCONNECTED
        except Exception:
            log.exception("request failed", extra={"fields": {"request_id": request_id, "route": _template(scope)}})
            if not status:
                message = "The service failed. Its log has the error under this request's id. Try again."
                await error_response(500, "failed", message, request_id)(scope, receive, send_with_headers)
            status = 500
        seconds = perf_counter() - began
        route = _template(scope)
        self.metrics.observe(scope["method"], route, status, seconds)
        fields: dict[str, Any] = {
            "request_id": request_id,
            "method": scope["method"] if scope["method"].isalpha() else "other",
            "route": route,
            "status": status,
            "ms": round(seconds * 1000.0, 3),
        }
        log.info("request", extra={"fields": fields})


def _template(scope: Scope) -> str:
    """Return the route as declared, so that no address that a client made up is logged."""
    return getattr(scope.get("route"), "path", None) or "unknown"


class CorsForOnePath:
    """Lets pages of some origins post to one path, and no other; Starlette's middleware covers all paths of an app."""

    def __init__(self, app: ASGIApp, path: str, origins: tuple[str, ...]) -> None:
        self.app, self.path, self.origins = app, path, origins
        headers = ("content-type", "content-encoding", "x-request-id")
        self.cors = CORSMiddleware(
            app, allow_origins=origins, allow_methods=("POST",), allow_headers=headers, max_age=86400
        )  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; those of other origins are handled as if there were no CORS."""
        allowed = scope["type"] == "http" and scope["path"] == self.path
        allowed = allowed and Headers(scope=scope).get("origin") in self.origins
        await (self.cors if allowed else self.app)(scope, receive, send)
