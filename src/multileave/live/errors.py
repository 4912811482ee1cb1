"""Problems: the requests that the service refuses, each with its HTTP status."""

import re

from pydantic import ValidationError

from multileave.errors import MultileaveError

LONGEST_VALUE = 80


class Problem(MultileaveError):
    """A request that is refused; `code` is for programs, the message for people."""

    status = 400
    code = "bad_request"


class Invalid(Problem):
    """An invalid request body or parameter."""

    status = 422
    code = "invalid"


class Unauthorized(Problem):
    """No key, or an unknown one."""

    status = 401
    code = "unauthorized"


class Forbidden(Problem):
    """A key whose role does not allow this."""

    status = 403
    code = "forbidden"


class NotFound(Problem):
    """Something that does not exist."""

    status = 404
    code = "not_found"


class Conflict(Problem):
    """Something that is not possible in the current state."""

    status = 409
    code = "conflict"


class TooLarge(Problem):
    """A request body, batch or list over the limits."""

    status = 413
    code = "too_large"


class Busy(Problem):
    """More requests than the service can answer."""

    status = 503
    code = "busy"


def sentence_of(error: ValidationError) -> str:
    """Return the first thing that pydantic found wrong, as a sentence that names the field and its value."""
    first = error.errors(include_url=False, include_context=False)[0]
    name = ".".join(map(str, first["loc"]))
    expected = re.sub(r"^\w+ should", "it should", first["msg"]).replace(" after validation", "")
    if first["type"] == "missing":
        return f"{name} is missing; it is required."
    if first["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return f"There is no setting {name!r}. Remove it."
    found = repr(first["input"])
    return f"{name} is {found if len(found) <= LONGEST_VALUE else found[: LONGEST_VALUE - 3] + '...'}; {expected}."
