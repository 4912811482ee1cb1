"""GroupedSums: sums over units, grouped by their number of impressions, so that no unit needs its own row.

The variance of a mean preference needs the residuals of all units (see `intervals.moments`). Units with the same number
of impressions can be added up first:

    sum_u (S_u - mu n_u)^2 / (1 - n_u / N)^2 = sum_n (Q_n - 2 mu n S_n + mu^2 n^2 U_n) / (1 - n / N)^2

with U_n the number of units with n impressions, and S_n and Q_n the sums of their sums and of their squared sums.
"""

from dataclasses import dataclass, field

import numpy as np

from multileave.outcome import Floats
from multileave.stats.intervals.moments import Ints
from multileave.stats.tally.few_sums import FewSums

SUMS = ("sums", "squares", "absolute", "wins", "losses")


@dataclass(eq=False)
class Group:
    """The units with the same number of impressions: how many, and by pair (P,) what they add up to.

    sums, squares, absolute: their sums, squared sums and absolute sums. Tallies of earlier versions did not keep the
    absolute ones, which are then NaN. wins, losses: how many units prefer either ranker.
    """

    units: int
    sums: Floats
    squares: Floats
    absolute: Floats
    wins: Ints
    losses: Ints

    @classmethod
    def empty(cls, pairs: int) -> "Group":
        """Return a group without units."""
        sums, squares, absolute = np.zeros((3, pairs))
        wins, losses = np.zeros((2, pairs), dtype=np.int64)
        return cls(0, sums, squares, absolute, wins, losses)

    def merge(self, other: "Group", times: int = 1) -> None:
        """Add another's units; with times = -1, remove them."""
        self.units += times * other.units
        for name in SUMS:
            setattr(self, name, getattr(self, name) + times * getattr(other, name))

    def scaled(self, factor: float) -> "Group":
        """Return the same units with all their sums multiplied by a factor above zero."""
        sums = self.sums * factor, self.squares * factor**2, self.absolute * factor
        return Group(self.units, *sums, self.wins, self.losses)

    def reordered(self, columns: Ints, signs: Floats) -> "Group":
        """Return the same units with the pairs in another order, some of them reversed."""
        wins, losses = self.wins[columns], self.losses[columns]
        forward = signs > 0.0
        return Group(
            self.units, self.sums[columns] * signs, self.squares[columns], self.absolute[columns],
            np.where(forward, wins, losses), np.where(forward, losses, wins),
        )  # fmt: skip


@dataclass(eq=False)
class GroupedSums:
    """Groups of units by number of impressions, for P pairs; few: the units of pairs with little evidence.

    zero: a unit whose sum is at most this far from zero prefers neither.
    """

    pairs: int
    zero: float = field(default=0.0, kw_only=True)
    groups: dict[int, Group] = field(init=False, default_factory=dict)
    few: FewSums = field(init=False)

    def __post_init__(self) -> None:
        self.few = FewSums(self.pairs)

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
        return self.groups.get(impressions) or Group.empty(self.pairs)

    def add(self, impressions: int, sums: Floats, times: int = 1) -> None:
        """Add a unit by its sum of preferences for each pair; with times = -1, remove it."""
        sums = np.where(np.abs(sums) <= self.zero, 0.0, sums)
        group = self.groups[impressions] = self.group(impressions)
        sizes = np.abs(sums)
        group.units += times
        group.sums += times * sums
        group.squares += times * (sums * sums)
        group.absolute += times * sizes
        if times < 0:
            np.maximum(group.squares, 0.0, out=group.squares)
            np.maximum(group.absolute, 0.0, out=group.absolute)
        group.wins += times * (sums > 0.0)
        group.losses += times * (sums < 0.0)
        if not group.units:  # so that no rounding error stays behind
            del self.groups[impressions]
        self.few.add(impressions, sums, times)

    def merge(self, other: "GroupedSums") -> None:
        """Add all units of another."""
        for n, added in other.groups.items():
            group = self.groups[n] = self.group(n)
            group.merge(added)
        self.few.merge(other.few)

    def reordered(self, columns: Ints, signs: Floats) -> "GroupedSums":
        """Return the same units with the pairs in another order, some of them reversed."""
        other = GroupedSums(self.pairs, zero=self.zero)
        other.groups = {n: group.reordered(columns, signs) for n, group in self.groups.items()}
        other.few = self.few.reordered(columns, signs)
        return other

    def total(self) -> Group:
        """Return all units as one group."""
        total = Group.empty(self.pairs)
        for group in self.groups.values():
            total.merge(group)
        return total

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
