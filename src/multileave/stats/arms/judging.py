"""From the sums of arms to the verdict of an A/B test.

The mean of a metric in an arm is a ratio of two sums over units, m = sum x_u / sum n_u, and with
e_u = x_u - m n_u and N = sum n_u the difference between arms a and b has the variance

    c (sum_a e_u^2 / N_a^2 + sum_b e_u^2 / N_b^2),   c = G / (G - 1) * (N - 1) / (N - 2),

with G units and N impressions in both. This is the cluster-robust variance of a regression on the arm, as statsmodels
computes it, and for one look p-values and intervals are those of t with G - 1 degrees of freedom. If no unit of either
arm deviates from its mean, there is no variance to estimate; the p-value is then how often a random assignment of these
units to arms would separate them as well, 2 / C(G, G_a).

Intervals for any number of looks are those of `intervals.confidence_sequence`: the difference is a mean over the N
impressions of both arms, each weighted by N / N_a or -N / N_b.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from multileave.errors import TallyError, nearest
from multileave.outcome import Floats
from multileave.stats.arms.metrics import METRICS, SUCCESS, VALUE
from multileave.stats.arms.records import Agreement, ArmEstimate, ArmMetric, ArmSize, ArmVerdict
from multileave.stats.arms.sums import ArmSums
from multileave.stats.intervals.clustered import Intervals, t_quantile, t_tail
from multileave.stats.intervals.confidence_sequence import anytime
from multileave.stats.intervals.corrections import CORRECTIONS
from multileave.stats.intervals.moments import Moments
from multileave.stats.rates.estimating import lift
from multileave.stats.verdict.rules import Rules
from multileave.stats.verdict.verdict import Verdict

REPORTED = (("clicks", 0), ("success", SUCCESS), ("reciprocal_rank", 2), ("abandonment", SUCCESS), ("value", VALUE))
"""The metrics of a verdict, each with the sum it comes from; abandonment is 1 - success."""


class _Means(NamedTuple):
    """The means of an arm, or their differences from another's, with variances and intervals, each (4,)."""

    variances: Floats
    intervals: Intervals


def judge_arms(arms: Mapping[str, ArmSums], rules: Rules, action: str = "click") -> ArmVerdict:
    """Return the verdict of an A/B test between arms with at least two units each; others are left out."""
    kept = {arm: sums for arm, sums in arms.items() if sums.units > 1}
    if not kept:
        raise TallyError("No arm has two units, so there is no A/B verdict yet. Add pages of more units.")
    control = _control(kept, rules.control)
    names = [control, *(arm for arm in kept if arm != control)]
    own = {arm: _own(kept[arm], rules) for arm in names}
    apart = {arm: _apart(kept[arm], kept[control], rules) for arm in names[1:]}
    p = np.array([apart[arm].intervals.p for arm in names[1:]]).reshape(len(apart), len(METRICS))
    corrected = np.array([CORRECTIONS[rules.correction](column) for column in p.T]).T
    metrics = []
    for metric, place in REPORTED:
        if place == VALUE and not any(sums.squares[VALUE] for sums in kept.values()):
            continue
        flipped = metric == "abandonment"
        levels = {arm: _level(own[arm].intervals, place, flipped) for arm in names}
        found = [ArmEstimate(control, *levels[control])]
        for arm, adjusted in zip(names[1:], corrected[:, place], strict=True):
            _, less, more = ends = _level(apart[arm].intervals, place, flipped, whole=0.0)
            error = math.sqrt(float(apart[arm].variances[place]))
            both = _shares(kept[arm], kept[control], place) * ((more - less) / 2.0) ** 2
            found.append(
                ArmEstimate(
                    arm,
                    *levels[arm],
                    *ends,
                    error,
                    *lift(levels[arm][0], levels[control][0], both, 1.0, counts=place != VALUE),
                    p=float(apart[arm].intervals.p[place]),
                    p_corrected=float(adjusted),
                    significant=bool(adjusted <= 1.0 - rules.confidence),
                )
            )
        metrics.append(ArmMetric(metric, tuple(found)))
    sizes = tuple(
        ArmSize(arm, kept[arm].impressions, kept[arm].units, kept[arm].active, kept[arm].missing) for arm in names
    )
    return ArmVerdict(control, action, rules.confidence, rules.interval == "anytime", sizes, tuple(metrics))


