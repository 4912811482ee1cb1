"""Problems: what the service refuses, each with the HTTP status it is answered with."""

from multileave.errors import MultileaveError

__all__ = ["Conflict", "Forbidden", "Invalid", "NotFound", "Problem", "TooLarge", "Unauthorized"]


class Problem(MultileaveError):
    """A request that is refused; `code` is for programs, the message for people."""

    status = 400
    code = "bad_request"


class Invalid(Problem):
    """A body or a parameter that makes no sense."""

    status = 422
    code = "invalid"


class Unauthorized(Problem):
    """No key, or one that is not known."""

    status = 401
    code = "unauthorized"


class Forbidden(Problem):
    """A key whose role may not do this."""

    status = 403
    code = "forbidden"


class NotFound(Problem):
    """Something that does not exist."""

    status = 404
    code = "not_found"


class Conflict(Problem):
    """Something that cannot be done in the present state."""

    status = 409
    code = "conflict"


class TooLarge(Problem):
    """A body, batch or list beyond the limits."""

    status = 413
    code = "too_large"
