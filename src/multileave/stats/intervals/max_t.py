"""Max-t: a correction for many pairs that knows how they depend on each other.

Forty rankers make 780 pairs, but their differences are differences of forty credits: the pairs' statistics are
correlated, and the largest of 780 is smaller than that of 780 independent ones, which Holm's rule allows for. The
statistics of pairs without a difference are jointly normal, asymptotically, with the correlations of the units'
residuals. So the corrected p-value of a pair is the probability that the largest |Z| of all pairs is at least z_p, with
z_p the normal quantile of its own p-value [hothorn2008]. Step by step, from the smallest p-value, pairs that are
significant leave the family [westfall1993, romano2005]: the family-wise error stays below alpha, as the joint law of
the true null hypotheses does not depend on the others.

**Few units.** Each p-value is that of Student's t with its own degrees of freedom; only the dependence is taken from
the normal law. Correlations of few units are uncertain, and look stronger than they are: with R rankers and the
effective number nu of units that carry the covariance, the share R / nu of each statistic's variance is taken as
independent of all other pairs, so that with nu <= R the correction is Sidak's, which is close to Holm's.

**Several tallies.** Segments are taken as independent of each other. Both are conservative: independence makes the
largest |Z| largest [royen2014].

Probabilities are counted in simulated draws, seeded, the observed statistic included; none can exceed Holm's, which
bounds them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from multileave.outcome import Floats
from multileave.stats.intervals.corrections import holm

DRAWS = 1 << 13
_CHUNK = 1 << 20  # numbers simulated at a time


class MaxT(NamedTuple):
    """Corrected p-values, (P,), and the quantile of the largest |Z| of all pairs."""

    p: Floats
    critical: float


def max_t(
    p: Floats, dependence: Sequence[tuple[Floats, float]], confidence: float, *, seed: int = 0, draws: int = DRAWS
) -> MaxT:
    """Return p-values, (P,), corrected for pairs that depend on each other as stated.

    dependence: for each tally float (P_i, r_i), rows of length 1 whose products are the correlations of its P_i pairs,
        and the share of each pair's variance that is of this pair alone.

    >>> same = np.array([[1.0], [1.0], [1.0]])
    >>> max_t(np.array([0.02, 0.03, 0.9]), [(same, 0.0)], 0.95).p.round(2)
    array([0.02, 0.03, 0.9 ])
    """
    from scipy.special import ndtri

    if len(p) == 1:
        return MaxT(p.copy(), float(-ndtri((1.0 - confidence) / 2.0)))
    order = np.argsort(p, kind="stable")
    statistics = np.abs(ndtri(p[order] / 2.0))
    rng = np.random.default_rng(seed)
    counts, largest = np.zeros(len(p)), []
    left = draws
    while left:
        size = min(left, max(_CHUNK // len(p), 1))
        left -= size
        drawn = np.concatenate([_joint(rng, size, *tally) for tally in dependence], axis=1)
        # The largest of each pair and all that come after it.
        from_here = np.maximum.accumulate(np.abs(drawn)[:, order[::-1]], axis=1)[:, ::-1]
        counts += (from_here >= statistics).sum(axis=0)
        largest.append(from_here[:, 0])
    stepped = np.maximum.accumulate((1.0 + counts) / (draws + 1.0))
    corrected = np.empty_like(p)
    corrected[order] = stepped
    critical = float(np.quantile(np.concatenate(largest), confidence, method="higher"))
    return MaxT(np.clip(np.minimum(corrected, holm(p)), p, 1.0), critical)


def _joint(rng: np.random.Generator, size: int, rows: Floats, alone: float) -> Floats:
    """Return draws of pairs' statistics, (size, P): the share `alone` of their variance is of each pair alone."""
    shared = rng.standard_normal((size, rows.shape[1])) @ rows.T
    if not alone:
        return shared
    own = rng.standard_normal(shared.shape)
    drawn: Floats = np.sqrt(1.0 - alone) * shared + np.sqrt(alone) * own
    return drawn


def unit_rows(covariance: Floats, contrasts: "Floats | None" = None) -> Floats:
    """Return rows of length 1 whose products are correlations: those of a covariance, or of contrasts of it.

    >>> np.abs(unit_rows(np.array([[2.0, 0.0], [0.0, 2.0]]), np.array([[1.0, -1.0]]))).round(3).tolist()
    [[0.707, 0.707]]
    """
    values, vectors = np.linalg.eigh(covariance)
    rows = vectors * np.sqrt(np.maximum(values, 0.0))
    rows = rows if contrasts is None else contrasts @ rows
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    found: Floats = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0.0)
    return found
