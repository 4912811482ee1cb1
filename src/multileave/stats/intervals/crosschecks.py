"""Cross-checks of the intervals under other assumptions: the cluster bootstrap and the sign test."""

from collections.abc import Iterable

import numpy as np

from multileave.outcome import Floats
from multileave.stats.intervals.clustered import Intervals, clustered
from multileave.stats.intervals.moments import Ints, Moments


def sign_test(wins: Ints, losses: Ints) -> Floats:
    """Return two-sided p-values of the exact sign test: are units equally likely to prefer either? Ties are left out.

    This is not a test of the mean: many users may prefer n a little while a few prefer m a lot.

    >>> sign_test(np.array([9]), np.array([1]))
    array([0.02148438])
    """
    from scipy.special import bdtr

    some = np.asarray(wins) + np.asarray(losses)
    fewer = np.minimum(wins, losses).astype(float)
    return np.where(some > 0, np.minimum(2.0 * bdtr(fewer, np.maximum(some, 1), 0.5), 1.0), 1.0)


def bootstrap(
    blocks: Iterable[tuple[Floats, Ints]],
    moments: Moments,
    confidence: float,
    *,
    replicates: int,
    rng: np.random.Generator,
) -> Intervals:
    """Return bootstrap-t intervals: units are resampled, each a Poisson(1) number of times [efron1993].

    blocks: the units' sums by pair (b, P) and their impressions (b,), each unit once.

    Each replicate's deviation from the mean is measured in its own standard errors. The interval extends to the
    quantile of their absolute values, and p counts those at least as far from zero as the mean, the mean included. If
    all units have the same preference, or none, the interval is `intervals.clustered`.
    """
    pairs = len(moments.totals)
    means = moments.means
    sums, squares, products = (np.zeros((replicates, pairs)) for _ in range(3))
    counts, counts_squared, units = (np.zeros(replicates) for _ in range(3))
    residuals = np.zeros(pairs)
    for block, impressions in blocks:
        visits = impressions.astype(np.float64)
        left = block - means * visits[:, None]
        residuals += (left * left).sum(axis=0)
        weights = rng.poisson(1.0, (replicates, len(visits))).astype(np.float64)
        sums += weights @ left
        squares += weights @ (left * left)
        products += weights @ (left * visits[:, None])
        counts += weights @ visits
        counts_squared += weights @ (visits * visits)
        units += weights.sum(axis=1)
    drawn = units > 1.0
    shift = np.zeros_like(sums)
    np.divide(sums, counts[:, None], out=shift, where=drawn[:, None])
    variances = squares - 2.0 * shift * products + shift * shift * counts_squared[:, None]
    statistics = np.zeros_like(sums)
    errors = np.sqrt(np.maximum(variances, 0.0))
    np.divide(shift * counts[:, None], errors, out=statistics, where=errors > 0.0)
    error = np.sqrt(residuals) / moments.impressions
    half = np.quantile(np.abs(statistics), confidence, axis=0) * error
    distance = np.zeros_like(means)
    np.divide(np.abs(means), error, out=distance, where=error > 0.0)
    p = (1.0 + (np.abs(statistics) >= distance).sum(axis=0)) / (replicates + 1.0)
    one_look = clustered(moments, confidence)
    p = np.where(moments.alike | (means == 0.0), one_look.p, p)
    half = np.where(moments.alike | ((means == 0.0) & (error == 0.0)), (one_look.highs - one_look.lows) / 2.0, half)
    return Intervals(means, means - half, means + half, p, one_look.multipliers)
