"""Confidence intervals for mean preferences per impression, for one look.

Units (users, sessions) are independent, impressions are not: an interval that treats a user's impressions as
independent is too narrow. The mean preference is a ratio of two sums over units, preference and impressions, and its
variance follows by the delta method.
"""

from typing import Any, NamedTuple

import numpy as np

from multileave.outcome import Floats
from multileave.stats.intervals.moments import Ints, Moments

ALIKE_SHARE = 8.0  # of alpha, one part in so many is spent on units that are all alike
_FAR = 4.0  # standard errors beyond which t and normal quantiles keep their ratio


class Intervals(NamedTuple):
    """Means per impression with two-sided intervals and p-values against zero, each float (P,).

    multipliers: the half widths in standard errors, as for a normal distribution.
    """

    means: Floats
    lows: Floats
    highs: Floats
    p: Floats
    multipliers: Floats


def clustered(moments: Moments, confidence: float) -> Intervals:
    """Return intervals for one look, with units as the independent observations, by the delta method.

    mu = sum_u S_u / sum_u n_u,   Var(mu) = (U - 1) / U * sum_u ((S_u - mu n_u) / (N - n_u))^2

    which is the jackknife that leaves out one unit at a time; with equal n_u it is the usual U / (U - 1) times the
    delta method's, and with unequal n_u it removes the bias due to heavy units. The quantile is that of t with one
    degree of freedom less than the effective sample size, (sum n_u)^2 / sum n_u^2, or than the effective number of
    units that carry evidence, (sum |S_u|)^2 / sum S_u^2, if that is smaller. If all units have the same preference,
    there is no variance to estimate; the p-value is then that of the sign test, 2^(1 - U), and the interval excludes
    zero exactly if the test is significant. With few units that carry evidence, see `intervals.sign_flips`.

    Needs at least two units.

    >>> from multileave.stats.intervals.moments import Moments
    >>> one = np.ones(1)
    >>> four_users = Moments(4, 4, 4.0, 4 * one, 8 / 3 * one, 6 * one, 3 * one, one)
    >>> means, lows, highs, p, _ = clustered(four_users, 0.95)
    >>> print(f"{means[0]:.2f} ({lows[0]:.2f} to {highs[0]:.2f}), p = {p[0]:.3f}")
    1.00 (-0.30 to 2.30), p = 0.092
    """
    means, errors, alike = moments.means, moments.errors, moments.alike
    errors[alike] = np.abs(means[alike]) / t_quantile(0.5**moments.units, moments.freedom[alike])
    multipliers = t_quantile((1.0 - confidence) / 2.0, moments.freedom)
    half = errors * multipliers
    statistics = np.full_like(means, np.inf)
    np.divide(np.abs(means), errors, out=statistics, where=errors > 0.0)
    p = np.where(means == 0.0, 1.0, np.minimum(2.0 * t_tail(statistics, moments.freedom), 1.0))
    return Intervals(means, means - half, means + half, p, multipliers)


def around_means(moments: Moments, confidence: float, half: Floats, p: Floats, multipliers: Floats) -> Intervals:
    """Return intervals of a look of several with these half widths and p-values.

    If all units have the same preference, the p-value is 8 * 2^(1 - U), and the interval that of one look at alpha / 8.
    That U units are alike has probability 2^(1 - U) at any time. Without the factor, six alike would spend 3.1 % of the
    5 % beside what later looks spend.
    """
    means, alike = moments.means, moments.alike
    if alike.any():
        one_look = clustered(moments, 1.0 - (1.0 - confidence) / ALIKE_SHARE)
        p = np.where(alike, np.minimum(ALIKE_SHARE * one_look.p, 1.0), p)
        half = np.where(alike, (one_look.highs - one_look.lows) / 2.0, half)
    p = np.where(means == 0.0, 1.0, p)
    return Intervals(means, means - half, means + half, p, multipliers)


def wilson(wins: Ints, losses: Ints, units: int, multipliers: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the share of units that prefer the first of each pair, ties half, and its interval [wilson1927].

    multipliers: the half width in standard errors, 1.96 for 95 % in one look. With ties the share varies less than
    Wilson's formula assumes, so the interval is slightly too wide.

    >>> share, low, high = wilson(np.array([60]), np.array([20]), 100, np.array([1.96]))
    >>> print(f"{share[0]:.2f} ({low[0]:.3f} to {high[0]:.3f})")
    0.70 (0.604 to 0.781)
    """
    shares = (units + np.asarray(wins) - np.asarray(losses)) / (2.0 * units)
    squared = np.minimum(multipliers, 1e100) ** 2 / units
    centre = (shares + squared / 2.0) / (1.0 + squared)
    half = np.sqrt(squared * (shares * (1.0 - shares) + squared / 4.0)) / (1.0 + squared)
    return shares, np.clip(centre - half, 0.0, shares), np.clip(centre + half, shares, 1.0)


def t_quantile(tail: "Floats | float", freedom: "Floats | float") -> Any:
    """Return the value that Student's t exceeds with this probability, infinity for 0."""
    from scipy.special import stdtrit

    return np.where(np.asarray(tail) == 0.0, np.inf, -stdtrit(freedom, tail))


def t_tail(statistics: Floats, freedom: "Floats | float") -> Floats:
    """Return the probability that Student's t exceeds each value."""
    from scipy.special import stdtr

    return np.asarray(stdtr(freedom, -statistics))


def as_t(values: Floats, freedom: Floats) -> Floats:
    """Return what Student's t exceeds as often as a normal variable exceeds the values."""
    from scipy.special import ndtr, stdtrit

    far = t_quantile(float(ndtr(-_FAR)), freedom)
    return np.where(values <= _FAR, -stdtrit(freedom, ndtr(-np.minimum(values, _FAR))), values * (far / _FAR))


def as_normal(values: Floats, freedom: Floats) -> Floats:
    """Return what a normal variable exceeds as often as Student's t exceeds the values."""
    from scipy.special import ndtr, ndtri

    far = t_quantile(float(ndtr(-_FAR)), freedom)
    return np.where(values <= far, -ndtri(t_tail(np.minimum(values, far), freedom)), values * (_FAR / far))
