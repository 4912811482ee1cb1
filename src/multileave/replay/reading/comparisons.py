"""Headers: the methods and rankers of a log, each combination numbered once; arms have numbers below 0."""

import threading
from dataclasses import dataclass, replace

from multileave.errors import DataError, MultileaveError
from multileave.impression import ALONE
from multileave.log.reader import RowError, short
from multileave.methods.base import Method, get_method, reader_of
from multileave.stats.verdict.segments import NO_SEGMENT

MOST_SEGMENTS = 200


@dataclass(frozen=True)
class Header:
    """A method with its parameters and the rankers it compares; by_pair: keep preferences by pair, not credits.

    segment: of the traffic, if the log is divided into segments.
    """

    method: Method
    rankers: tuple[str, ...]
    by_pair: bool = False
    segment: str | None = None


class Headers:
    """Numbers of methods and rankers, shared by all threads."""

    def __init__(self, method: Method | None = None, segment: str | None = None) -> None:
        """method: infer all rows as this method would, instead of the one that drew them.

        segment: the column that divides the traffic into segments.
        """
        self._method, self.segment = method, segment
        self._numbers: dict[tuple[str, tuple[str, ...]], int | RowError] = {}
        self._lock = threading.Lock()
        self.known: list[Header] = []
        self._arms: list[str] = []

    def number(self, method: str, rankers: tuple[str, ...]) -> int:
        """Return the number of a method and rankers, below 0 for an arm, or raise `RowError` if they are invalid."""
        found = self._numbers.get((method, rankers))
        if found is None:
            with self._lock:
                found = self._numbers.get((method, rankers))
                if found is None:
                    found = self._read(method, rankers)
                    if len(self._numbers) < 1_000_000:  # a fuzzed log may name a new method in every row
                        self._numbers[method, rankers] = found
        if isinstance(found, RowError):
            raise RowError(found.reason)
        return found

    def arm(self, number: int) -> str:
        """Return the arm with a number below 0."""
        return self._arms[-1 - number]

    def spelled(self, number: int) -> tuple[str, tuple[str, ...], bool, str | None]:
        """Return the method, the rankers, whether preferences are kept by pair, and the segment of a number."""
        if number < 0:
            return ALONE, (self.arm(number),), False, None
        header = self.known[number]
        return str(header.method), header.rankers, header.by_pair, header.segment

    def _read(self, method: str, rankers: tuple[str, ...]) -> int | RowError:
        if method == ALONE and len(rankers) == 1:
            try:
                rankers[0].encode()
            except UnicodeEncodeError as error:
                return RowError(str(error)[:300])
            self._arms.append(rankers[0])
            return -len(self._arms)
        if len(rankers) < 2 or len(set(rankers)) < len(rankers):
            return RowError(f"'rankers' is {short(rankers)}; expected two or more different names.")
        try:
            rankers[0].encode(), "".join(rankers).encode()
            parsed = get_method(method)
            parsed.check_rankers(len(rankers))
            if self._method is not None:
                parsed = reader_of(parsed, self._method)
        except (MultileaveError, UnicodeEncodeError, TypeError) as error:
            return RowError(" ".join(str(error).split())[:300])
        return self._place(Header(parsed, rankers, by_pair=parsed.outcome != "difference"))

    def by_pair(self, number: int) -> int:
        """Return the number of the same method and rankers with preferences by pair."""
        with self._lock:
            return self._place(replace(self.known[number], by_pair=True))

    def of_segment(self, number: int, segment: str | None) -> int:
        """Return the number of the same method and rankers in a segment, None if it is not known."""
        segment = NO_SEGMENT if segment is None else segment
        with self._lock:
            segments = {header.segment for header in self.known} - {None}
            if segment not in segments and len(segments) >= MOST_SEGMENTS:
                raise DataError(
                    f"The column {self.segment!r} has more than {MOST_SEGMENTS} different values, such as "
                    f"{short(segment)}; expected a few segments. Choose a column such as a device or a country."
                )
            return self._place(replace(self.known[number], segment=segment))

    def _place(self, header: Header) -> int:
        if header not in self.known:
            self.known.append(header)
        return self.known.index(header)
