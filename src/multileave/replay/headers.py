"""Headers: which methods and rankers a log holds, each pair numbered once."""

import threading
from dataclasses import dataclass

from multileave.errors import MultileaveError
from multileave.methods.base import Method, get_method

__all__ = ["Header", "Headers", "RowError"]


class RowError(Exception):
    """Why a row cannot be inferred; `kind` is what it is counted as."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


@dataclass(frozen=True)
class Header:
    """A method with its parameters, and the rankers it compares."""

    method: Method
    rankers: tuple[str, ...]


class Headers:
    """Numbers for pairs of method and rankers, the same for all threads."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, tuple[str, ...]], int | RowError] = {}
        self._lock = threading.Lock()
        self.known: list[Header] = []

    def number(self, method: str, rankers: tuple[str, ...]) -> int:
        """Return the number of a pair, or raise `RowError` if it makes no sense."""
        found = self._numbers.get((method, rankers))
        if found is None:
            with self._lock:
                found = self._numbers.get((method, rankers))
                if found is None:
                    found = self._read(method, rankers)
                    if len(self._numbers) < 1_000_000:  # a fuzzed log may name a new method in every row
                        self._numbers[method, rankers] = found
        if isinstance(found, RowError):
            raise RowError(found.kind, found.reason)
        return found

    def _read(self, method: str, rankers: tuple[str, ...]) -> int | RowError:
        if len(rankers) < 2 or len(set(rankers)) < len(rankers):
            return RowError("malformed", f"'rankers' is {ascii(rankers)[:80]}; expected two or more different names")
        try:
            rankers[0].encode(), "".join(rankers).encode()
            parsed = get_method(method)
            parsed.check_rankers(len(rankers))
        except (MultileaveError, UnicodeEncodeError, TypeError) as error:
            return RowError("malformed", " ".join(str(error).split())[:300])
        header = Header(parsed, rankers)
        if header in self.known:
            return self.known.index(header)
        self.known.append(header)
        return len(self.known) - 1
