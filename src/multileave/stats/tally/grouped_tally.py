"""GroupedTally: a tally that does not hold its units, for stores that keep each unit's sums in a row of their own.

A unit's row changes when it has a new impression or a late click; the ledger takes the old row out and
puts the new one in. What intervals need of the units is kept for all units of as many impressions
together, so a verdict costs the same however many units there are:

    sum_u (S_u - mu n_u)^2 / (1 - n_u / N)^2 = sum_n (Q_n - 2 mu n S_n + mu^2 n^2 U_n) / (1 - n / N)^2

with U_n the number of units of n impressions, and S_n and Q_n the sums of their sums and squared sums.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from multileave.errors import TallyError
from multileave.outcome import Floats
from multileave.stats.intervals.moments import Moments, pair_positions
from multileave.stats.parsing import checked_rankers
from multileave.stats.tally.health_counts import HealthCounts
from multileave.stats.verdict.rules import Rules
from multileave.stats.verdict.verdict import Verdict

if TYPE_CHECKING:
    from multileave.stats.health import Health

__all__ = ["GroupedTally", "UnitRow", "pairs_of"]

# Preferences are rounded to multiples of this, so that sums of them are exact: what is added and taken
# out again leaves nothing behind. A sum this far from zero is zero, as thirds do not add up on a grid.
GRID = 2.0**-38
ZERO = 2.0**-30


def pairs_of(preferences: Floats) -> Floats:
    """Return an (R, R) matrix of preferences by pair, (P,), rounded so that sums can be undone exactly."""
    found: Floats = np.round(preferences[pair_positions(len(preferences))] / GRID) * GRID
    return found


class UnitRow(NamedTuple):
    """A unit: its impressions, its clicks, and the sum of its preferences by pair, (P,), each on the grid."""

    impressions: int
    clicks: int
    sums: Floats


class _Group:
    """Units of the same number of impressions."""

    def __init__(self, units: int, sums: Floats, squares: Floats) -> None:
        self.units, self.sums, self.squares = units, sums, squares


class GroupedTally:
    """What the verdict on one action needs of all units.

    squares: float (P,), the sum of squared preferences of single impressions; the caller adds to it.
    evidence: what the health of the data is read from; the caller adds to it.
    """

    def __init__(self, rankers: Sequence[str]) -> None:
        self.rankers = checked_rankers(rankers)
        self.pairs = len(self.rankers) * (len(self.rankers) - 1) // 2
        self.squares = np.zeros(self.pairs)
        self.evidence = HealthCounts(len(self.rankers))
        self._wins = np.zeros(self.pairs, dtype=np.int64)
        self._losses = np.zeros(self.pairs, dtype=np.int64)
        self._groups: dict[int, _Group] = {}
        self._clicks: dict[int, int] = {}  # units by number of clicks

    @property
    def units(self) -> int:
        """How many units there are."""
        return sum(group.units for group in self._groups.values())

    @property
    def impressions(self) -> int:
        """How many impressions they had."""
        return sum(n * group.units for n, group in self._groups.items())

    @property
    def clicks(self) -> int:
        """How many documents they clicked."""
        return sum(clicks * units for clicks, units in self._clicks.items())

    def change(self, before: UnitRow | None, after: UnitRow | None) -> None:
        """Take a unit's old row out, unless it is new, and put its new one in, unless it is gone."""
        if before is not None:
            self._put(before, -1)
        if after is not None:
            self._put(after, 1)

    def _put(self, row: UnitRow, times: int) -> None:
        if row.impressions < 1:
            return
        group = self._groups.get(row.impressions)
        if group is None:
            group = self._groups[row.impressions] = _Group(0, np.zeros(self.pairs), np.zeros(self.pairs))
        group.units += times
        if group.units:
            group.sums += times * row.sums
            group.squares += times * row.sums**2
        else:  # and nothing of rounding stays
            del self._groups[row.impressions]
        self._wins += times * (row.sums > ZERO)
        self._losses += times * (row.sums < -ZERO)
        clicks = self._clicks.get(row.clicks, 0) + times
        if clicks:
            self._clicks[row.clicks] = clicks
        else:
            del self._clicks[row.clicks]

    def check_units(self, what: str) -> None:
        """Raise an error if there are too few units to say anything."""
        if self.units < 2:
            raise TallyError(f"there are impressions of {self.units} units; {what} needs those of at least two.")

    def moments(self) -> Moments:
        """Return what intervals are made of; there must be two units."""
        impressions, units = self.impressions, self.units
        totals = np.zeros(self.pairs)
        for group in self._groups.values():
            totals += group.sums
        means = totals / impressions
        residuals, visits = np.zeros(self.pairs), 0.0
        for n, group in self._groups.items():
            left = group.squares - means * n * (2.0 * group.sums - means * n * group.units)
            # What rounding leaves of equal sums is no variance.
            left[left <= 1e-10 * group.squares] = 0.0
            residuals += left / (1.0 - n / impressions) ** 2
            visits += float(n) ** 2 * group.units
        return Moments(
            impressions=impressions,
            units=units,
            effective=impressions**2 / visits,
            totals=totals,
            variances=(units - 1) / units * residuals,
            squares=self.squares,
            wins=self._wins.copy(),
            losses=self._losses.copy(),
        )

    def top_share(self) -> float:
        """Return the share of the clicks that the most active 1 % of units made; of impressions without any."""
        by_activity = self._clicks
        if set(by_activity) <= {0}:
            by_activity = {n: group.units for n, group in self._groups.items()}
        total = sum(activity * units for activity, units in by_activity.items())
        wanted, found = -(-self.units // 100), 0
        for activity in sorted(by_activity, reverse=True):
            taken = min(by_activity[activity], wanted)
            found += taken * activity
            wanted -= taken
        return found / total if total else 0.0

    def verdict(self, rules: Rules) -> Verdict:
        """Return the verdict; there must be two units. A bootstrap needs the units themselves, and is refused."""
        from multileave.stats.verdict.judging import judge

        return judge(self, rules)

    def unit_blocks(self) -> Any:
        """Refuse: the units are not here."""
        raise TallyError("a bootstrap draws units anew, and a ledger does not hold them. Use another interval.")

    def health(self) -> "Health":
        """Return how healthy the data are."""
        from multileave.stats.health import examine

        self.check_units("a look at the health of its data")
        return examine(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the ledger as plain values that JSON can hold."""
        return {
            "rankers": list(self.rankers),
            "squares": self.squares.tolist(),
            "wins": self._wins.tolist(),
            "losses": self._losses.tolist(),
            "groups": [[n, g.units, g.sums.tolist(), g.squares.tolist()] for n, g in sorted(self._groups.items())],
            "clicks": [[clicks, units] for clicks, units in sorted(self._clicks.items())],
            "evidence": self.evidence.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "GroupedTally":
        """Return the ledger that `to_dict` wrote."""
        ledger = cls(data["rankers"])
        ledger.squares = np.array(data["squares"], dtype=np.float64)
        ledger._wins = np.array(data["wins"], dtype=np.int64)
        ledger._losses = np.array(data["losses"], dtype=np.int64)
        ledger._groups = {
            n: _Group(units, np.array(sums), np.array(squares)) for n, units, sums, squares in data["groups"]
        }
        ledger._clicks = dict(data["clicks"])
        ledger.evidence = HealthCounts.from_dict(data["evidence"], len(ledger.rankers))
        return ledger
