"""GroupedTally: a tally that does not hold its units, for stores that keep each unit's sums in a row of their own.

When a unit has a new impression or a late click, its old row is removed and its new one added. All that a verdict needs
of the units is kept in `GroupedSums`, so a verdict costs the same however many units there are.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from multileave.outcome import Floats
from multileave.stats.intervals.moments import Ints, pair_positions
from multileave.stats.rates.sums import RateSums
from multileave.stats.tally.base import BaseTally
from multileave.stats.tally.few_sums import FewSums
from multileave.stats.tally.grouped_sums import SUMS, Group
from multileave.stats.tally.health_counts import HealthCounts
from multileave.stats.tally.units import IMPLAUSIBLE
from multileave.stats.verdict.rules import Rules
from multileave.stats.verdict.verdict import Verdict

if TYPE_CHECKING:
    from multileave.stats.tally.weighting import Weighting

# Preferences are rounded to multiples of GRID so that their sums are exact, and removing what was added leaves nothing
# behind. A sum within ZERO of zero is zero: thirds do not add up on a grid.
GRID = 2.0**-38
ZERO = 2.0**-30
VALUE_GRID = 2.0**-20  # of values such as revenue, which add up to more
STATE_VERSION = 3


def pairs_of(preferences: Floats) -> Floats:
    """Return an (R, R) matrix of preferences by pair, (P,), rounded so that sums can be undone exactly."""
    return on_grid(preferences[pair_positions(len(preferences))])


def on_grid(values: Floats, grid: float = GRID) -> Floats:
    """Return values rounded to multiples of the grid, so that sums can be undone exactly."""
    found: Floats = np.round(values / grid) * grid
    return found


class UnitRow(NamedTuple):
    """A unit: its impressions, its clicks, and the sum of its preferences by pair, (P,), as `pairs_of` rounds them."""

    impressions: int
    clicks: int
    sums: Floats


class GroupedTally(BaseTally):
    """What the verdict on one action needs of all units.

    squares: float (P,), the sum over impressions of the squared preference; the caller adds to it.
    evidence: counts from which the health of the data is read; the caller adds to them.
    rates: what each ranker earned alone, None if that is not known; the caller adds what is not by unit. valued: in
        values, not clicks.
    """

    def __init__(self, rankers: Sequence[str], *, rated: bool = True, valued: bool = False) -> None:
        super().__init__(rankers, zero=ZERO)
        self.squares = np.zeros(self.pairs)
        self.rates = RateSums(len(self.rankers)) if rated else None
        if self.rates is not None:
            self.rates.valued = valued
        self._clicks: dict[int, int] = {}  # how many units have that many clicks
        self._heavy: dict[str, tuple[int, int]] = {}  # impressions and clicks of units that have implausibly many

    @property
    def clicks(self) -> int:
        """The number of clicks."""
        return sum(clicks * units for clicks, units in self._clicks.items())

    def change(self, before: UnitRow | None, after: UnitRow | None, unit: str = "") -> None:
        """Replace a unit's old row, None if it is new, by its new one, None if it is gone; unit: as it is stored."""
        self._heavy.pop(unit, None)
        if unit and after is not None and max(after.impressions, after.clicks) > IMPLAUSIBLE:
            self._heavy[unit] = after.impressions, after.clicks
        for row, times in ((before, -1), (after, 1)):
            if row is None or row.impressions < 1:
                continue
            self._grouped.add(row.impressions, row.sums, times)
            self._clicks[row.clicks] = self._clicks.get(row.clicks, 0) + times
            if not self._clicks[row.clicks]:
                del self._clicks[row.clicks]

    def change_rates(self, before: "Floats | None", after: "Floats | None") -> None:
        """Replace a unit's old row of `RateSums`, None if it is new, by its new one, None if it is gone.

        The caller weights rows (`weighted_rates`), in the way that is then asked of `rate_sums`.
        """
        for row, times in ((before, -1), (after, 1)):
            if self.rates is not None and row is not None:
                self.rates.add_units(row[None], times)

    def squared_preferences(self) -> Floats:
        """Return `squares`."""
        return self.squares

    def rate_sums(self, weighting: "Weighting | None" = None) -> RateSums:
        """Return `rates`, empty if they are not known; their units are already weighted."""
        if self.rates is None:
            return RateSums(len(self.rankers))
        return self.rates.by_unit() if weighting is not None and weighting.estimand == "users" else self.rates

    def activity(self) -> "tuple[np.ndarray[Any, Any], Ints]":
        """Return levels of activity (clicks, or impressions if nobody clicked), and how many units have each."""
        found = self._clicks if self.clicks else {n: group.units for n, group in self._grouped.groups.items()}
        return np.array(list(found), dtype=np.int64), np.array(list(found.values()), dtype=np.int64)

    def heavy_units(self) -> list[tuple[Hashable, int, int]]:
        """Return the units with implausibly many impressions or clicks, and how many they have."""
        return [(unit, *both) for unit, both in self._heavy.items()]

    def verdict(self, rules: Rules) -> Verdict:
        """Return the verdict; there must be two units, and the bootstrap is not available."""
        from multileave.stats.verdict.judging import judge

        return judge(self, rules)

    def to_dict(self) -> dict[str, Any]:
        """Return the tally as plain values that JSON can hold."""
        return {
            "version": STATE_VERSION,
            "rankers": list(self.rankers),
            "squares": self.squares.tolist(),
            "groups": [
                [n, group.units, *(getattr(group, name).tolist() for name in SUMS)]
                for n, group in sorted(self._grouped.groups.items())
            ],
            "few": self._grouped.few.to_list(),
            "clicks": [[clicks, units] for clicks, units in sorted(self._clicks.items())],
            "heavy": [[unit, *both] for unit, both in sorted(self._heavy.items())],
            "evidence": self.evidence.to_dict(),
            **({} if self.rates is None else {"rates": self.rates.to_dict()}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "GroupedTally":
        """Return the tally that `to_dict` wrote.

        If it has no rates, earlier versions wrote it, and it stays so. If it is `outdated`, it has no units, which must
        be added again.
        """
        tally = cls(data["rankers"], rated="rates" in data)
        if tally.rates is not None:
            tally.rates = RateSums.from_dict(data["rates"], len(tally.rankers))
        tally.squares = np.array(data["squares"], dtype=np.float64)
        tally.evidence = HealthCounts.from_dict(data["evidence"], len(tally.rankers))
        if outdated(data):
            return tally
        for n, units, *sums in data["groups"]:
            tally._grouped.groups[n] = Group(units, *(np.array(one) for one in sums))
        tally._grouped.few = FewSums.from_list(data["few"])
        tally._clicks = dict(data["clicks"])
        tally._heavy = {unit: (n, clicks) for unit, n, clicks in data["heavy"]}
        return tally


def outdated(data: Mapping[str, Any]) -> bool:
    """Return whether a tally was written by an earlier version, which kept less of every group of units."""
    return data.get("version") != STATE_VERSION
