"""Refusals: every answer that says no has one shape, whoever says it.

    {"error": {"code": "not_found", "message": "...", "details": null, "request_id": "..."}}

`code` is for programs and `message` for people. `details` lists what is wrong with a body, part by part; it
names the place, and never repeats what was sent there.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from multileave.errors import MultileaveError
from multileave.live.errors import Problem, Unauthorized

__all__ = [
    "BadBody",
    "Malformed",
    "NotReady",
    "UnsupportedMedia",
    "bad_body",
    "details_of",
    "handle_refusals",
    "printable",
    "refusal",
    "request_id_of",
]

MOST_DETAILS = 20
LONGEST_MESSAGE = 1000
CODES = {404: "not_found", 405: "method_not_allowed", 413: "too_large", 415: "unsupported_media_type"}
WORDS = {
    404: "there is nothing at this address. The routes are listed in /api/v1/openapi.json.",
    405: "this address does not take this method; the header Allow lists those it takes.",
}


class Malformed(Problem):
    """A body that cannot be read: no JSON, no gzip, or nested too deeply."""

    status = 400
    code = "malformed"


class UnsupportedMedia(Problem):
    """A body of a type, or in an encoding, that the route does not take."""

    status = 415
    code = "unsupported_media_type"


class NotReady(Problem):
    """The service starts and does not serve yet."""

    status = 503
    code = "not_ready"


class BadBody(Problem):
    """A body with parts that make no sense, listed in `details`."""

    status = 422
    code = "invalid"

    def __init__(self, message: str, details: Sequence[Mapping[str, str]]) -> None:
        super().__init__(message)
        self.details = list(details)


def refusal(
    status: int,
    code: str,
    message: str,
    request_id: str,
    *,
    details: Sequence[Mapping[str, str]] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an answer that says no, in the one shape."""
    message = printable(message, LONGEST_MESSAGE)
    body = {"error": {"code": code, "message": message, "details": details, "request_id": request_id}}
    return Response(to_json(body), status, headers=headers, media_type="application/json")


def printable(text: str, most: int) -> str:
    r"""Return a text that is safe to send and to log: no control characters, no lone surrogates, not too long.

    >>> printable("a\x00b\ud800", 100)
    'a\\x00b\\ud800'
    """
    cut = text if len(text) <= most else text[: most - 3] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)


def details_of(errors: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return what pydantic found, as places and reasons, without what was sent there."""
    found = []
    for number, error in enumerate(errors):
        if number == MOST_DETAILS:
            found.append({"where": "", "reason": f"and more than {MOST_DETAILS} others"})
            break
        where = ".".join(printable(str(part), 60) for part in error["loc"])
        found.append({"where": where, "reason": printable(str(error["msg"]), 300)})
    return found


def handle_refusals(app: FastAPI) -> None:
    """Let an app answer every refusal in the one shape."""
    app.add_exception_handler(MultileaveError, _refuse_problem)
    app.add_exception_handler(RequestValidationError, _refuse_parameters)
    app.add_exception_handler(HTTPException, _refuse_http)


def request_id_of(request: Request) -> str:
    """Return the id of a request, which its log line and its refusal carry."""
    return str(request.scope.get("request_id", ""))


async def _refuse_problem(request: Request, error: Exception) -> Response:
    status, code, headers = 422, "invalid", None
    if isinstance(error, Problem):
        status, code = error.status, error.code
        if isinstance(error, Unauthorized):
            headers = {"WWW-Authenticate": 'Bearer realm="multileave"'}
    details = error.details if isinstance(error, BadBody) else None
    return refusal(status, code, str(error), request_id_of(request), details=details, headers=headers)


async def _refuse_parameters(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    details = details_of(error.errors())
    message = "a parameter of the address makes no sense; details lists what was expected."
    return refusal(422, "invalid", message, request_id_of(request), details=details)


async def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = CODES.get(error.status_code, "bad_request")
    message = WORDS.get(error.status_code, str(error.detail))
    headers = {"Allow": ", ".join(_methods_at(request))} if error.status_code == 405 else error.headers
    return refusal(error.status_code, code, message, request_id_of(request), headers=headers)


def _methods_at(request: Request) -> list[str]:
    """Return the methods that the address of a request takes, over all its routes."""
    found: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return sorted(found)


def bad_body(error: ValidationError) -> "Malformed | BadBody":
    """Return the refusal of a body that pydantic did not take."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    if errors and errors[0]["type"] == "json_invalid":
        return Malformed(f"the body is no JSON: {errors[0]['msg'].removeprefix('Invalid JSON: ')}.")
    return BadBody("the body makes no sense; details lists what was expected.", details_of(errors))
