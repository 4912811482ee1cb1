"""Routes: one file per subject, each with an APIRouter; `http.app` puts them together."""

from typing import Annotated, Any

from fastapi import Path, Query

from multileave.live.http.responses import ErrorResponse

__all__ = ["API", "Action", "Number", "errors"]

API = "/api/v1"
WHEN = {
    400: "The request body cannot be read.",
    401: "No key, or an unknown one.",
    403: "The key's role or its limit to some experiments does not allow this.",
    404: "Not found.",
    409: "Not possible in the current state.",
    413: "The request body or the batch is too large.",
    415: "The request body is not JSON.",
    422: "The request is invalid; see `message` and `details`.",
    429: "Too many events within a minute; see the header Retry-After.",
    503: "The service is not ready, or the database cannot be used now; try again after `Retry-After` seconds.",
}

Number = Annotated[int, Path(ge=1, le=2**31 - 1, description="The number of the experiment.", examples=[1])]
Action = Annotated[
    str | None, Query(max_length=100, description="One of the experiment's actions; the primary one by default.")
]


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return how OpenAPI describes the errors of a route."""
    return {status: {"model": ErrorResponse, "description": WHEN[status]} for status in statuses}
