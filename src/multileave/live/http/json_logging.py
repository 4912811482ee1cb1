"""Logging: JSON lines, each with the id of its request.

A line holds the route as declared, never the address as sent; no key, cookie, unit, query or body. Of an unexpected
error it holds the type and the place, since the message may contain any of these.
"""

import json
import logging
import re
import secrets
import sys
import traceback
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, TextIO

from multileave.live.http.error_responses import printable

log = logging.getLogger("multileave.live")
REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
LOGGERS = ("multileave.live", "uvicorn.error")


class JsonLines(logging.Formatter):
    """Formats a log record as one line of JSON in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": printable(record.getMessage(), 500),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["where"] = _places(record.exc_info[2])
        return json.dumps(line)


def configure(level: str, stream: TextIO | None = None) -> None:
    """Write the logs of the service and its server to a stream, stderr by default."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonLines())
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level.upper())


def request_id_from(header: bytes | None) -> str:
    """Return the id that a client gave its request if it is well-formed, or a new one."""
    if header is not None and REQUEST_ID.fullmatch(header):
        return header.decode("ascii")
    return secrets.token_hex(8)


def _places(trace: TracebackType | None) -> list[str]:
    frames = traceback.extract_tb(trace)[-12:]
    return [f"{frame.filename.rpartition('site-packages/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
