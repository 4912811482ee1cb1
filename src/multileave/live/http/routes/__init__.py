"""Routes: one file per subject, each with an APIRouter; `live.app` puts them together."""

from typing import Annotated, Any

from fastapi import Path, Query

from multileave.live.http.responses import Refusal

__all__ = ["API", "Action", "Number", "may"]

API = "/api/v1"
WHEN = {
    400: "The body cannot be read.",
    401: "No key, or one that is not known.",
    403: "The key's role may not do this.",
    404: "There is no such thing.",
    409: "Not possible in the present state.",
    413: "The body, or the batch, is too large.",
    415: "The body is of another type than JSON.",
    422: "Something makes no sense; the message and the details say what.",
    503: "The service is not ready.",
}

Number = Annotated[int, Path(ge=1, le=2**31 - 1, description="the number of the experiment", examples=[1])]
Action = Annotated[
    str | None, Query(max_length=100, description="one of the experiment's actions; the main one if left out")
]


def may(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return how OpenAPI describes that a route may refuse."""
    return {status: {"model": Refusal, "description": WHEN[status]} for status in statuses}
