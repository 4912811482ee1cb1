"""The envelope of every answer: a request id, security headers, a log line, a count, and no naked errors."""

from time import perf_counter
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from multileave.live.http.error_responses import refusal
from multileave.live.http.logs import log, request_id_from
from multileave.live.http.metrics import Metrics

__all__ = ["Envelope"]

GONE = 499  # what logs call a client that went away before it was answered
POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"content-security-policy", POLICY.encode()),
    (b"cache-control", b"no-store"),
]


class Envelope:
    """ASGI middleware around the whole app."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and see to its answer."""
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
                said = {name for name, _ in message["headers"]}
                ours = [header for header in HEADERS if header[0] not in said]
                message["headers"] = [*message["headers"], *ours, (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except ClientDisconnect:
            status = GONE
        except Exception:
            log.exception("failed", extra={"fields": {"request_id": request_id, "route": _template(scope)}})
            if not status:
                said = "the service failed to answer; its log has more under this request's id. Try again."
                await refusal(500, "failed", said, request_id)(scope, receive, send_with_headers)
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
    """Return the route as it is declared, so that no address a client made up is kept."""
    return getattr(scope.get("route"), "path", None) or "unknown"
