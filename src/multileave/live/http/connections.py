"""Connections: limits on what clients may send and for how long they may take, below the HTTP routes.

uvicorn's parser httptools accepts headers of any size at any speed. h11, its other parser, limits their size but makes
searches slower, and neither limits connections without keeping everybody out. So this protocol counts what a
request sends besides its body, gives headers, bodies and readers of responses a deadline, and when there are too many
connections closes the one that has been waiting for its client for longest.
"""

import asyncio
import contextlib
import heapq
import json
import logging
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
MOST_PIECES = 4096  # in which a body may arrive, unless they have so many bytes on average, as each takes time
PIECE = 64
EVICTED_PART = 20  # a twentieth of the connections makes room at a time, as finding them takes a while
NEVER = float("inf")
SPARE_FILES = 128  # for the database, logs and libraries
IDLE, HEADERS, BODY_BEGINS, BODY, OURS = range(5)  # what a connection waits for; OURS: for the app
log = logging.getLogger("multileave.live")


@dataclass(frozen=True)
class ConnectionLimits:
    """most: connections of a process. header: bytes of headers. header_seconds, body_seconds: to send them."""

    most: int
    header: int
    header_seconds: float
    body_seconds: float


class _Watch:
    """Looks at a server's connections from time to time, and closes those whose time is over."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connections: "set[GuardedProtocol]") -> None:
        self.loop, self.connections = loop, connections
        self.looking = False

    def start(self) -> None:
        self.looking = True
        self.loop.call_later(LOOK_EVERY, self._look)

    def make_room(self, most: int) -> bool:
        """Cut the connections that have waited for their clients for longest; return whether there were any."""
        waiting = [connection for connection in self.connections if connection.ends < NEVER]
        longest = heapq.nsmallest(max(most // EVICTED_PART, 1), waiting, key=lambda connection: connection.since)
        for connection in longest:
            connection.cut()
        return bool(longest)

    def _look(self) -> None:
        now = self.loop.time()
        for connection in [connection for connection in self.connections if connection.ends <= now]:
            connection.expire()
        self.looking = False
        if self.connections:
            self.start()


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits."""

    def __init__(self, *arguments: Any, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.limits = limits
        state: Any = self.server_state
        found = getattr(state, "connection_watch", None)
        if found is None or found.loop is not self.loop:
            found = state.connection_watch = _Watch(self.loop, state.connections)
        self._watch: _Watch = found
        self.since = self.ends = NEVER  # since when it waits for its client, and until when
        self._refused = False
        self._overhead = 0  # bytes of the current request besides its body
        self._body = 0
        self._pieces = 0  # of the body
        self._phase = IDLE
        self._pipelined = False

    # What arrives

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; if there are too many, close the one that has waited for its client for longest."""
        super().connection_made(transport)
        if not self._watch.looking:
            self._watch.start()
        if len(self.connections) > self.limits.most and not self._watch.make_room(self.limits.most):
            self.refuse(503, "unavailable", "There are too many connections. Try again in a few seconds.")
            return
        self._wait(self.limits.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self.ends = NEVER
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what arrives, unless a request has too much besides its body; give what is incomplete a deadline."""
        if self._refused:
            return
        self._overhead += len(data)
        super().data_received(data)
        if self._phase == IDLE:
            self._phase = HEADERS
            self._wait(self.limits.header_seconds)
        elif self._phase == BODY_BEGINS:
            self._phase = BODY
            self._wait(self.limits.body_seconds)
        if self._overhead > self.limits.header + PER_BODY_BYTE * self._body and not self._refused:
            self._refuse_headers()

    def on_headers_complete(self) -> None:
        """Check a request's headers. An error here makes uvicorn call `send_400_response`."""
        if self._overhead > self.limits.header:  # perhaps: it includes what came with them
            size = len(self.url) + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)
            if size > self.limits.header:
                self._refuse_headers()
                raise ValueError("the headers are too long")
        if len(self.pipeline) >= MOST_PIPELINED:
            raise ValueError("too many requests at a time")
        self._pipelined = self.cycle is not None and not self.cycle.response_complete
        if not self._pipelined:
            self._phase = BODY_BEGINS
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Count a part of the body. An error here makes uvicorn call `send_400_response`."""
        self._overhead -= len(body)
        self._body += len(body)
        self._pieces += 1
        if self._pieces > MOST_PIECES and self._body < PIECE * self._pieces:
            self.refuse(413, "too_large", "The body arrives in too many small pieces. Send larger ones.")
            raise ValueError("the pieces of the body are too small")
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop waiting for the client: it is our turn."""
        self._overhead = self._body = self._pieces = 0
        if not self._pipelined:
            self._phase = OURS
            if self.cycle.response_complete:  # we refused it before it was complete
                self._wait(KEEP_ALIVE)
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
            self._phase = IDLE
            self._wait(KEEP_ALIVE)
        elif self.pipeline[-1][0].more_body:
            self._wait(self.limits.body_seconds)
        else:
            self._take_turn()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for the client to read, but not forever."""
        self._wait(READING)
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
        elif self._phase in (HEADERS, BODY):
            self.refuse(408, "timeout", "The request took too long to arrive. Send it again.")
        else:
            self.transport.close()
            self._wait(CLOSING)

    def cut(self) -> None:
        """End a connection now."""
        self._refused = True
        self.ends = NEVER
        self.connections.discard(self)
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
        self._wait(CLOSING)

    def _take_turn(self) -> None:
        """Stop waiting for the client, unless it has to read before we can go on."""
        if self.flow.write_paused:
            self._wait(READING)
        else:
            self.ends = NEVER

    def _wait(self, seconds: float) -> None:
        """Wait for the client for some time."""
        self.since = self.loop.time()
        self.ends = self.since + seconds

    def _refuse_headers(self) -> None:
        text = f"The headers are longer than {self.limits.header:,} bytes, the limit. Send fewer or shorter ones."
        self.refuse(431, "too_large", text)


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
