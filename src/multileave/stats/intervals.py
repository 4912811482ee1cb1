"""Confidence intervals for mean preferences per impression, and the correction for looking at many pairs.

What is independent is the unit (a user, a session), not the impression: an interval that takes a user's
impressions for independent is too narrow. The mean preference is a ratio of two sums over units,
preference and impressions, and its variance follows by the delta method.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from multileave.outcome import Floats

__all__ = ["Intervals", "Moments", "clustered", "holm"]

Bools: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

# Below this many units Student's t stands in for the normal distribution.
LARGE_SAMPLE = 200


class Moments(NamedTuple):
    """What the clustered interval needs of a tally.

    With S_u a unit's sum of preferences for a pair, n_u its impressions and mu the mean per impression:
    totals: float (P,), the sum of S_u over units, for each pair.
    residuals: float (P,), the sum of (S_u - mu n_u)^2.
    """

    impressions: int
    units: int
    totals: Floats
    residuals: Floats


class Intervals(NamedTuple):
    """Means per impression with their two-sided intervals and p-values against zero, each float (P,)."""

    means: Floats
    lows: Floats
    highs: Floats
    p: Floats


def clustered(moments: Moments, confidence: float) -> Intervals:
    """Return intervals whose independent observations are units, by the delta method.

    mu = sum_u S_u / sum_u n_u,   Var(mu) = U / (U - 1) * sum_u (S_u - mu n_u)^2 / (sum_u n_u)^2

    with the normal quantile, or that of t with U - 1 degrees of freedom below 200 units. Where all units
    say exactly the same there is no variance to estimate; the p-value is then that of the sign test,
    2^(1 - U), and the interval excludes zero just when that test does.

    Needs at least two units.

    >>> four_users = Moments(impressions=4, units=4, totals=np.array([4.0]), residuals=np.array([2.0]))
    >>> means, lows, highs, p = clustered(four_users, 0.95)
    >>> print(f"{means[0]:.2f} ({lows[0]:.2f} to {highs[0]:.2f}), p = {p[0]:.3f}")
    1.00 (-0.30 to 2.30), p = 0.092
    """
    units = moments.units
    means = moments.totals / moments.impressions
    errors = np.sqrt(units / (units - 1) * moments.residuals) / moments.impressions
    alike = (errors == 0.0) & (means != 0.0)
    errors[alike] = np.abs(means[alike]) / _quantile(0.5**units, units)
    half = errors * _quantile((1.0 - confidence) / 2.0, units)
    statistics = np.full_like(means, np.inf)
    np.divide(np.abs(means), errors, out=statistics, where=errors > 0.0)
    p = np.where(means == 0.0, 1.0, np.minimum(2.0 * _tail(statistics, units), 1.0))
    return Intervals(means, means - half, means + half, p)


def _quantile(tail: float, units: int) -> float:
    """Return the value that is exceeded with this probability."""
    from scipy.special import ndtri, stdtrit

    if tail == 0.0:
        return np.inf
    return -float(ndtri(tail) if units >= LARGE_SAMPLE else stdtrit(units - 1, tail))


def _tail(statistics: Floats, units: int) -> Floats:
    """Return the probability that each value is exceeded."""
    from scipy.special import ndtr, stdtr

    return np.asarray(ndtr(-statistics) if units >= LARGE_SAMPLE else stdtr(units - 1, -statistics))


def holm(p: Floats) -> Floats:
    """Return p-values corrected for looking at all of them, by Holm's step-down rule.

    The i-th smallest of m is multiplied by m - i + 1, and none may be smaller than one before it. The
    chance that any true null hypothesis has a corrected value of at most alpha is at most alpha.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected
