"""BaseTally: what a verdict needs of a tally, whether its units have rows of their own or only grouped sums."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from multileave.errors import TallyError
from multileave.outcome import TOLERANCE, Floats
from multileave.stats.intervals.max_t import unit_rows
from multileave.stats.intervals.moments import Ints, Moments, pair_positions
from multileave.stats.intervals.sign_flips import FEW, FEW_EQUAL
from multileave.stats.parsing import checked_rankers
from multileave.stats.rates.sums import RateSums
from multileave.stats.tally.grouped_sums import GroupedSums
from multileave.stats.tally.health_counts import HealthCounts
from multileave.stats.tally.units import Units

if TYPE_CHECKING:
    from multileave.stats.health import Health
    from multileave.stats.tally.weighting import Weighting

ROWS = 1 << 14  # units at a time


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
    def rate_sums(self, weighting: "Weighting | None" = None) -> RateSums:
        """Return the sums from which it follows what each ranker would earn alone, with units weighted."""

    @abstractmethod
    def activity(self) -> "tuple[np.ndarray[Any, Any], Ints]":
        """Return levels of activity (clicks, or impressions if no clicks are known), and how many units have each."""

    def totals(self) -> Floats:
        """Return the sum of preferences, (P,)."""
        totals = self._grouped.total().sums
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
        residuals, grouped = self._grouped.residuals(means, impressions), self._grouped.total()
        wins, losses, absolute, squared = grouped.wins, grouped.losses, grouped.absolute, grouped.squares
        visits = self._grouped.squared_impressions()
        for sums, counts in self._blocks():
            left = sums - means * counts[:, None]
            left[np.abs(left) <= TOLERANCE * np.abs(sums)] = 0.0
            left /= (1.0 - counts / impressions)[:, None]
            residuals += (left * left).sum(axis=0)
            wins += (sums > 0.0).sum(axis=0)
            losses += (sums < 0.0).sum(axis=0)
            absolute += np.abs(sums).sum(axis=0)
            squared += (sums * sums).sum(axis=0)
            visits += float((counts.astype(np.float64) ** 2).sum())
        # If every unit's own preferences cancel, units say nothing of their variance; single impressions do.
        cancel = (residuals == 0.0) & (totals == 0.0)
        # Tallies that did not keep absolute sums: there cannot be more evidence than units that carry some.
        evidence = np.where(wins + losses > 0, wins + losses, impressions**2 / visits)
        np.divide(absolute**2, squared, out=evidence, where=(squared > 0.0) & ~np.isnan(absolute))
        return Moments(
            impressions=impressions,
            units=units,
            effective=impressions**2 / visits,
            totals=totals,
            variances=np.where(cancel, squares, (units - 1) / units * residuals),
            squares=squares,
            wins=wins,
            losses=losses,
            evidence=evidence,
        )

    def few_sums(self, moments: Moments) -> dict[int, Floats]:
        """Return the sums of the units that carry evidence, for each pair to be tested exactly, by its position.

        These are pairs with few such units, or a few more of equal size, whose sums are then of size 1.
        """
        few = (moments.carriers > 0) & (moments.carriers <= FEW) & self._grouped.few.known
        pairs = np.flatnonzero(few)
        found = {pair: [self._grouped.few.of(pair)[1]] for pair in pairs.tolist()}
        for sums, _ in self._blocks() if len(pairs) else ():
            for pair in pairs.tolist():
                found[pair].append(sums[sums[:, pair] != 0.0, pair])
        few_sums = {pair: np.concatenate(parts) for pair, parts in found.items()}
        # The effective number is the number if sums are equal; tallies without absolute sums do not know it.
        if moments.evidence is None:
            return few_sums
        equal = (moments.carriers > FEW) & (moments.carriers <= FEW_EQUAL) & ~np.isnan(self._grouped.total().absolute)
        equal &= np.isclose(moments.carriers, moments.evidence, rtol=1e-9, atol=0.0)
        for pair in np.flatnonzero(equal).tolist():
            few_sums[pair] = np.repeat([1.0, -1.0], [moments.wins[pair], moments.losses[pair]])
        return few_sums

    def dependence(self) -> tuple[Floats, float] | None:
        """Return how pairs depend on each other, as `intervals.max_t` takes it; None if it is not known.

        It is known if all units have rows of credits: the pairs' covariances follow from the R x R covariance of
        units' residuals e_u. If few units carry it, it is uncertain, and the share R / nu of it is dropped, with nu
        their effective number, (sum_u |e_u|^2)^2 / sum_u |e_u|^4.
        """
        units, rankers, impressions = self._units, len(self.rankers), self.impressions
        if self._grouped.units or units.by_pair:
            return None
        used = len(units)
        means = units.sums[:used].sum(axis=0) / impressions
        covariance, total, squared = np.zeros((rankers, rankers)), 0.0, 0.0
        for start in range(0, used, ROWS):
            part = slice(start, min(start + ROWS, used))
            counts = units.counts[part, None]
            left = (units.sums[part] - means * counts) / (1.0 - counts / impressions)
            left -= left.mean(axis=1, keepdims=True)
            covariance += left.T @ left
            sizes = (left * left).sum(axis=1)
            total += float(sizes.sum())
            squared += float((sizes * sizes).sum())
        first, second = pair_positions(rankers)
        contrasts = np.zeros((self.pairs, rankers))
        contrasts[np.arange(self.pairs), first], contrasts[np.arange(self.pairs), second] = 1.0, -1.0
        return unit_rows(covariance, contrasts), min(rankers * squared / total**2, 1.0) if total else 1.0

    def over(self, limit: int | None) -> tuple[int, int]:
        """Return how many units have more impressions than a limit, and their impressions; without a limit, none."""
        if limit is None:
            return 0, 0
        counts = self._units.counts[self._units.counts > limit]
        groups = [(group.units, n * group.units) for n, group in self._grouped.groups.items() if n > limit]
        return len(counts) + sum(units for units, _ in groups), int(counts.sum()) + sum(shown for _, shown in groups)

    def heavy_units(self) -> list[tuple[Hashable, int, int]]:
        """Return the units with implausibly many impressions or clicks, and how many they have."""
        return self._units.heavy()

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
        """Whether every unit has its own row, so that units can be resampled."""
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
