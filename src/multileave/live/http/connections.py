"""Connections: limits on what clients may send and for how long they may take, below the HTTP routes.

uvicorn's parser httptools accepts headers of any size at any speed. h11, its other parser, limits their size but makes
searches slower, and neither limits connections without keeping everybody out. So this protocol counts what a
request sends besides its body, gives headers, bodies and readers of responses a deadline, and when there are too many
connections closes the one that has been waiting for its client for longest.
"""

import asyncio
import contextlib
import json
import logging
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from multileave.live.settings import Settings

KEEP_ALIVE = 65  # seconds; longer than proxies and clients keep an idle connection
READING = 60.0  # seconds in which a client must read some of a response
CLOSING = 2.0  # seconds until a connection that is being closed is cut
LOOK_EVERY = 0.5
MOST_PIPELINED = 16  # requests that a client may send before it has read the first response
PER_BODY_BYTE = 8  # bytes of chunk headers that may come with each byte of a body
SPARE_FILES = 128  # for the database, logs and libraries
log = logging.getLogger("multileave.live")


@dataclass(frozen=True)
class ConnectionLimits:
    """most: connections of a process. header: bytes of headers. header_seconds, body_seconds: to send them."""

    most: int
    header: int
    header_seconds: float
    body_seconds: float


class _Waiting:
    """The connections that wait for their clients, longest first, each with the time at which it is closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.ends: OrderedDict[GuardedProtocol, float] = OrderedDict()
        self._looking = False

    def add(self, connection: "GuardedProtocol", seconds: float) -> None:
        self.ends[connection] = self.loop.time() + seconds
        self.ends.move_to_end(connection)
        if not self._looking:
            self._looking = True
            self.loop.call_later(LOOK_EVERY, self._look)

    def remove(self, connection: "GuardedProtocol") -> None:
        self.ends.pop(connection, None)

    def _look(self) -> None:
        """Close the connections whose time is over."""
        now = self.loop.time()
        for connection in [connection for connection, end in self.ends.items() if end <= now]:
            connection.expire()
        self._looking = bool(self.ends)
        if self._looking:
            self.loop.call_later(LOOK_EVERY, self._look)


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits."""

    def __init__(self, *arguments: Any, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.limits = limits
        state: Any = self.server_state
        found = getattr(state, "waiting_connections", None)
        if found is None or found.loop is not self.loop:
            found = state.waiting_connections = _Waiting(self.loop)
        self._waiting: _Waiting = found
        self._refused = False
        self._overhead = 0  # bytes of the current request besides its body
        self._body = 0
        self._headers_begun = self._pipelined = False

    # What arrives

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; if there are too many, close the one that has waited for its client for longest."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.most:
            longest = next(iter(self._waiting.ends), None)
            if longest is None:
                self.refuse(503, "unavailable", "There are too many connections. Try again in a few seconds.")
                return
            longest.cut()
        self._waiting.add(self, self.limits.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._waiting.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what arrives, unless a request has too much besides its body."""
        if self._refused:
            return
        self._overhead += len(data)
        super().data_received(data)
        if self._overhead > self.limits.header + PER_BODY_BYTE * self._body and not self._refused:
            self._refuse_headers()

    def on_message_begin(self) -> None:
        """Give a request's headers a deadline."""
        self._pipelined = self.cycle is not None and not self.cycle.response_complete
        if not self._pipelined:
            self._headers_begun = True
            self._waiting.add(self, self.limits.header_seconds)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Give a request's body a deadline. An error here makes uvicorn call `send_400_response`."""
        if self._overhead > self.limits.header:  # perhaps: it includes what came with them
            size = len(self.url) + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)
            if size > self.limits.header:
                self._refuse_headers()
                raise ValueError("the headers are too long")
        if len(self.pipeline) >= MOST_PIPELINED:
            raise ValueError("too many requests at a time")
        self._headers_begun = False
        if not self._pipelined:
            self._waiting.add(self, self.limits.body_seconds)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Count a part of the body."""
        self._overhead -= len(body)
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop waiting for the client: it is our turn."""
        self._overhead = self._body = 0
        if not self._pipelined:
            if self.cycle.response_complete:  # we refused it before it was complete
                self._waiting.add(self, KEEP_ALIVE)
            else:
                self._take_turn()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        if not self._refused:
            self.refuse(400, "malformed", "This is not a valid HTTP request, or there are too many at a time.")

    # What is sent

    def on_response_complete(self) -> None:
        """Wait for the client to read the response and to send its next request."""
        if not self.pipeline:
            self._waiting.add(self, KEEP_ALIVE)
        elif self.pipeline[-1][0].more_body:
            self._waiting.add(self, self.limits.body_seconds)
        else:
            self._take_turn()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for the client to read, but not forever."""
        self._waiting.add(self, READING)
        super().pause_writing()

    def resume_writing(self) -> None:
        """Go on sending a response."""
        super().resume_writing()
        if self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body:
            self._take_turn()

    # The end

    def expire(self) -> None:
        """Close a connection whose client took too long; cut it if it does not let itself be closed."""
        if self.transport.is_closing():
            self.cut()
        elif self._headers_begun or self._is_sending_body():
            self.refuse(408, "timeout", "The request took too long to arrive. Send it again.")
        else:
            self.transport.close()
            self._waiting.add(self, CLOSING)

    def cut(self) -> None:
        """End a connection now."""
        self._refused = True
        self._waiting.remove(self)
        self.transport.abort()

    def refuse(self, status: int, code: str, message: str) -> None:
        """Answer with an error, if no answer has begun, and close the connection."""
        self._refused = True
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            error = {"code": code, "message": message, "details": None, "request_id": ""}
            body = json.dumps({"error": error}).encode()
            head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
            retry = "retry-after: 2\r\n" if status == HTTPStatus.SERVICE_UNAVAILABLE else ""
            ending = f"content-length: {len(body)}\r\nconnection: close\r\n{retry}\r\n"
            self.transport.write((head + ending).encode() + body)
        self.transport.close()
        self._waiting.add(self, CLOSING)

    def _take_turn(self) -> None:
        """Stop waiting for the client, unless it has to read before we can go on."""
        if self.flow.write_paused:
            self._waiting.add(self, READING)
        else:
            self._waiting.remove(self)

    def _refuse_headers(self) -> None:
        text = f"The headers are longer than {self.limits.header:,} bytes, the limit. Send fewer or shorter ones."
        self.refuse(431, "too_large", text)

    def _is_sending_body(self) -> bool:
        return self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete


def server_options(settings: Settings) -> dict[str, Any]:
    """Return the options with which uvicorn serves the app, however it is started."""
    limits = ConnectionLimits(
        min(settings.most_connections, _file_limit(settings.most_connections)),
        settings.most_header,
        settings.header_seconds,
        settings.body_seconds,
    )
    return {
        "http": partial(GuardedProtocol, limits=limits),
        "ws": "none",
        "access_log": False,
        "log_config": None,
        "server_header": False,
        "timeout_keep_alive": KEEP_ALIVE,
        "forwarded_allow_ips": ",".join(settings.trusted_proxies),
    }


def _file_limit(wanted: int) -> int:
    """Return how many connections may be open, after raising the limit of open files as far as we may."""
    with contextlib.suppress(ImportError):  # Windows has no such limit
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
                soft = hard
        if soft != resource.RLIM_INFINITY and soft < wanted + SPARE_FILES:
            log.warning(
                "fewer connections than wanted: raise the limit of open files",
                extra={"fields": {"open_files": soft, "most_connections": wanted}},
            )
            return max(soft - SPARE_FILES, soft // 2)
    return wanted
