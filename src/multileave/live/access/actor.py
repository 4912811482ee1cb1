"""Actor: on whose behalf the service works, for the audit log.

Authentication sets `acting` for a request, and a command for its run; threads that a request starts inherit it.
"""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

ActorKind = Literal["key", "session", "visitor", "open", "command line", "program"]


@dataclass(frozen=True)
class Actor:
    """Who acts.

    kind: key: an API key; session: somebody logged in with a key; visitor: nobody known; open: anybody, since the
        service requires no keys; command line; program: Python code that uses the service directly.
    key: the key's number. name: the key's, or the operating system's user.
    """

    kind: ActorKind
    key: int | None = None
    name: str | None = None


PROGRAM = Actor("program")
ANYBODY = Actor("open")
acting: ContextVar[Actor] = ContextVar("acting", default=PROGRAM)
