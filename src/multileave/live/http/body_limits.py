"""Limits: bodies are read up to a size, unpacked up to a size, and checked once.

A body that is too long is counted and dropped while it comes, since most clients do not listen before they
have sent it; after 100 MB it is answered all the same. A compressed body is unpacked to at most the same
size, so that a small one cannot become a large one.
"""

import zlib
from collections.abc import Collection
from typing import Any

from fastapi import Request
from pydantic import BaseModel, ValidationError

from multileave.live.errors import TooLarge
from multileave.live.http.error_responses import Malformed, UnsupportedMedia, bad_body, printable
from multileave.live.http.requests import ShowBody
from multileave.live.records import Document

__all__ = ["JSON", "JsonBody", "check_ids", "media_type", "read_body"]

JSON = "application/json"
DRAINED = 100_000_000  # bytes of a refused body


class JsonBody:
    """A dependency that reads a body into a model; `live.openapi` describes it by `models` and `content`."""

    def __init__(self, model: type[BaseModel]) -> None:
        self.models = (model,)

    def content(self) -> dict[str, Any]:
        """Return how OpenAPI describes the body."""
        return {JSON: {"schema": {"$ref": f"#/components/schemas/{self.models[0].__name__}"}}}

    async def __call__(self, request: Request) -> BaseModel:
        """Return the body as a model, or refuse it."""
        kind = media_type(request)
        if kind != JSON:
            found = printable(kind, 50) or "of no type"
            raise UnsupportedMedia(f"the body is {found}; expected Content-Type: {JSON}.")
        body = await read_body(request, request.app.state.settings.most_body)
        try:
            return self.models[0].model_validate_json(body)
        except ValidationError as error:
            raise bad_body(error) from None


def media_type(request: Request) -> str:
    """Return the type of a request's body, without its parameters and in lower case."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()[:100]


async def read_body(request: Request, most: int) -> bytes:
    """Return the body of a request, unpacked, or refuse it where it is longer than `most` bytes."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise UnsupportedMedia("the body has an encoding that is not known; expected gzip or none.")
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


def check_ids(body: ShowBody, longest: int) -> None:
    """Refuse a request for a list with an id, or a query, that is too long."""
    for what, text in (("unit", body.unit), ("query", body.query), ("salt", body.salt)):
        if len(text) > longest:
            raise TooLarge(f"the {what} has {len(text):,} characters; expected at most {longest:,}.")
    for documents in (*body.rankings.values(), (body.pinned or {}).values()):
        if documents and _longest(documents) > longest:
            raise TooLarge(f"a document's id has {_longest(documents):,} characters; expected at most {longest:,}.")


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
        raise Malformed("the body is not gzip, as its Content-Encoding says; expected gzip.") from None
    if len(found) > most:
        raise _too_large(most)
    if not unpacker.eof or unpacker.unused_data:
        raise Malformed("the gzip body ends too early, or goes on after its end; expected one whole gzip member.")
    return found


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"the body is longer than {most:,} bytes, the most that is taken. Send less at a time.")
