"""Rates: from sums over units to what each ranker would earn alone, with intervals.

With C_r what the impressions say ranker r earned, W_r its surplus, N the impressions and b a number,

    rate_r = sum of (C_r - b W_r) / N

is an estimate for any fixed b, as W_r has mean 0. Three choices of b are three estimators:

    "weighted"       b = 0: inverse propensity weighting, unbiased
    "normalised"     b_r = sum C_r / sum (W_r + page_r), by ranker: the self-normalised estimator
    "doubly robust"  one b for all rankers, which minimises the sum of the rates' variances. It is what a model that
                     expects b g(x) clicks at rank x would be multiplied with in a doubly robust estimator

The last is the default: its variance is never above that of the first, asymptotically, and in our simulations like that
of the second, without the bias of a ratio (docs/rates.md). Rates are means per impression like preferences: units are
independent, and intervals for one look and for any number of looks are the same functions of `Moments`. What a user
earns is skewed, though, above all in values such as prices, so intervals of rates allow for that
(`intervals.skewness`). Differences and lifts do not need it: much of the skewness cancels.

A relative lift is a ratio of two rates. Its interval is Fieller's [fieller1954]: all ratios t for which rate_r - t
rate_control could be 0. It excludes 0 exactly if the interval of the difference does, and has no ends if the control's
rate itself could be 0. Counts of clicks cannot be negative, nor fall by more than 100 %, so such a rate and its
interval end at 0, and such a lift and its interval at -100 %.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from multileave.errors import TallyError, nearest
from multileave.outcome import Floats
from multileave.stats.intervals.clustered import Intervals, clustered
from multileave.stats.intervals.confidence_sequence import anytime
from multileave.stats.intervals.corrections import CORRECTIONS
from multileave.stats.intervals.group_sequential import scheduled
from multileave.stats.intervals.moments import Moments
from multileave.stats.intervals.skewness import Residuals, skewed
from multileave.stats.rates.records import RankerRate, Rates
from multileave.stats.rates.sums import RateSums
from multileave.stats.verdict.rules import Rules

ESTIMATORS = ("doubly robust", "normalised", "weighted")


def estimate(sums: RateSums, rankers: tuple[str, ...], rules: Rules, estimator: str = ESTIMATORS[0]) -> Rates | None:
    """Return what each ranker would earn alone; None if fewer than two units have impressions that say so.

    Others are compared with the control of the rules, by default the first ranker.
    """
    if estimator not in ESTIMATORS:
        raise TallyError(
            f"The estimator is {estimator!r}; expected one of {', '.join(ESTIMATORS)}.{nearest(estimator, ESTIMATORS)}"
        )
    name = rankers[0] if rules.control is None else rules.control
    if name not in rankers:
        raise TallyError(
            f"The control is {name!r}; expected one of the rankers, {', '.join(rankers)}.{nearest(name, rankers)}"
        )
    if sums.units < 2:
        return None
    base = rankers.index(name)
    totals, covariance, slopes = adjusted(sums, estimator)
    others = [n for n in range(len(rankers)) if n != base]
    levels = _levels(_moments(sums, totals, np.diag(covariance), np.diag(sums.squares)), sums.residuals(slopes), rules)
    variances, squares = (_between(matrix, others, base) for matrix in (covariance, sums.squares))
    moments = _moments(sums, totals[others] - totals[base], variances, squares)
    contrasts = _intervals(moments, rules, len(others))
    corrected = CORRECTIONS[rules.correction](contrasts.p)
    found = []
    least = -math.inf if sums.valued else 0.0
    for n, ranker in enumerate(rankers):
        compared: dict[str, Any] = {}
        if n != base:
            place = others.index(n)
            difference, low, high, p = (float(column[place]) for column in contrasts[:4])
            error = float(moments.errors[place])
            multiplier = (high - low) / 2.0 / error if error > 0.0 else 0.0
            both = covariance[np.ix_((n, base), (n, base))]
            found_lift = lift(totals[n], totals[base], both, multiplier, counts=not sums.valued)
            names = ("lift", "lift_low", "lift_high")
            compared = {
                "difference": difference, "difference_low": low, "difference_high": high, "p": p,
                "p_corrected": float(corrected[place]), "significant": bool(corrected[place] <= 1.0 - rules.confidence),
                **dict(zip(names, found_lift, strict=True)),
            }  # fmt: skip
        rate, low, high = (max(float(column[n]), least) for column in levels[:3])
        found.append(RankerRate(ranker, rate, low, high, **compared))
    return Rates(
        name, estimator, sums.impressions, sums.units, rules.confidence, rules.interval == "anytime", tuple(found)
    )


class Adjusted(NamedTuple):
    """The sums of C - b W, (R,), their covariance with units as the independent observations, (R, R), and b, (R,)."""

    totals: Floats
    covariance: Floats
    slopes: Floats


def adjusted(sums: RateSums, estimator: str) -> Adjusted:
    """Return what each ranker earned alone by an estimator, as sums over units."""
    size, n = sums.rankers, sums.totals[-1]
    means = sums.totals[:-1] / n
    cross = np.outer(means, sums.products[-1, :-1])
    around = sums.products[:-1, :-1] - cross - cross.T + np.outer(means, means) * sums.products[-1, -1]
    around *= sums.units / (sums.units - 1)
    earned, surplus = sums.totals[:size], sums.totals[size:-1]
    slopes = np.zeros(size)
    if estimator == "doubly robust":
        spread = float(np.trace(around[size:, size:]))
        slopes[:] = float(np.trace(around[:size, size:])) / spread if spread > 0.0 else 0.0
    elif estimator == "normalised":
        shown = surplus + sums.pages * (sums.impressions / sums.seen)
        np.divide(earned, shown, out=slopes, where=shown > 0.0)
    change = np.hstack([np.eye(size), -np.diag(slopes)])
    return Adjusted(earned - slopes * surplus, change @ around @ change.T, slopes)


def lift(
    first: float, second: float, covariance: Floats, multiplier: float, *, counts: bool
) -> tuple[float | None, float | None, float | None]:
    """Return first / second - 1 with its interval by Fieller; None where there is none.

    covariance: of the two, (2, 2). multiplier: how many standard errors an interval extends. counts: neither can be
    negative in truth.

    >>> lift(106.0, 100.0, np.array([[4.0, 3.0], [3.0, 4.0]]), 1.96, counts=True)
    (0.06..., 0.0318..., 0.0891...)
    """
    if second <= 0.0:
        return None, None, None
    squared = multiplier**2
    leading = second**2 - squared * covariance[1, 1]
    middle = first * second - squared * covariance[0, 1]
    root = middle**2 - leading * (first**2 - squared * covariance[0, 0])
    least = -1.0 if counts else -math.inf
    value = max(float(first / second - 1.0), least)
    if leading <= 0.0:
        return value, None, None
    half = math.sqrt(max(float(root), 0.0))
    low, high = (float((middle + side * half) / leading - 1.0) for side in (-1.0, 1.0))
    return value, max(low, least), max(high, least)


def _between(matrix: Floats, others: list[int], base: int) -> Floats:
    """Return the variance of the difference between some and one, from a covariance."""
    found: Floats = matrix[others, others] - 2.0 * matrix[others, base] + matrix[base, base]
    found[found <= 1e-12 * (matrix[others, others] + matrix[base, base])] = 0.0  # equal rankers, but for rounding
    return found


def _moments(sums: RateSums, totals: Floats, variances: Floats, squares: Floats) -> Moments:
    none = np.zeros(len(totals), dtype=np.int64)
    return Moments(
        impressions=sums.impressions,
        units=sums.units,
        effective=float(sums.totals[-1] ** 2 / sums.products[-1, -1]),
        totals=totals,
        variances=np.maximum(variances, 0.0),
        squares=squares * (sums.impressions / sums.seen),
        wins=none,
        losses=none,
    )


def _levels(moments: Moments, residuals: Residuals | None, rules: Rules) -> Intervals:
    """Return intervals of rates; symmetric if it is not known how skewed units are."""
    if residuals is None:
        return _intervals(moments, rules, len(moments.totals))
    return skewed(moments, residuals, lambda changed: _intervals(changed, rules, len(changed.totals)))


def _intervals(moments: Moments, rules: Rules, comparisons: int) -> Intervals:
    """Return intervals; the bootstrap is only for preferences, and one look is clustered."""
    level = rules.level(comparisons)
    if rules.interval == "anytime":
        return anytime(moments, level, rules.tuned_for)
    if rules.interval == "scheduled":
        return scheduled(moments, level, rules.fractions[: rules.look], rules.spending)
    return clustered(moments, level)
