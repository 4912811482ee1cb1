"""FewSums: the sums of the units that carry evidence, by pair, while they are few enough for an exact test."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from multileave.outcome import Floats
from multileave.stats.intervals.moments import Ints
from multileave.stats.intervals.sign_flips import FEW
from multileave.written import Written

MOST = 2 * FEW  # sums of a pair: more than a test needs, as some units may be removed again


class FewSums:
    """For each of P pairs the impressions and the sum of every unit whose sum is not zero, while there are few.

    Once a pair had more than `MOST`, its units are not known any more.

    >>> few = FewSums(2)
    >>> few.add(3, np.array([1.5, 0.0]))
    >>> few.of(0)[1], few.of(1)[1]
    (array([1.5]), array([], dtype=float64))
    """

    def __init__(self, pairs: int) -> None:
        self.known = np.ones(pairs, dtype=bool)
        self._units: dict[int, list[tuple[int, float]]] = {}

    def add(self, impressions: int, sums: Floats, times: int = 1) -> None:
        """Add a unit by its sums, (P,), zero where it prefers neither; with times = -1, remove it."""
        for pair in np.flatnonzero(self.known & (sums != 0.0)).tolist():
            unit = impressions, float(sums[pair])
            if times > 0:
                self._extend(pair, [unit])
            elif unit in self._units.get(pair, []):
                self._units[pair].remove(unit)
            else:  # it was not added with these sums, so nothing is known for sure
                self.forget(np.arange(len(self.known)) == pair)

    def merge(self, other: "FewSums") -> None:
        """Add all units of another."""
        self.forget(~other.known)
        for pair, units in other._units.items():
            if self.known[pair]:
                self._extend(pair, units)

    def forget(self, pairs: "np.ndarray[Any, np.dtype[np.bool_]]") -> None:
        """Forget the units of some pairs, bool (P,)."""
        self.known = self.known & ~pairs
        for pair in np.flatnonzero(pairs).tolist():
            self._units.pop(pair, None)

    def of(self, pair: int) -> tuple[Ints, Floats]:
        """Return the impressions and the sums of a pair's units."""
        units = self._units.get(pair, [])
        return np.array([n for n, _ in units], dtype=np.int64), np.array([sum_ for _, sum_ in units])

    def weighted(self, weigh: Callable[[Ints], tuple[Any, Ints, Floats]]) -> "FewSums":
        """Return the same with weighted units; weigh: see `Weighting.of`."""
        other = FewSums(len(self.known))
        other.known = self.known.copy()
        for pair in self._units:
            counts, sums = self.of(pair)
            kept, counted, factors = weigh(counts)
            other._units[pair] = list(zip(counted[kept].tolist(), (sums * factors)[kept].tolist(), strict=True))
        return other

    def reordered(self, columns: Ints, signs: Floats) -> "FewSums":
        """Return the same with the pairs in another order, some of them reversed."""
        other = FewSums(len(columns))
        other.known = self.known[columns]
        for pair, (column, sign) in enumerate(zip(columns.tolist(), signs.tolist(), strict=True)):
            if column in self._units:
                other._units[pair] = [(n, sign * sum_) for n, sum_ in self._units[column]]
        return other

    def to_list(self) -> list[Any]:
        """Return, for each pair, its units as lists of impressions and sum, sorted, or None if they are not known."""
        return [
            [list(unit) for unit in sorted(self._units.get(pair, []))] if known else None
            for pair, known in enumerate(self.known.tolist())
        ]

    @classmethod
    def from_list(cls, data: Sequence[Any]) -> "FewSums":
        """Return what `to_list` wrote."""
        few = cls(len(data))
        few.known = np.array([units is not None for units in data], dtype=bool)
        few._units = {pair: [(int(n), float(s)) for n, s in units] for pair, units in enumerate(data) if units}
        return few

    @classmethod
    def checked(cls, written: Written, name: str, pairs: int) -> "FewSums":
        """Return what `to_list` wrote under a name, checked."""
        data = written.field(name, list)
        right = len(data) == pairs and all(units is None or _plain(units) for units in data)
        written.require(name, right, f"for each of {pairs} pairs null, or at most {MOST} pairs of impressions and sum")
        return cls.from_list(data)

    def _extend(self, pair: int, units: Iterable[tuple[int, float]]) -> None:
        held = self._units.setdefault(pair, [])
        held.extend(units)
        if len(held) > MOST:
            self.known[pair] = False
            del self._units[pair]


def _plain(units: Any) -> bool:
    return (
        isinstance(units, list)
        and len(units) <= MOST
        and all(
            isinstance(unit, list | tuple)
            and len(unit) == 2
            and all(isinstance(value, int | float) and bool(np.isfinite(value)) for value in unit)
            and unit[0] >= 1
            for unit in units
        )
    )
