"""Units: a row of sums for every unit (user, session), as its impressions are not independent.

A row holds R credits while all outcomes are differences of credits, since differences of summed credits are summed
differences; otherwise it holds a sum for each of the R (R - 1) / 2 pairs. With the unit's impressions and clicks, a
million units of five rankers take 60 MB. Their ids take more than twice as much in a dictionary, but a fifth of that
packed, until one is looked up.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from multileave.errors import TallyError
from multileave.outcome import TOLERANCE, Floats
from multileave.stats.intervals.moments import Ints, differences
from multileave.stats.parsing import plain_unit, written_tally

IMPLAUSIBLE = 1000  # impressions or clicks: what no person makes in an experiment, unless others do, too
BLOCK = 1 << 18  # numbers in a block of units' sums by pair


@dataclass(frozen=True, eq=False)
class PackedIds:
    """Distinct strings, as UTF-8 in one array of bytes: id x is text[ends[x]:ends[x + 1]].

    >>> list(PackedIds(np.array([0, 2, 5]), np.frombuffer(b"u1u22", dtype=np.uint8)))
    ['u1', 'u22']
    """

    ends: Ints
    text: "np.ndarray[Any, np.dtype[np.uint8]]"

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __iter__(self) -> Iterator[str]:
        text = self.text.tobytes()
        return (text[start:end].decode() for start, end in pairwise(self.ends.tolist()))


class Units:
    """The rows of all units, made as they are first seen."""

    def __init__(self, rankers: int) -> None:
        self.rankers = rankers
        self.pairs = rankers * (rankers - 1) // 2
        self.by_pair = False
        self._rows: dict[Hashable, int] | PackedIds = {}
        self.counts: Ints = np.zeros(0, dtype=np.int64)
        self.clicks: Ints = np.zeros(0, dtype=np.int64)
        self.sums: Floats = np.zeros((0, rankers))

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> dict[Hashable, int]:
        """The row of each unit, by its id."""
        if isinstance(self._rows, PackedIds):
            self._rows = {unit: row for row, unit in enumerate(self._rows)}
        return self._rows

    def find(self, unit: Hashable) -> int | None:
        """Return the row of a unit, None for one not seen before."""
        try:
            return self.rows.get(unit)
        except TypeError:
            raise TallyError(
                f"The unit is {unit!r}, a {type(unit).__name__}, which is not hashable; expected an id, such as a "
                "user's. Pass a string or a number."
            ) from None

    def add(self, unit: Hashable, values: Floats, *, by_pair: bool, clicks: int) -> None:
        """Add one impression's credits, or preferences by pair, to a unit's row."""
        row = self.find(unit)
        if row is None:
            row = self._make([plain_unit(unit)])
        # First, as it may replace the sums.
        held = self._as_held(values, by_pair)
        self.counts[row] += 1
        self.clicks[row] += clicks
        self.sums[row] += held

    def change(self, row: int, before: tuple[Floats, bool], after: tuple[Floats, bool], clicks: int) -> None:
        """Replace one impression's old values in a row by its new ones."""
        if before[1] or after[1]:
            self.hold_pairs()
        self.sums[row] += self._as_held(*after) - self._as_held(*before)
        self.clicks[row] = max(self.clicks[row] + clicks, 0)

    def put(self, units: Sequence[Hashable], counts: Ints, clicks: Ints, sums: Floats, *, by_pair: bool) -> None:
        """Add many different units' rows at once."""
        if not len(units):
            return
        if by_pair:
            self.hold_pairs()
        elif self.by_pair:
            sums = differences(sums, TOLERANCE)
        unseen = [unit for unit in units if unit not in self.rows]
        if unseen:
            self._make(unseen)
        rows = np.fromiter((self.rows[unit] for unit in units), dtype=np.int64, count=len(units))
        self.counts[rows] += counts
        self.clicks[rows] += clicks
        self.sums[rows] += sums

    def merge(self, other: "Units") -> None:
        """Add all rows of other units; a unit in both is one unit."""
        used = len(other)
        self.put(
            list(other.rows), other.counts[:used], other.clicks[:used], other.sums[:used], by_pair=other.by_pair
        )  # fmt: skip

    def reordered(self, order: Ints, columns: Ints, signs: Floats) -> "Units":
        """Return the same units with the rankers, and so the pairs, in another order."""
        other = Units(self.rankers)
        other._rows, other.counts, other.clicks, other.by_pair = self._rows, self.counts, self.clicks, self.by_pair
        other.sums = self.sums[:, columns] * signs if self.by_pair else self.sums[:, order]
        return other

    def blocks(self) -> Iterator[tuple[Floats, Ints]]:
        """Yield the units' sums by pair and their impressions, a block of units at a time."""
        size = max(BLOCK // self.pairs, 1)
        for start in range(0, len(self), size):
            yield self.at(slice(start, min(start + size, len(self))))

    def at(self, rows: Any) -> tuple[Floats, Ints]:
        """Return the sums by pair and the impressions of some rows."""
        sums = self.sums[rows]
        return sums if self.by_pair else differences(sums, TOLERANCE), self.counts[rows]

    def heavy(self) -> list[tuple[Hashable, int, int]]:
        """Return the units with implausibly many impressions or clicks, and how many they have."""
        used = len(self)
        places = set(np.flatnonzero(np.maximum(self.counts, self.clicks)[:used] > IMPLAUSIBLE).tolist())
        if not places:
            return []
        return [
            (unit, int(self.counts[row]), int(self.clicks[row]))
            for row, unit in enumerate(self._rows if isinstance(self._rows, PackedIds) else self.rows)
            if row in places
        ]

    def hold_pairs(self) -> None:
        """Turn rows of credits into rows of pairs."""
        if not self.by_pair:
            self.by_pair = True
            self.sums = differences(self.sums, TOLERANCE)

    def to_dict(self) -> dict[str, Any]:
        """Return the rows as plain values that JSON can hold."""
        for unit in self.rows:
            if not isinstance(unit, str | int | float):
                raise TallyError(
                    f"Unit {unit!r} is a {type(unit).__name__}; a tally can be written only if its units are strings "
                    "or numbers. Pass unit=str(...) when adding."
                )
        used = len(self)
        return {
            "sums_of": "pairs" if self.by_pair else "credits",
            "ids": list(self.rows),
            "impressions": self.counts[:used].tolist(),
            "clicks": self.clicks[:used].tolist(),
            "sums": self.sums[:used].tolist(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], rankers: int) -> "Units":
        """Return the rows that `to_dict` wrote, checked."""
        units, written = cls(rankers), written_tally(data)
        sums_of, ids = written.field("sums_of", str), written.field("ids", list)
        written.require("sums_of", sums_of in ("credits", "pairs"), "'credits' or 'pairs'")
        units.by_pair = sums_of == "pairs"
        plain = all(isinstance(unit, str | int | float) and unit == unit for unit in ids)
        written.require("ids", plain, "units that are strings or numbers")
        units._rows = {unit: row for row, unit in enumerate(ids)}
        written.require("ids", len(units) == len(ids), "every unit once")
        units.counts = written.integers("impressions", (len(ids),), 1)
        units.clicks = written.integers("clicks", (len(ids),))
        units.sums = written.floats("sums", (len(ids), units.pairs if units.by_pair else rankers))
        return units

    @classmethod
    def packed(
        cls, rankers: int, ids: PackedIds, counts: Ints, clicks: Ints, sums: Floats, *, by_pair: bool
    ) -> "Units":
        """Return units whose arrays were made elsewhere and now belong to them."""
        units = cls(rankers)
        units._rows, units.counts, units.clicks, units.sums, units.by_pair = ids, counts, clicks, sums, by_pair
        return units

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Units):
            return NotImplemented
        if (self.rankers, self.by_pair, self.rows.keys()) != (other.rankers, other.by_pair, other.rows.keys()):
            return False
        mine, theirs = list(self.rows.values()), [other.rows[unit] for unit in self.rows]
        return all(
            np.array_equal(a[mine], b[theirs])
            for a, b in ((self.counts, other.counts), (self.clicks, other.clicks), (self.sums, other.sums))
        )

    __hash__ = None  # type: ignore[assignment]  # it changes

    def _as_held(self, values: Floats, by_pair: bool) -> Floats:
        """Return credits or pairs as the rows hold them; pairs turn the rows into pairs."""
        if by_pair:
            self.hold_pairs()
            return values
        return differences(values, TOLERANCE) if self.by_pair else values

    def _make(self, units: Sequence[Hashable]) -> int:
        """Make a row for each of these new units, and return the first."""
        first = len(self.rows)
        for row, unit in enumerate(units, start=first):
            self.rows[unit] = row
        held = len(self.counts)
        if len(self.rows) > held:
            more = max(len(self.rows), held + held // 2, 16) - held
            nothing = np.zeros(more, dtype=np.int64)
            self.counts = np.concatenate([self.counts, nothing])
            self.clicks = np.concatenate([self.clicks, nothing])
            self.sums = np.concatenate([self.sums, np.zeros((more, self.sums.shape[1]))])
        return first
