"""BaseTally: what a verdict needs of a tally, whether its units have rows of their own or only grouped sums."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from multileave.errors import TallyError
from multileave.outcome import TOLERANCE, Floats
from multileave.stats.intervals.moments import Ints, Moments
from multileave.stats.parsing import checked_rankers
from multileave.stats.rates.sums import RateSums
from multileave.stats.tally.grouped_sums import GroupedSums
from multileave.stats.tally.health_counts import HealthCounts
from multileave.stats.tally.units import Units

if TYPE_CHECKING:
    from multileave.stats.health import Health


class BaseTally(ABC):
    """Sums of outcomes between the same rankers: some units by rows of their own, the others grouped.

    evidence: counts from which the health of the data is read.
    """

    def __init__(self, rankers: Sequence[str], *, zero: float = 0.0) -> None:
        self._rankers = checked_rankers(rankers)
        self.pairs = len(self._rankers) * (len(self._rankers) - 1) // 2
        self._grouped = GroupedSums(self.pairs, zero=zero)
        self._units = Units(len(self._rankers))
        self.evidence = HealthCounts(len(self._rankers))

    @property
    def rankers(self) -> tuple[str, ...]:
        """The names of the rankers."""
        return self._rankers

    @property
    def impressions(self) -> int:
        """The number of impressions, with or without clicks."""
        return self._grouped.impressions + int(self._units.counts.sum())

    @property
    def units(self) -> int:
        """The number of units; an impression without a unit is one of its own."""
        return self._grouped.units + len(self._units)

    @abstractmethod
    def squared_preferences(self) -> Floats:
        """Return the sum over impressions of the squared preference, (P,)."""

    @abstractmethod
    def rate_sums(self) -> RateSums:
        """Return the sums from which it follows what each ranker would earn alone."""

    @abstractmethod
    def activity(self) -> "tuple[np.ndarray[Any, Any], Ints]":
        """Return levels of activity (clicks, or impressions if no clicks are known), and how many units have each."""

    def totals(self) -> Floats:
        """Return the sum of preferences, (P,)."""
        totals = self._grouped.totals()
        for sums, _ in self._blocks():
            totals += sums.sum(axis=0)
        return totals

    def _blocks(self) -> Iterator[tuple[Floats, Ints]]:
        """Yield blocks of units; a unit whose preferences cancel, but for rounding, has a sum of zero."""
        nothing = 10.0 * TOLERANCE * np.sqrt(self.squared_preferences())
        for sums, counts in self._units.blocks():
            yield np.where(np.abs(sums) <= nothing, 0.0, sums), counts

    def moments(self) -> Moments:
        """Return what intervals are computed from; there must be two units."""
        impressions, units, totals = self.impressions, self.units, self.totals()
        squares, means = self.squared_preferences(), totals / impressions
        residuals = self._grouped.residuals(means, impressions)
        wins, losses = self._grouped.wins.copy(), self._grouped.losses.copy()
        visits = self._grouped.squared_impressions()
        for sums, counts in self._blocks():
            left = sums - means * counts[:, None]
            left[np.abs(left) <= TOLERANCE * np.abs(sums)] = 0.0
            left /= (1.0 - counts / impressions)[:, None]
            residuals += (left * left).sum(axis=0)
            wins += (sums > 0.0).sum(axis=0)
            losses += (sums < 0.0).sum(axis=0)
            visits += float((counts.astype(np.float64) ** 2).sum())
        # If every unit's own preferences cancel, units say nothing of their variance; single impressions do.
        cancel = (residuals == 0.0) & (totals == 0.0)
        return Moments(
            impressions=impressions,
            units=units,
            effective=impressions**2 / visits,
            totals=totals,
            variances=np.where(cancel, squares, (units - 1) / units * residuals),
            squares=squares,
            wins=wins,
            losses=losses,
        )

    def top_share(self) -> float:
        """Return the share of clicks (of impressions, if no clicks are known) of the most active 1 % of units."""
        levels, units = self.activity()
        total = float((levels * units).sum())
        order = np.argsort(-levels)
        before = np.cumsum(units[order]) - units[order]
        taken = np.clip(-(-self.units // 100) - before, 0, units[order])
        return float((taken * levels[order]).sum()) / total if total else 0.0

    @property
    def each_has_a_row(self) -> bool:
        """Whether every unit has a row of its own, so that units can be resampled."""
        return not self._grouped.units

    def unit_blocks(self) -> Iterator[tuple[Floats, Ints]]:
        """Yield the units' sums by pair (b, P) and their impressions (b,), a block of units at a time."""
        if not self.each_has_a_row:
            raise TallyError(
                f"The bootstrap resamples units, but {self._grouped.units:,} units of this tally are only known as "
                "sums. Pass unit=... when adding impressions (an impression's own id will do), or choose another "
                "interval."
            )
        return self._blocks()

    def health(self) -> "Health":
        """Return how healthy the data are; `verdict().health` is the same."""
        from multileave.stats.health import examine

        self.check_units("a health check")
        return examine(self)

    def check_units(self, what: str) -> None:
        """Raise an error if there are fewer than two units."""
        if self.units < 2:
            found = "impressions of only one unit" if self.units else "no impressions"
            raise TallyError(
                f"The tally holds {found}; {what} needs impressions of at least two units. Add outcomes of more users "
                "(unit=...), including those without clicks."
            )