def agreements(verdict: Verdict, arms: ArmVerdict) -> tuple[Agreement, ...]:
    """Return what interleaving and the A/B test say about each ranker with an arm, by the first metric."""
    found = []
    for estimate in arms.metrics[0].arms:
        if estimate.difference is None or not {estimate.arm, arms.control} <= set(verdict.rankers):
            continue
        pair = next(pair for pair in verdict.pairs if set(pair.rankers) == {estimate.arm, arms.control})
        preference = pair.preference if pair.rankers[0] == estimate.arm else -pair.preference
        both = pair.significant and estimate.significant
        same = bool(both and (preference > 0.0) == (estimate.difference > 0.0))
        found.append(
            Agreement(
                estimate.arm,
                arms.control,
                arms.metrics[0].metric,
                preference,
                pair.significant,
                estimate.difference,
                estimate.significant,
                same if both else None,
            )
        )
    return tuple(found)


def _control(arms: Mapping[str, ArmSums], wanted: str | None) -> str:
    """Return the arm that others are compared with: the control if it has one, or else the first."""
    if wanted is not None and wanted not in arms:
        raise TallyError(
            f"The control is {wanted!r}; expected an arm with at least two units, one of {', '.join(arms)}."
            f"{nearest(wanted, list(arms))}"
        )
    return next(iter(arms)) if wanted is None else wanted


def _own(sums: ArmSums, rules: Rules) -> _Means:
    """Return the means of an arm with their intervals."""
    correction = sums.units / (sums.units - 1)
    return _means([sums], sums.means, sums.deviations / sums.impressions**2 * correction, sums.variances, rules)


def _apart(sums: ArmSums, base: ArmSums, rules: Rules) -> _Means:
    """Return the differences from the control's arm with their intervals."""
    units, n = sums.units + base.units, sums.impressions + base.impressions
    correction = units / (units - 1) * (n - 1) / (n - 2)
    variances = correction * (sums.deviations / sums.impressions**2 + base.deviations / base.impressions**2)
    single = sums.variances * (n / sums.impressions) + base.variances * (n / base.impressions)
    return _means([sums, base], sums.means - base.means, variances, single, rules)


def _shares(sums: ArmSums, base: ArmSums, place: int) -> Floats:
    """Return how much of the variance of a difference is each arm's, as a diagonal; halves if there is no variance.

    The interval of the lift is made from that of the difference, so that either excludes 0 if the other does.
    """
    parts = np.array([one.deviations[place] / one.impressions**2 for one in (sums, base)])
    total = float(parts.sum())
    return np.diag(parts / total if total > 0.0 else np.full(2, 0.5))


def _means(arms: list[ArmSums], means: Floats, variances: Floats, single: Floats, rules: Rules) -> _Means:
    """Return intervals of means over the impressions of arms; single: the variance of one impression's share."""
    units, n = sum(sums.units for sums in arms), sum(sums.impressions for sums in arms)
    if rules.interval == "anytime":
        none = np.zeros(len(means), dtype=np.int64)
        effective = n**2 / sum(float(sums.products[-1, -1]) for sums in arms)
        active = np.full(len(means), max(float(sum(sums.active for sums in arms)), 1.0))
        squares = n * (single + means**2)
        moments = Moments(n, units, effective, means * n, variances * n**2, squares, none, none, active)
        return _Means(variances, anytime(moments, rules.confidence))
    errors, freedom = np.sqrt(variances), units - 1.0
    alike = (variances == 0.0) & (means != 0.0)
    if alike.any() and len(arms) > 1:
        errors[alike] = np.abs(means[alike]) / t_quantile(_separation(units, arms[0].units) / 2.0, freedom)
    statistics = np.zeros_like(means)
    np.divide(np.abs(means), errors, out=statistics, where=errors > 0.0)
    p = np.minimum(2.0 * t_tail(statistics, freedom), 1.0)
    multipliers = np.full(len(means), float(t_quantile((1.0 - rules.confidence) / 2.0, freedom)))
    half = multipliers * errors
    return _Means(variances, Intervals(means, means - half, means + half, p, multipliers))


def _separation(units: int, some: int) -> float:
    """Return how often a random assignment separates two kinds of units, 2 / C(units, some), at most just below 1."""
    log = math.lgamma(units + 1) - math.lgamma(some + 1) - math.lgamma(units - some + 1)
    return min(2.0 * math.exp(-log), 0.999)


def _level(intervals: Intervals, place: int, flipped: bool, whole: float = 1.0) -> tuple[float, float, float]:
    """Return a mean and its interval; flipped: of what is missing to the whole."""
    mean, low, high = (float(column[place]) for column in intervals[:3])
    return (whole - mean, whole - high, whole - low) if flipped else (mean, low, high)
