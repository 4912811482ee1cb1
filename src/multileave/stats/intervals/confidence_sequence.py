"""Intervals that are valid at any time: look as often as you like, and stop when you like.

The more often one looks, the more often an interval for one look is wrong. A confidence sequence is ever wrong with
probability at most alpha. Ours are normal mixtures [robbins1970] with an estimated variance, which makes them
asymptotic [waudbysmith2024]. With M = sum_u (S_u - mu n_u) and V its estimated variance, a look has the statistic
z = |M| / sqrt(V) and the clock t = V / v, where v is the variance of a single impression's preference. If the
preference grows with the clock at the rate y, the likelihood ratio against no preference is
exp(y z sqrt(t) - y^2 t / 2). A mixture of these over the rates y > 0 is the evidence f(z, t), and p = 2 / f.

**Planned** (`tuned_for` = N impressions). The rates are normal around the one that N impressions detect in one look:
mean m = 2.5 / sqrt(N), deviation m / 4. With a = sqrt(1 + t m^2 / 16) and w = (m z sqrt(t) / 4 + 4) / a,

    f = exp(w^2 / 2 - 8) / a.

The 95 % sequence is narrowest near t = N, 2.8 standard errors to either side (one look: 1.96), and 3.6 at ten times as
many. **Without a plan** the rates are half-normal with deviation sqrt(8.2 / 10,000):

    f = 2 exp(s z^2 / (2 (1 + s))) / sqrt(1 + s),  s = 8.2 t / 10,000, less a term below 1,

3.0 standard errors at 10,000 impressions and at most 3.9 from 1,000 to 10 million.

**Why it holds.** If M / sqrt(v) were Brownian motion at time t, f would be a non-negative martingale that starts at 1
for either sign of M (for the planned one, rates below zero only add to it), so each ever exceeds 2 / alpha with
probability at most alpha / 2 (Ville). M is not a martingale: a returning user's next impressions can be predicted from
the last. But a Gaussian process with the same variances and non-negatively correlated increments has
Cov(M_j, M_k) >= Var(M_j) for looks j < k, at least that of Brownian motion at the same clocks, and so exceeds a
one-sided boundary at some look no more often, by Slepian's inequality [slepian1962]. Users with consistent tastes are
such a process. **The clock is V / v**, the accumulated variance of the units' sums, not the number of units: a panel of
users who return every day keeps it moving. Both V and v are estimated anew at each look. That is covered: f depends
continuously on them, so if from the first look on both are within a factor of 1 + e of the truth, the boundary is at
least the exact one at levels that tend to alpha as e tends to 0. The boundary grows like sqrt(t log t), faster than the
law of the iterated logarithm, so this is uniform over looks.

Asymptotic means that many units must share the variance from the first look on. With few units, Student's t is used as
in `intervals.clustered`, and the boundary itself is far away long before its time.
"""

import numpy as np

from multileave.outcome import Floats
from multileave.stats.intervals.clustered import Intervals, around_means, as_normal, as_t
from multileave.stats.intervals.moments import Moments

UNPLANNED = 10_000  # impressions for which the sequence without a plan is narrowest
_AT_BEST = 8.2  # V / rho where its 95 % boundary is lowest in standard errors: x - 1 with x - log x = 1 - log 0.05^2
_RATE = 2.5  # mean rate of the planned sequence, times sqrt(tuned_for)
_SPREADS = 4.0  # that mean in standard deviations of the rate


def boundary(clocks: Floats, alpha: float, tuned_for: float | None = None) -> Floats:
    """Return how many standard errors from zero the boundary is at these clocks, in impressions.

    >>> boundary(np.array([100.0, 1_000.0, 10_000.0, 100_000.0]), 0.05).round(2)
    array([8.98, 3.84, 3.04, 3.25])
    >>> boundary(np.array([100.0, 1_000.0, 10_000.0, 100_000.0]), 0.05, tuned_for=1_000).round(2)
    array([4.72, 2.79, 3.58, 4.63])
    """
    if tuned_for is None:
        share = np.asarray(clocks) * (_AT_BEST / UNPLANNED)
        return np.sqrt(2.0 * (1.0 + 1.0 / share) * np.log(np.sqrt(1.0 + share) / alpha + 0.5))
    root, widening = _planned(clocks, tuned_for)
    reached = np.sqrt(2.0 * (np.log(2.0 / alpha) + np.log(widening)) + _SPREADS**2)
    bounds: Floats = (reached * widening - _SPREADS) / root
    return bounds


def anytime(moments: Moments, confidence: float, tuned_for: float | None = None) -> Intervals:
    """Return intervals each of which ever misses its mean with probability at most 1 - confidence.

    tuned_for: the number of impressions with which one look would detect the planned difference. Like the confidence,
    it must be chosen before the first look. None: there is no plan.

    If all units have the same preference, see `intervals.clustered.around_means`.
    """
    means, errors = moments.means, moments.errors
    clocks = moments.clocks
    some = (clocks > 0.0) & (errors > 0.0)
    clocks = np.where(some, np.maximum(clocks, 1e-9), 1.0)
    multipliers = boundary(clocks, 1.0 - confidence, tuned_for)
    half = errors * as_t(multipliers, moments.freedom)
    statistics = np.zeros_like(means)
    np.divide(np.abs(means), errors, out=statistics, where=some)
    p = _p_values(as_normal(statistics, moments.freedom), clocks, tuned_for)
    return around_means(moments, confidence, half, p, multipliers)


def _p_values(statistics: Floats, clocks: Floats, tuned_for: float | None) -> Floats:
    """Return the alpha at which each statistic lies on the boundary."""
    if tuned_for is None:
        share = clocks * (_AT_BEST / UNPLANNED)
        evidence = np.exp(-(statistics**2) / (2.0 * (1.0 + 1.0 / share)))
        return np.minimum(np.sqrt(1.0 + share) * evidence / (1.0 - evidence / 2.0), 1.0)
    root, widening = _planned(clocks, tuned_for)
    reached = (statistics * root + _SPREADS) / widening
    return np.minimum(2.0 * widening * np.exp((_SPREADS**2 - reached**2) / 2.0), 1.0)


def _planned(clocks: Floats, tuned_for: float) -> tuple[Floats, Floats]:
    """Return the rates' deviation times sqrt(t), and the deviation's widening sqrt(1 + that squared)."""
    root = np.sqrt(np.asarray(clocks) / tuned_for) * (_RATE / _SPREADS)
    return root, np.sqrt(1.0 + root * root)
