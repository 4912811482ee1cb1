"""Group-sequential looks: intervals for a number of looks that was planned, by spending alpha over them.

A plan says how many looks there are and what share of the final information each has seen: the information
fractions t_1 < ... < t_K = 1. Information is 1 / Var(mean), so that with units that each come once it is the share of
the planned units. A spending function says how much of alpha may be spent by each fraction [lan1983]:

    "obrien-fleming"   4 - 4 Phi(z / sqrt(t)),  z the upper alpha / 4 quantile: little is spent early
    "pocock"           alpha log(1 + (e - 1) t): about the same boundary at every look

The boundary of look k is the number of standard errors that Brownian motion at t_1, ..., t_k first exceeds at look k
with just the probability that has become free since the look before. The probabilities follow by numerical integration
over the motion's density within the earlier boundaries, look by look [armitage1969].

A process whose increments are not negatively correlated with its past crosses the boundaries no more often, if each
look has the variance that was planned: Slepian's inequality, as in `confidence_sequence`. With fewer looks than
planned, or none after significance, less is spent.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from multileave.outcome import Floats
from multileave.stats.intervals.clustered import Intervals, around_means, as_normal, as_t
from multileave.stats.intervals.moments import Moments
from multileave.stats.intervals.sign_flips import sign_flip_p, with_p

MOST_LOOKS = 100
_FARTHEST = 7.0  # standard errors within which the density is integrated
_PER_DEVIATION = 1.5  # nodes for each standard deviation of an increment
_LEVELS = -np.geomspace(math.log(2.0), 30.0, 12)  # log alpha of the boundaries between which p-values are interpolated


def _obrien_fleming(fraction: float, alpha: float) -> float:
    from scipy.special import ndtr, ndtri

    return float(4.0 * ndtr(ndtri(alpha / 4.0) / math.sqrt(fraction)))


def _pocock(fraction: float, alpha: float) -> float:
    return alpha * math.log1p((math.e - 1.0) * fraction)


SPENDING: dict[str, Callable[[float, float], float]] = {"obrien-fleming": _obrien_fleming, "pocock": _pocock}


def information(looks: int | Sequence[float]) -> tuple[float, ...]:
    """Return the information fractions of a plan: as given, or those of equally spaced looks.

    >>> information(4)
    (0.25, 0.5, 0.75, 1.0)
    """
    return tuple(n / looks for n in range(1, looks + 1)) if isinstance(looks, int) else tuple(map(float, looks))


@lru_cache(maxsize=512)
def boundaries(fractions: tuple[float, ...], alpha: float, spending: str = "obrien-fleming") -> tuple[float, ...]:
    """Return how many standard errors from zero the two-sided boundary is at each of these looks.

    >>> [round(b, 3) for b in boundaries(information(3), 0.05)]
    [3.71, 2.511, 1.993]
    """
    from scipy.optimize import brentq

    density, before, found = _START, 0.0, []
    for fraction in fractions:
        total = SPENDING[spending](fraction, alpha)
        free, before = total - before, total
        step = _Step(density, fraction, 0.0)
        low, high = 0.0, 40.0
        if step.beyond(high) >= free:  # nothing that a double can tell from zero is free
            bound = high
        else:
            bound = float(brentq(lambda z, step=step, free=free: step.beyond(z) - free, low, high, xtol=1e-9))
        found.append(bound)
        density = step.within(bound)
    return tuple(found)


def crossing(fractions: Sequence[float], bounds: Sequence[float], drift: float = 0.0) -> Floats:
    """Return the probability that Brownian motion first exceeds its boundary at each look, float (K,).

    bounds: in standard errors, on both sides. drift: the expected statistic at fraction 1.

    >>> crossing([0.5, 1.0], [9.9, 1.96]).sum().round(3)
    np.float64(0.05)
    """
    density, found = _START, []
    for fraction, bound in zip(fractions, bounds, strict=True):
        step = _Step(density, fraction, drift)
        found.append(step.beyond(bound))
        density = step.within(bound)
    return np.array(found)


def scheduled(
    moments: Moments,
    confidence: float,
    fractions: tuple[float, ...],
    spending: str,
    few: "Mapping[int, Floats] | None" = None,
) -> Intervals:
    """Return the intervals of the last of these looks; together all looks miss a mean with at most 1 - confidence.

    p is the smallest alpha whose boundary at this look is exceeded. Few units are met with Student's t, as in
    `intervals.clustered`, and fewer, whose sums are given by position of the pair, with the exact test of
    `intervals.sign_flips`: its p-value as a number of standard errors is what is compared with the boundary.
    """
    from scipy.special import ndtri

    means, errors = moments.means, moments.errors
    bound = boundaries(fractions, 1.0 - confidence, spending)[-1]
    statistics = np.zeros_like(means)
    np.divide(np.abs(means), errors, out=statistics, where=errors > 0.0)
    p = _p_values(as_normal(statistics, moments.freedom), fractions, spending, 1.0 - confidence)
    multipliers = np.full_like(means, bound)
    half = errors * as_t(multipliers, moments.freedom)
    intervals = around_means(moments, confidence, half, p, multipliers)
    if not few:
        return intervals
    exact = -ndtri(np.array([sign_flip_p(sums) for sums in few.values()]) / 2.0)
    tested = _p_values(exact, fractions, spending, 1.0 - confidence).tolist()
    return with_p(intervals, dict(zip(few, tested, strict=True)), confidence)


def _p_values(statistics: Floats, fractions: tuple[float, ...], spending: str, alpha: float) -> Floats:
    """Return the alpha whose last boundary each statistic lies on; 1 above one half, where it decides nothing.

    It is exact at alpha, and interpolated elsewhere.
    """
    from scipy.special import ndtr, ndtri

    levels = np.exp(np.sort(np.append(_LEVELS, math.log(alpha)))[::-1])
    lasts = np.array([boundaries(fractions, level, spending)[-1] for level in levels.tolist()])
    kept = np.concatenate([[True], np.diff(lasts) > 0.0])
    # The boundary of a single look, which is almost a linear function of this one.
    single = np.interp(statistics, lasts[kept], -ndtri(levels[kept] / 2.0))
    return np.where(statistics < lasts[0], 1.0, 2.0 * ndtr(-single))


class _Density(NamedTuple):
    """The density of Brownian motion at a fraction, where no boundary was exceeded: nodes, and density times weight."""

    fraction: float
    nodes: Floats
    masses: Floats


class _Step:
    """The motion at its next fraction, before the boundary there."""

    def __init__(self, start: _Density, fraction: float, drift: float) -> None:
        self._fraction, self._masses = fraction, start.masses
        self._deviation = math.sqrt(fraction - start.fraction)
        self._centres = start.nodes + drift * (fraction - start.fraction)

    def beyond(self, bound: float) -> float:
        """Return the probability of exceeding a boundary in standard errors."""
        from scipy.special import ndtr

        line = bound * math.sqrt(self._fraction)
        tails = ndtr((self._centres - line) / self._deviation) + ndtr((-self._centres - line) / self._deviation)
        return float(self._masses @ tails)

    def within(self, bound: float) -> _Density:
        """Return the density within a boundary."""
        reach = 5.0 * self._deviation + float(np.abs(self._centres).max())
        line = min(bound * math.sqrt(self._fraction), max(reach, _FARTHEST * math.sqrt(self._fraction)))
        points, weights = _legendre(math.ceil(math.log2(_PER_DEVIATION * 2.0 * line / self._deviation)))
        nodes = line * points
        kernel = np.exp(-0.5 * ((nodes[:, None] - self._centres) / self._deviation) ** 2)
        kernel /= self._deviation * math.sqrt(2.0 * math.pi)
        return _Density(self._fraction, nodes, line * weights * (kernel @ self._masses))


_START = _Density(0.0, np.zeros(1), np.ones(1))


@cache
def _legendre(doublings: int) -> tuple[Floats, Floats]:
    """Return nodes and weights of Gauss and Legendre; powers of two, as they take long to compute."""
    return np.polynomial.legendre.leggauss(2 ** min(max(doublings, 5), 10))
