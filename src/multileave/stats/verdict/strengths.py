"""Strengths: rankers on one scale, by the Bradley-Terry model [bradley1952].

A unit that prefers n to m is a win of n over m, one that prefers neither half a win for each. The probability that a
unit prefers n is modelled as e^s_n / (e^s_n + e^s_m), with strengths s that sum to zero.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from multileave.errors import MissingExtra, TallyError
from multileave.outcome import Floats
from multileave.stats.intervals.moments import pair_positions
from multileave.stats.records import Record

if TYPE_CHECKING:
    from multileave.stats.tally.tally import Tally

# Regularisation: just enough that a ranker which nobody ever prefers has a finite strength.
_ALPHA = 1e-6


class Strength(Record):
    """A ranker's strength with its confidence interval, None if units cannot be resampled."""

    ranker: str
    strength: float
    low: float | None
    high: float | None


class Strengths(Record):
    """The strengths of all rankers, best first."""

    confidence: float
    units: int
    rankers: tuple[Strength, ...]

    def __str__(self) -> str:
        width = max(len(one.ranker) for one in self.rankers)
        lines = [f"Bradley-Terry strength, {100 * self.confidence:g} % CI, {self.units:,} units"]
        for one in self.rankers:
            known = "" if one.low is None or one.high is None else f"  ({one.low:+.3f} to {one.high:+.3f})"
            lines.append(f"{one.ranker.ljust(width)}  {one.strength:+.3f}{known}")
        return "\n".join(lines)


def bradley_terry(tally: "Tally", confidence: float, *, replicates: int, seed: int) -> Strengths:
    """Return strengths with percentile intervals of a bootstrap of units, each drawn a Poisson(1) number of times.

    Impressions without a unit cannot be resampled; if there are any, there are no intervals.
    """
    if isinstance(replicates, bool) or not isinstance(replicates, int) or replicates < 20:
        raise TallyError(f"The number of replicates is {replicates!r}; expected an integer of at least 20.")
    moments = tally.moments()
    if not (moments.wins + moments.losses).any():
        raise TallyError(
            "No unit prefers any ranker, so there are no strengths: there are no clicks, or none favours a ranker. "
            "Check how clicks are logged."
        )
    size = len(tally.rankers)
    ties = moments.units - moments.wins - moments.losses
    centre = _fit(size, moments.wins + 0.5 * ties, moments.losses + 0.5 * ties)
    lows: Sequence[float | None] = [None] * size
    highs: Sequence[float | None] = [None] * size
    if tally.each_has_a_row:
        rng = np.random.default_rng(seed)
        won, lost = np.zeros((2, replicates, len(moments.wins)))
        drawn = np.zeros(replicates)
        for sums, _ in tally.unit_blocks():
            weights = rng.poisson(1.0, (replicates, len(sums))).astype(np.float32)
            won += weights @ (sums > 0.0).astype(np.float32)
            lost += weights @ (sums < 0.0).astype(np.float32)
            drawn += weights.sum(axis=1)
        half = 0.5 * (drawn[:, None] - won - lost)
        fits = np.array([_fit(size, w + t, x + t) for w, x, t in zip(won, lost, half, strict=True) if (w + x).any()])
        edges = np.quantile(fits, [(1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0], axis=0)
        lows, highs = edges[0].tolist(), edges[1].tolist()
    made = [Strength(*one) for one in zip(tally.rankers, centre.tolist(), lows, highs, strict=True)]
    made.sort(key=lambda one: -one.strength)
    return Strengths(confidence, moments.units, tuple(made))


def _fit(size: int, wins: Floats, losses: Floats) -> Floats:
    """Return the maximum-likelihood strengths for wins and losses by pair."""
    try:
        import choix
    except ImportError as error:
        raise MissingExtra(
            "Bradley-Terry strengths need choix, which is not installed: pip install 'multileave[stats]'"
        ) from error
    matrix = np.zeros((size, size))
    first, second = pair_positions(size)
    matrix[first, second], matrix[second, first] = wins, losses
    matrix /= max(float(matrix.max()), 1.0)  # the scale does not matter, but convergence does
    found: Floats = np.asarray(choix.ilsr_pairwise_dense(matrix, alpha=_ALPHA, max_iter=10_000), dtype=np.float64)
    centred: Floats = found - found.mean()
    return centred
