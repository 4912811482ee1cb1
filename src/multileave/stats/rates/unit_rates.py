"""UnitRates: the rows of a tally's units, from which `RateSums` follow.

Row x belongs to the unit in row x of the tally's `Units`, so ids are not kept twice. Impressions without a unit are
summed at once.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from multileave.outcome import Floats
from multileave.stats.parsing import written_tally
from multileave.stats.rates.sums import RateSums, columns_of, unit_row


class UnitRates:
    """The rows z of all units, float (U or fewer, 2R + 1), and the sums of impressions without a unit.

    singles: these sums; its `seen`, `pages` and `squares` are of all impressions.
    """

    def __init__(self, rankers: int) -> None:
        self.rows: Floats = np.zeros((0, 2 * rankers + 1))
        self.singles = RateSums(rankers)

    def add(self, alone: Floats, row: int | None, *, valued: bool = False) -> None:
        """Add an impression of the unit in a row, None for one without a unit; valued: as in `RateSums`."""
        self.singles.add_impression(alone)
        self.singles.valued |= valued
        if row is None:
            self.singles.add_units(unit_row(alone)[None])
        else:
            self._make(row + 1)
            self.rows[row] += unit_row(alone)

    def replace(
        self, before: "Floats | None", after: "Floats | None", row: int | None, *, valued: bool = False
    ) -> None:
        """Replace what an impression says, as after a late click; None if it says nothing."""
        self.singles.valued |= valued
        for alone, times in ((before, -1), (after, 1)):
            if alone is None:
                continue
            self.singles.add_impression(alone, times)
            if row is None:
                self.singles.add_units(unit_row(alone)[None], times)
            else:
                self._make(row + 1)
                self.rows[row] += times * unit_row(alone)

    def merge(self, other: "UnitRates", rows: Any) -> None:
        """Add another's; rows: int, where each unit of the other is here."""
        self.singles.merge(other.singles)
        if len(other.rows):
            places = np.asarray(rows)[: len(other.rows)]
            self._make(int(places.max(initial=-1)) + 1)
            self.rows[places] += other.rows[: len(places)]

    def reordered(self, order: Any) -> "UnitRates":
        """Return the same with the rankers in another order."""
        other = UnitRates(len(order))
        other.rows, other.singles = self.rows[:, columns_of(order)], self.singles.reordered(order)
        return other

    def sums(self, weighted: "Callable[[Floats], Floats] | None" = None) -> RateSums:
        """Return the sums over all units; weighted: how much their rows count, all equally by default."""
        sums = RateSums(self.singles.rankers)
        sums.merge(self.singles)
        sums.add_units(self.rows if weighted is None else weighted(self.rows))
        return sums

    def to_dict(self, units: int) -> dict[str, Any]:
        """Return a row for each unit and the sums as plain values that JSON can hold; empty if there are none."""
        if not self.singles.seen:
            return {}
        self._make(units)
        return {**self.singles.to_dict(), "rows": self.rows[:units].tolist()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], rankers: int, units: int) -> "UnitRates":
        """Return what `to_dict` wrote, checked; earlier versions wrote nothing."""
        rates = cls(rankers)
        if data:
            rates.singles = RateSums.from_dict(data, rankers)
            rates.rows = written_tally(data).floats("rows", (units, 2 * rankers + 1))
        return rates

    def _make(self, size: int) -> None:
        held = len(self.rows)
        if size > held:
            more = max(size, held + held // 2, 16) - held
            self.rows = np.concatenate([self.rows, np.zeros((more, self.rows.shape[1]))])
