"""Intervals that are valid at any time: look as often as you like, and stop when you like.

The more often one looks, the more often an interval for one look is wrong. A confidence sequence is ever wrong with
probability at most alpha. Ours is the normal mixture of Robbins [robbins1970] with an estimated variance, which makes
it asymptotic [waudbysmith2024]. With M(mu) = sum_u (S_u - mu n_u), V its estimated variance and rho a constant, zero is
excluded if

    |M(0)| > sqrt(2 (V + rho) log(sqrt(1 + V / rho) / alpha + 1 / 2)).

**Its clock is V, the accumulated variance of the units' sums**, not the number of units: a panel of users who return
every day keeps it moving. A martingale argument does not apply, as a returning user's next impressions can be predicted
from the last. Instead, each side is the boundary of a half-normal mixture at alpha / 2, which Brownian motion at time V
ever crosses with probability at most alpha / 2. A Gaussian process with the same variances and non-negatively
correlated increments crosses it no more often, by Slepian's inequality [slepian1962]; users with consistent tastes are
such a process. Two one-sided boundaries instead of the usual two-sided one add the 1 / 2, 0.4 % of width.

**Tuning.** With rho = tuned_for / 8.2 the 95 % sequence is narrowest, relative to the standard error, when V equals the
variance of that many single impressions. It then extends 3.04 standard errors to either side (one look: 1.96), and 3.25
at ten times as many.

Asymptotic means that many units must share the variance. With few units, Student's t is used as in
`intervals.clustered`, and the boundary itself is far away long before its time.
"""

import numpy as np

from multileave.outcome import Floats
from multileave.stats.intervals.clustered import Intervals, t_quantile, t_tail
from multileave.stats.intervals.moments import Moments

TUNED_FOR = 10_000
_AT_BEST = 8.2  # V / rho where the 95 % boundary is lowest in standard errors: x - 1 with x - log x = 1 - log 0.05^2

_FAR = 4.0  # standard errors beyond which t and normal quantiles keep their ratio


def boundary(clocks: Floats, alpha: float, tuned_for: float = TUNED_FOR) -> Floats:
    """Return how many standard errors from zero the boundary is at these clocks, in impressions.

    >>> boundary(np.array([100.0, 1_000.0, 10_000.0, 100_000.0]), 0.05).round(2)
    array([8.98, 3.84, 3.04, 3.25])
    """
    share = np.asarray(clocks) * (_AT_BEST / tuned_for)
    return np.sqrt(2.0 * (1.0 + 1.0 / share) * np.log(np.sqrt(1.0 + share) / alpha + 0.5))


def anytime(moments: Moments, confidence: float, tuned_for: float = TUNED_FOR) -> Intervals:
    """Return intervals each of which ever misses its mean with probability at most 1 - confidence.

    tuned_for: the number of impressions at which the sequence is narrowest. Like the confidence, it must be chosen
    before the first look.

    If all units have the same preference, the p-value is 2^(1 - U), which is valid at any time.
    """
    means, errors = moments.means, moments.errors
    clocks = moments.clocks
    some = (clocks > 0.0) & (errors > 0.0)
    clocks = np.where(some, np.maximum(clocks, 1e-9), 1.0)
    multipliers = boundary(clocks, 1.0 - confidence, tuned_for)
    half = errors * _as_t(multipliers, moments.freedom)
    statistics = np.zeros_like(means)
    np.divide(np.abs(means), errors, out=statistics, where=some)
    share = clocks * (_AT_BEST / tuned_for)
    exponent = _as_normal(statistics, moments.freedom) ** 2 / (2.0 * (1.0 + 1.0 / share))
    # The alpha at which the statistic lies on the boundary: e^x = sqrt(1 + V / rho) / alpha + 1 / 2.
    evidence = np.exp(-exponent)
    p = np.minimum(np.sqrt(1.0 + share) * evidence / (1.0 - evidence / 2.0), 1.0)
    alike = moments.alike
    if alike.any():
        from multileave.stats.intervals.clustered import clustered

        one_look = clustered(moments, confidence)
        p = np.where(alike, one_look.p, p)
        half = np.where(alike, (one_look.highs - one_look.lows) / 2.0, half)
    p = np.where(means == 0.0, 1.0, p)
    return Intervals(means, means - half, means + half, p, multipliers)


def _as_t(values: Floats, freedom: float) -> Floats:
    """Return what Student's t exceeds as often as a normal variable exceeds the values."""
    from scipy.special import ndtr, stdtrit

    far = t_quantile(float(ndtr(-_FAR)), freedom)
    return np.where(values <= _FAR, -stdtrit(freedom, ndtr(-np.minimum(values, _FAR))), values * (far / _FAR))


def _as_normal(values: Floats, freedom: float) -> Floats:
    """Return what a normal variable exceeds as often as Student's t exceeds the values."""
    from scipy.special import ndtr, ndtri

    far = t_quantile(float(ndtr(-_FAR)), freedom)
    return np.where(values <= far, -ndtri(t_tail(np.minimum(values, far), freedom)), values * (_FAR / far))
