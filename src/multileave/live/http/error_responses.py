"""Error responses: every error has one shape, whoever raises it.

    {"error": {"code": "not_found", "message": "...", "details": null, "request_id": "..."}}

`code` is for programs and `message` for people. `details` lists what is wrong with a request body; it names the places
and never repeats what was sent.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
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
from multileave.live.errors import Invalid, Problem, TooMany, Unauthorized, Unavailable

MOST_DETAILS = 20
LONGEST_MESSAGE = 1000
CODES = {404: "not_found", 405: "method_not_allowed", 413: "too_large", 415: "unsupported_media_type"}
REASONS = {"unexpected_keyword_argument": "There is no such field", "missing_argument": "Field required"}
MESSAGES = {
    404: "There is nothing at this address. The routes are listed in /api/v1/openapi.json.",
    405: "This address does not support this method. The Allow header lists the ones it does.",
}


class Malformed(Problem):
    """A request body that cannot be read: not JSON, not gzip, or nested too deeply."""

    status = 400
    code = "malformed"


class UnsupportedMedia(Problem):
    """A request body of an unsupported type or encoding."""

    status = 415
    code = "unsupported_media_type"


class NotReady(Problem):
    """The service is starting."""

    status = 503
    code = "not_ready"


RETRY_AFTER = {"Retry-After": "2"}  # seconds


class InvalidBody(Invalid):
    """An invalid request body; `details` lists the invalid parts."""

    def __init__(self, message: str, details: Sequence[Mapping[str, str]]) -> None:
        super().__init__(message)
        self.details = list(details)


def error_response(
    status: int,
    code: str,
    message: str,
    request_id: str,
    *,
    details: Sequence[Mapping[str, str]] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an error in the one shape."""
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


def _details(errors: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return what pydantic found, as places and reasons, without what was sent."""
    found = []
    for number, error in enumerate(errors):
        if number == MOST_DETAILS:
            found.append({"where": "", "reason": f"and more than {MOST_DETAILS} others"})
            break
        where = ".".join(printable(str(part), 60) for part in error["loc"])
        reason = REASONS.get(error["type"], str(error["msg"]).replace("Tuple should", "List should"))
        found.append({"where": where, "reason": printable(reason, 300)})
    return found


def handle_errors(app: FastAPI) -> None:
    """Make an app answer every error in the one shape."""
    app.add_exception_handler(MultileaveError, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_parameters)
    app.add_exception_handler(HTTPException, _on_http)


async def _on_problem(request: Request, error: Exception) -> Response:
    status, code, headers = 422, "invalid", None
    if isinstance(error, Problem):
        status, code = error.status, error.code
        if isinstance(error, Unauthorized):
            headers = {"WWW-Authenticate": 'Bearer realm="multileave"'}
        elif status == Unavailable.status:
            headers = RETRY_AFTER
        elif isinstance(error, TooMany):
            headers = {"Retry-After": str(ceil(error.retry_after))}
    details = error.details if isinstance(error, InvalidBody) else None
    request_id = request.scope.get("request_id", "")
    return error_response(status, code, str(error), request_id, details=details, headers=headers)


async def _on_parameters(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    details = _details(error.errors())
    message = "A parameter is invalid; see `details`."
    return error_response(422, "invalid", message, request.scope.get("request_id", ""), details=details)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = CODES.get(error.status_code, "bad_request")
    message = MESSAGES.get(error.status_code, str(error.detail))
    headers = {"Allow": ", ".join(_methods_at(request))} if error.status_code == 405 else error.headers
    return error_response(error.status_code, code, message, request.scope.get("request_id", ""), headers=headers)


def _methods_at(request: Request) -> list[str]:
    """Return the methods that an address supports, over all its routes."""
    found: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return sorted(found)


def invalid_body(error: ValidationError) -> Malformed | InvalidBody:
    """Return the error for a request body that pydantic rejected."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    if errors and errors[0]["type"] == "json_invalid":
        return Malformed(f"The request body is not JSON: {errors[0]['msg'].removeprefix('Invalid JSON: ')}.")
    return InvalidBody("The request body is invalid; see `details`.", _details(errors))
