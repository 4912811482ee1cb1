"""Events: what users did, as lines that are queued, spilled and sent."""

import json
import math
import uuid
from datetime import UTC, datetime

from multileave.client.search import Document
from multileave.errors import DataError

__all__ = ["event_line"]


def event_line(
    impression: str,
    document: Document | None,
    position: int | None,
    action: str,
    dwell: float | None,
) -> bytes:
    """Return an event of now as a line of JSON, with an id of its own: sent twice, it is counted once."""
    if not isinstance(impression, str) or not impression:
        raise DataError(f"impression is {impression!r}; expected the impression of a page, or None.")
    if document is None and position is None:
        raise DataError("a click has neither a document nor a position. Pass one of them.")
    if not isinstance(document, str | int | None) or isinstance(document, bool):
        raise DataError(f"document is {document!r}; expected its id, a string or an integer.")
    if position is not None and (type(position) is not int or position < 0):
        raise DataError(f"position is {position!r}; expected a number from 0.")
    if not isinstance(action, str) or not action:
        raise DataError(f"action is {action!r}; expected a name, such as 'click'.")
    if dwell is not None and not (math.isfinite(dwell) and dwell >= 0):
        raise DataError(f"dwell is {dwell!r}; expected seconds from 0.")
    fields = {
        "id": uuid.uuid4().hex,
        "impression": impression,
        "document": document,
        "position": position,
        "action": action,
        "timestamp": datetime.now(UTC).isoformat(),
        "dwell": None if dwell is None else float(dwell),
    }
    given = {name: value for name, value in fields.items() if value is not None}
    return json.dumps(given, separators=(",", ":")).encode() + b"\n"
