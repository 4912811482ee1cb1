"""Weighting: how much each unit counts: all its impressions, no more than a cap, or as much as any other unit.

All of it depends on a unit's number of impressions n_u alone, so grouped sums can be weighted like rows:

    estimand "impressions"   the mean preference per impression: S_u and n_u as they are
    estimand "users"         the mean over units of a unit's mean preference: S_u / n_u, and 1
    cap                      units with more impressions than this are left out
    winsorise                units with more impressions than this count as if they had so many: S_u cap / n_u, and cap

Rates are weighted in the same way, row by row (`weighted_rates`).
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from multileave.errors import TallyError, nearest
from multileave.outcome import Floats
from multileave.stats.intervals.moments import Ints
from multileave.stats.rates.sums import RateSums
from multileave.stats.tally.base import BaseTally
from multileave.stats.tally.grouped_sums import GroupedSums
from multileave.stats.tally.units import PackedIds, Units

Estimand = Literal["impressions", "users"]
ESTIMANDS: tuple[Estimand, ...] = get_args(Estimand)


@dataclass(frozen=True)
class Weighting:
    """How much each unit counts.

    >>> Weighting(winsorise=10).of(np.array([4, 20]))
    (array([ True,  True]), array([ 4, 10]), array([1. , 0.5]))
    """

    estimand: str = "impressions"
    cap: int | None = None
    winsorise: int | None = None

    def __post_init__(self) -> None:
        if self.estimand not in ESTIMANDS:
            raise TallyError(
                f"The estimand is {self.estimand!r}; expected one of {', '.join(ESTIMANDS)}."
                f"{nearest(self.estimand, ESTIMANDS)}"
            )
        for name in ("cap", "winsorise"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise TallyError(f"{name} is {value!r}; expected the maximum impressions of a unit, from 1, or None.")

    @property
    def limit(self) -> int | None:
        """The number of impressions above which units are left out or count less."""
        limits = [limit for limit in (self.cap, self.winsorise) if limit is not None]
        return min(limits, default=None)

    def of(self, impressions: Ints) -> "tuple[np.ndarray[Any, np.dtype[np.bool_]], Ints, Floats]":
        """Return which units count, as how many impressions each, and the factor of its sums."""
        kept = np.ones(len(impressions), dtype=bool) if self.cap is None else impressions <= self.cap
        counted = impressions if self.winsorise is None else np.minimum(impressions, self.winsorise)
        if self.estimand == "users":
            counted = np.ones_like(impressions)
        return kept, counted, counted / impressions


def weighted_rates(rows: Floats, impressions: Ints, weighting: Weighting) -> Floats:
    """Return units' rows of `RateSums`, (U, 2R + 1), as the weighting counts them; what is left out is zero.

    impressions: of each unit. A row may be of fewer, as its last number says: those whose propensities are known.
    """
    if weighting == Weighting():
        return rows
    factors, known = np.zeros(len(rows)), rows[:, -1] > 0.0
    factors[known] = weighting.of(rows[known, -1].round().astype(np.int64))[2]
    factors[~weighting.of(np.maximum(impressions, 1))[0]] = 0.0
    return rows * factors[:, None]


class WeightedTally(BaseTally):
    """A tally whose units are weighted; impressions are those that count, as they count.

    The squared preferences of single impressions are known only in total: they are taken in proportion to impressions,
    or for the mean over units as those of the units' means.
    """

    def __init__(self, tally: BaseTally, weighting: Weighting) -> None:
        super().__init__(tally.rankers, zero=tally._grouped.zero)
        self.evidence, self._activity, self._rate_sums = tally.evidence, tally.activity, tally.rate_sums
        self._weighting = weighting
        self._grouped = _weighted_groups(tally._grouped, weighting)
        units, used = tally._units, len(tally._units)
        kept, counted, factors = weighting.of(units.counts[:used])
        ids = PackedIds(np.zeros(int(kept.sum()) + 1, dtype=np.int64), np.zeros(0, dtype=np.uint8))
        self._units = Units.packed(
            len(tally.rankers), ids, counted[kept], units.clicks[:used][kept],
            units.sums[:used][kept] * factors[kept, None], by_pair=units.by_pair,
        )  # fmt: skip
        self._squares = tally.squared_preferences() * (self.impressions / max(tally.impressions, 1))
        if weighting.estimand == "users":
            self._squares = self._grouped.total().squares
            for sums, _ in self._units.blocks():
                self._squares = self._squares + (sums * sums).sum(axis=0)

    def squared_preferences(self) -> Floats:
        """Return the sum over impressions of the squared preference, (P,)."""
        return self._squares

    def rate_sums(self, weighting: Weighting | None = None) -> RateSums:
        """Return the sums of the tally that is weighted, in its own way."""
        return self._rate_sums(weighting or self._weighting)

    def activity(self) -> "tuple[np.ndarray[Any, Any], Ints]":
        """Return the levels of activity of the tally that is weighted."""
        return self._activity()


def _weighted_groups(grouped: GroupedSums, weighting: Weighting) -> GroupedSums:
    found = GroupedSums(grouped.pairs, zero=grouped.zero)
    sizes = np.array(list(grouped.groups), dtype=np.int64)
    for n, kept, counted, factor in zip(grouped.groups, *(part.tolist() for part in weighting.of(sizes)), strict=True):
        if kept:
            group = found.groups[counted] = found.group(counted)
            group.merge(grouped.groups[n].scaled(factor))
    found.few = grouped.few.weighted(weighting.of)
    return found
