"""CORS: pages of the configured origins may post events from a browser, and nothing else."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["EventsFromBrowsers"]


class EventsFromBrowsers:
    """ASGI middleware that lets pages of some origins post to one address."""

    def __init__(self, app: ASGIApp, path: str, origins: tuple[str, ...]) -> None:
        self.app = app
        self.path = path
        self.origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a browser's question whether it may post, and mark answers it may read."""
        if scope["type"] != "http" or scope["path"] != self.path:
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin", "")
        if origin not in self.origins:
            await self.app(scope, receive, send)
            return
        allowed = [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"Origin")]
        if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            allowed += [
                (b"access-control-allow-methods", b"POST"),
                (b"access-control-allow-headers", b"content-type, content-encoding, x-request-id"),
                (b"access-control-max-age", b"86400"),
            ]
            await send({"type": "http.response.start", "status": 204, "headers": allowed})
            await send({"type": "http.response.body", "body": b""})
            return

        async def send_allowed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *allowed]
            await send(message)

        await self.app(scope, receive, send_allowed)
