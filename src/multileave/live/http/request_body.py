"""Request bodies: read up to a size, unpacked up to a size, and validated once.

A body that is too long is counted and dropped as it arrives, since most clients do not listen before they have sent
it; after 100 MB it is refused right away. A compressed body is unpacked to at most the same size, so that a small one
cannot become a large one.
"""

import zlib
from collections.abc import Collection
from typing import Any

from fastapi import Request
from pydantic import TypeAdapter, ValidationError

from multileave.live.errors import TooLarge
from multileave.live.http.error_responses import Malformed, UnsupportedMedia, invalid_body, printable
from multileave.live.records import Document, ShowRequest

JSON = "application/json"
DRAINED = 100_000_000  # bytes of a refused body


class JsonBody:
    """A dependency that reads a body into a record; `http.openapi` describes it by `models` and `content`."""

    def __init__(self, model: type) -> None:
        self.models = (model,)
        self._adapter: TypeAdapter[Any] = TypeAdapter(model)

    def content(self) -> dict[str, Any]:
        """Return how OpenAPI describes the body."""
        return {JSON: {"schema": {"$ref": f"#/components/schemas/{self.models[0].__name__}"}}}

    async def __call__(self, request: Request) -> Any:
        """Return the body as a record, or refuse it."""
        kind = media_type(request)
        if kind != JSON:
            found = printable(kind, 50) or "of no type"
            raise UnsupportedMedia(f"The request body is {found}; expected Content-Type: {JSON}.")
        body = await read_body(request, request.app.state.settings.most_body)
        try:
            return self._adapter.validate_json(body)
        except ValidationError as error:
            raise invalid_body(error) from None


def media_type(request: Request) -> str:
    """Return the type of a request's body, without its parameters and in lower case."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()[:100]


async def read_body(request: Request, most: int) -> bytes:
    """Return the body of a request, unpacked; refuse it if it is longer than `most` bytes."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise UnsupportedMedia("The request body has an unknown encoding; expected gzip or none.")
    announced = request.headers.get("content-length", "")
    refused = announced.isdecimal() and int(announced[:20]) > most
    if refused and "expect" in request.headers:
        raise _too_large(most)  # the client asked before sending it
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        refused = refused or size > most
        if not refused:
            parts.append(part)
        elif size > DRAINED:
            break
    if refused:
        raise _too_large(most)
    body = parts[0] if len(parts) == 1 else b"".join(parts)
    return _unpack(body, most) if encoding == "gzip" else body


def check_lengths(request: ShowRequest, longest: int) -> None:
    """Refuse a request with an id or a query that is too long."""
    for name, text in (("unit", request.unit), ("query", request.query), ("salt", request.salt)):
        if len(text) > longest:
            raise TooLarge(f"{name} has {len(text):,} characters; expected at most {longest:,}.")
    for documents in (*request.rankings.values(), (request.pinned or {}).values()):
        if documents and _longest(documents) > longest:
            raise TooLarge(f"A document id has {_longest(documents):,} characters; expected at most {longest:,}.")


def _longest(documents: Collection[Document]) -> int:
    """Return the length of the longest id; numbers are short."""
    try:
        return max(map(len, documents))  # type: ignore[arg-type]
    except TypeError:
        return max((len(document) for document in documents if isinstance(document, str)), default=0)


def _unpack(body: bytes, most: int) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        found = unpacker.decompress(body, most + 1)
    except zlib.error:
        raise Malformed("The request body is not gzip, although its Content-Encoding says so.") from None
    if len(found) > most:
        raise _too_large(most)
    if not unpacker.eof or unpacker.unused_data:
        raise Malformed("The gzip body is truncated or has trailing data; expected one complete gzip member.")
    return found


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"The request body is longer than {most:,} bytes, the limit. Send less at a time.")
