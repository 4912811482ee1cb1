"""GroupedSums: sums over units, grouped by their number of impressions, so that no unit needs a row of its own.

The variance of a mean preference needs the residuals of all units (see `intervals.moments`). Units with the same number
of impressions can be added up first:

    sum_u (S_u - mu n_u)^2 / (1 - n_u / N)^2 = sum_n (Q_n - 2 mu n S_n + mu^2 n^2 U_n) / (1 - n / N)^2

with U_n the number of units with n impressions, and S_n and Q_n the sums of their sums and of their squared sums.
"""

from dataclasses import dataclass

import numpy as np

from multileave.outcome import Floats
from multileave.stats.intervals.moments import Ints


@dataclass(eq=False)
class Group:
    """The units with the same number of impressions: how many, and their sums and squared sums by pair (P,)."""

    units: int
    sums: Floats
    squares: Floats


class GroupedSums:
    """Groups of units by number of impressions, and how many units prefer either ranker of each of P pairs.

    zero: a unit whose sum is at most this far from zero prefers neither.
    """

    def __init__(self, pairs: int, *, zero: float = 0.0) -> None:
        self.pairs, self.zero = pairs, zero
        self.groups: dict[int, Group] = {}
        self.wins: Ints = np.zeros(pairs, dtype=np.int64)
        self.losses: Ints = np.zeros(pairs, dtype=np.int64)

    @property
    def units(self) -> int:
        """The number of units."""
        return sum(group.units for group in self.groups.values())

    @property
    def impressions(self) -> int:
        """The number of their impressions."""
        return sum(n * group.units for n, group in self.groups.items())

    def group(self, impressions: int) -> Group:
        """Return the group of units with that many impressions, empty if there are none."""
        return self.groups.get(impressions) or Group(0, np.zeros(self.pairs), np.zeros(self.pairs))

    def add(self, impressions: int, sums: Floats, times: int = 1) -> None:
        """Add a unit by its sum of preferences for each pair; with times = -1, remove it."""
        sums = np.where(np.abs(sums) <= self.zero, 0.0, sums)
        group = self.groups[impressions] = self.group(impressions)
        group.units += times
        group.sums += times * sums
        group.squares += times * (sums * sums)
        if times < 0:
            np.maximum(group.squares, 0.0, out=group.squares)
        if not group.units:  # so that no rounding error stays behind
            del self.groups[impressions]
        self.wins += times * (sums > 0.0)
        self.losses += times * (sums < 0.0)

    def merge(self, other: "GroupedSums") -> None:
        """Add all units of another."""
        for n, added in other.groups.items():
            group = self.groups[n] = self.group(n)
            group.units += added.units
            group.sums += added.sums
            group.squares += added.squares
        self.wins += other.wins
        self.losses += other.losses

    def reordered(self, columns: Ints, signs: Floats) -> "GroupedSums":
        """Return the same units with the pairs in another order, some of them reversed."""
        other = GroupedSums(self.pairs, zero=self.zero)
        for n, group in self.groups.items():
            other.groups[n] = Group(group.units, group.sums[columns] * signs, group.squares[columns])
        other.wins = np.where(signs > 0.0, self.wins[columns], self.losses[columns])
        other.losses = np.where(signs > 0.0, self.losses[columns], self.wins[columns])
        return other

    def totals(self) -> Floats:
        """Return the sum of all units' sums, (P,)."""
        totals = np.zeros(self.pairs)
        for group in self.groups.values():
            totals += group.sums
        return totals

    def residuals(self, means: Floats, impressions: int) -> Floats:
        """Return the sum of squared residuals, (P,), as in the formula above; impressions: N, of all units."""
        residuals = np.zeros(self.pairs)
        for n, group in self.groups.items():
            left = group.squares - means * n * (2.0 * group.sums - means * n * group.units)
            left[left <= 1e-10 * group.squares] = 0.0  # a rounding error, as all sums are equal
            residuals += left / (1.0 - n / impressions) ** 2
        return residuals

    def squared_impressions(self) -> float:
        """Return the sum over units of their squared number of impressions."""
        return sum(float(n) ** 2 * group.units for n, group in self.groups.items())
