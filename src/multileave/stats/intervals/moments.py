"""Moments: the few sums over units from which intervals are computed."""

from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from multileave.outcome import Floats

Ints: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


class Moments(NamedTuple):
    """What intervals need to know of a tally, for P pairs of rankers.

    With S_u a unit's sum of preferences for a pair, n_u its impressions, N all impressions, U the number
    of units and mu the mean per impression:

    totals: float (P,), the sum of S_u over units.
    variances: float (P,), the estimated variance of that sum about mu N, by the jackknife,

        V = (U - 1) / U * sum_u (S_u - mu n_u)^2 / (1 - n_u / N)^2,

        and if all S_u are zero, so that units say nothing of their variance, that of as many single impressions.
    effective: the effective sample size, (sum n_u)^2 / sum n_u^2.
    squares: float (P,), the sum of squared preferences of single impressions.
    wins, losses: int (P,), the units whose sum is above and below zero: those that carry evidence.
    evidence: float (P,), the effective number of units that carry evidence, (sum |S_u|)^2 / sum S_u^2; None if it is
        not known. Four units with equal sums among a thousand without are four, however many impressions there are.
    """

    impressions: Any  # int, or int (P,) if pairs took part in different impressions
    units: int
    effective: float
    totals: Floats
    variances: Floats
    squares: Floats
    wins: Ints
    losses: Ints
    evidence: "Floats | None" = None

    @property
    def means(self) -> Floats:
        """The mean preference per impression, (P,)."""
        means: Floats = self.totals / self.impressions
        return means

    @property
    def errors(self) -> Floats:
        """The standard error of each mean, (P,)."""
        errors: Floats = np.sqrt(self.variances) / self.impressions
        return errors

    @property
    def carriers(self) -> Ints:
        """The number of units that carry evidence, those whose sum is not zero, (P,)."""
        return self.wins + self.losses

    @property
    def freedom(self) -> Floats:
        """Degrees of freedom of Student's t, (P,): one less than the effective number of units, or of carriers."""
        known = np.full(len(self.totals), np.inf) if self.evidence is None else self.evidence
        return np.maximum(np.minimum(known, self.effective) - 1.0, 1.0)

    @property
    def alike(self) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """Where all units have the same preference other than zero, so that there is no variance to estimate."""
        found: np.ndarray[Any, np.dtype[np.bool_]] = (self.variances == 0.0) & (self.totals != 0.0)
        return found

    @property
    def clocks(self) -> Floats:
        """The variance in units of a single impression's: N if each is a unit, more if a unit's are correlated."""
        single = np.maximum(self.squares / self.impressions - self.means**2, 0.0)
        clocks: Floats = np.full_like(single, self.impressions)
        np.divide(self.variances, single, out=clocks, where=single > 0.0)
        return clocks


@cache
def pair_positions(size: int) -> tuple[Ints, Ints]:
    """Return the positions n and m of the rankers of each pair, n < m.

    >>> pair_positions(3)
    (array([0, 0, 1]), array([1, 2, 2]))
    """
    return np.triu_indices(size, 1)


def reordered_pairs(order: Ints) -> tuple[Ints, Floats]:
    """Return where each pair of rankers in a new order was in the old one, and -1 if it is reversed.

    >>> reordered_pairs(np.array([2, 0, 1]))
    (array([1, 2, 0]), array([-1., -1.,  1.]))
    """
    first, second = pair_positions(len(order))
    column = np.zeros((len(order), len(order)), dtype=np.int64)
    column[first, second] = column[second, first] = np.arange(len(first))
    return column[order[first], order[second]], np.where(order[first] < order[second], 1.0, -1.0)


def differences(credits: Floats, tolerance: float) -> Floats:
    """Return the preferences by pair for credits (..., R); credits that differ only by rounding have none."""
    first, second = pair_positions(credits.shape[-1])
    pairs: Floats = credits[..., first] - credits[..., second]
    pairs[np.abs(pairs) <= tolerance * np.abs(credits).max(axis=-1, keepdims=True)] = 0.0
    return pairs
