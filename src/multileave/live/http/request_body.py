"""Request bodies: read up to a size, unpacked up to a size, and validated once.

A body that is too long is counted and dropped as it arrives, since most clients do not listen before they have sent
it; after 100 MB it is refused right away. A compressed body is unpacked to at most the same size, so that a small one
cannot become a large one. A body of more than 64 kB is read in a thread, after its parts have been counted: parsing two
megabytes of empty objects takes a second and half a gigabyte.
"""

import re
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from anyio import to_thread
from fastapi import Request
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from multileave.live.definition import MOST_RANKERS, MOST_SHOWN
from multileave.live.errors import TooLarge
from multileave.live.http.error_responses import Malformed, UnsupportedMedia, invalid_body, printable
from multileave.live.records import Document, ShowRequest
from multileave.live.settings import Settings

JSON = "application/json"
DRAINED = 100_000_000  # bytes of a refused body
SMALL = 65_536  # bytes of a body that is read right away
BEGINNING = 8192  # bytes in which a refused body may turn out not to be JSON
STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
KEY = re.compile(rb'"[ \t\r\n]*:')


@dataclass(frozen=True)
class Parts:
    """How many parts a JSON text has, or may have: lists and objects, keys of objects, and commas."""

    nested: int
    keys: int
    commas: int

    def hold(self, text: bytes) -> bool:
        """Whether a text has no more parts than these; those that its strings seem to have are counted as well."""
        return (
            text.count(b"{") + text.count(b"[") <= self.nested
            and text.count(b",") <= self.commas
            and (text.count(b":") <= self.keys or len(KEY.findall(text)) <= self.keys)
        )

    def check(self, body: bytes) -> None:
        """Refuse a JSON body with more parts than a legitimate one can have, before they are built."""
        if self.hold(body):
            return
        strings = (body.count(b'"') - body.count(b'\\"')) // 2
        if strings <= self.keys + self.commas and self.hold(STRING.sub(b'"', body)):
            return
        try:
            from_json(body[:BEGINNING].decode("utf-8", "ignore"), allow_partial=True)
        except ValueError as error:
            raise Malformed(f"The request body is not JSON: {error}.") from None
        raise TooLarge("The request body has more lists, objects or entries than expected. Send less at a time.")


def parts_of_a_record(_: Settings) -> Parts:
    """Return how many parts a record with a few lists of names may have."""
    return Parts(nested=100, keys=1000, commas=2000)


def parts_of_a_search(settings: Settings) -> Parts:
    """Return how many parts a `ShowRequest` may have."""
    return Parts(
        nested=2 * MOST_RANKERS,
        keys=2 * (MOST_RANKERS + MOST_SHOWN),
        commas=MOST_RANKERS * settings.longest_ranking + 2 * MOST_SHOWN,
    )


class JsonBody:
    """A dependency that reads a body into a record; `http.openapi` describes it by `models` and `content`.

    most: the parts that a large body may have.
    """

    def __init__(self, model: type, most: Callable[[Settings], Parts] = parts_of_a_record) -> None:
        self.models = (model,)
        self._most = most
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
        settings = request.app.state.settings
        body = await read_body(request, settings.most_body)
        if len(body) <= SMALL:
            return self._read(body)
        return await to_thread.run_sync(self._read_large, body, self._most(settings))

    def _read_large(self, body: bytes, most: Parts) -> Any:
        most.check(body)
        return self._read(body)

    def _read(self, body: bytes) -> Any:
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
    body: bytes | bytearray = b""
    size = 0
    async for part in request.stream():
        size += len(part)
        refused = refused or size > most
        if refused:
            body = b""
            if size > DRAINED:
                break
        elif not body:
            body = part
        elif part:
            body = body if isinstance(body, bytearray) else bytearray(body)  # copied once, not for each part
            body += part
    if refused:
        raise _too_large(most)
    return await _unpack(bytes(body), most) if encoding == "gzip" else bytes(body)


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


async def _unpack(body: bytes, most: int) -> bytes:
    """Return a body unpacked; what is larger than a small body, in a thread."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        found = unpacker.decompress(body, SMALL)
        if len(found) == SMALL <= most and not unpacker.eof:
            tail = unpacker.unconsumed_tail
            found += await to_thread.run_sync(unpacker.decompress, tail, most + 1 - SMALL)
    except zlib.error:
        raise Malformed("The request body is not gzip, although its Content-Encoding says so.") from None
    if len(found) > most:
        raise _too_large(most)
    if not unpacker.eof or unpacker.unused_data:
        raise Malformed("The gzip body is truncated or has trailing data; expected one complete gzip member.")
    return found


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"The request body is longer than {most:,} bytes, the limit. Send less at a time.")
