"""Summaries: what all runs of one method say together, and the arithmetic behind it.

Means are sums rounded once, so they do not depend on the order of the runs.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from multileave.stats.intervals.clustered import t_quantile
from multileave.study.power import LEVEL, POWER, impressions_to_verdict, quartiles
from multileave.study.results import RunResult, at_end, gather, main_truth

BASE = "tdm"  # the method with which impressions to a verdict are compared
RANDOM_USERS = ("random", "almost_random")  # in whose clicks a method should find no preference


@dataclass(frozen=True)
class Summary:
    """What all runs of one method say for one data set, user and number of rankers.

    Errors are means over runs after the last impression, with their standard deviations (n - 1; 0 for a single run);
    those against held-out queries, and the floor, are None if no queries were held out. impressions_per_second: of one
    process. For users who click (almost) at random, bias is the mean over runs with its 95 % interval, bias_z the mean
    of the runs' largest |z| over pairs, and bias_found the share of runs whose bias_z exceeds `z_bound`, at most 5 %
    without bias; None for other users. other: mean errors against further truths.

    impressions_to_verdict: median over pairs and runs, and quartiles; see `multileave.study.power`. ratio: to that of
    the base method, median over the same pairs of the same runs, and quartiles. dcg_shown, ndcg_shown: of the pages
    that users saw, mean over runs; ndcg_to_mean and ndcg_to_best: divided by the mean and by the best of the rankers'
    own pages. All are None if infinite or unknown.
    """

    dataset: str
    method: str
    user: str
    rankers: int
    error_heldout: float | None
    error_heldout_sd: float | None
    error_same_queries: float
    error_same_queries_sd: float
    floor: float | None
    runs: int
    impressions: int
    impressions_per_second: float
    bias: float | None = None
    bias_low: float | None = None
    bias_high: float | None = None
    bias_z: float | None = None
    bias_found: float | None = None
    other: dict[str, float] = field(default_factory=dict, hash=False)
    impressions_to_verdict: float | None = None
    impressions_to_verdict_q1: float | None = None
    impressions_to_verdict_q3: float | None = None
    base: str | None = None
    ratio: float | None = None
    ratio_q1: float | None = None
    ratio_q3: float | None = None
    dcg_shown: float | None = None
    ndcg_shown: float | None = None
    ndcg_to_mean: float | None = None
    ndcg_to_best: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain values that JSON can hold."""
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"other": dict(self.other)}


def summarise(
    results: Iterable[RunResult], *, base: str = BASE, power: float = POWER, level: float = LEVEL
) -> list[Summary]:
    """Return one record per data set, user, number of rankers and method.

    base: the method with which impressions to a verdict are compared. power, level: of the verdict.
    """
    groups = gather(results, lambda result: (result.dataset, result.user, result.rankers, result.method))
    return [
        _summary(runs, groups.get((dataset, user, rankers, base), []), power, level)
        for (dataset, user, rankers, _), runs in groups.items()
    ]


def verdicts_of(run: RunResult, power: float = POWER, level: float = LEVEL) -> list[float]:
    """Return the impressions to a verdict on each pair, according to one run; empty if it did not measure them."""
    return [float(n) for n in impressions_to_verdict(run.preferences, run.variances, power=power, level=level)]


def paired_ratios(runs: Iterable[RunResult], base: Iterable[RunResult]) -> list[float]:
    """Return the ratio of impressions to a verdict to those of the base, for every pair of rankers in every run.

    Pairs without a preference in both are left out.
    """
    of_key = {run.key: verdicts_of(run) for run in base}
    both = [
        pair
        for run in runs
        if run.key in of_key
        for pair in zip(verdicts_of(run), of_key[run.key], strict=False)
        if math.isfinite(min(pair))
    ]
    return [ours / theirs if theirs else math.inf for ours, theirs in both]


def pages_of(runs: Sequence[RunResult]) -> dict[str, Any]:
    """Return the fields of a `Summary` about the pages that users saw, if the runs measured them."""
    measured = [run for run in runs if math.isfinite(run.ndcg_shown) and run.ndcg_rankers]
    if not measured:
        return {}
    shown = mean([run.ndcg_shown for run in measured])
    found = {"dcg_shown": mean([run.dcg_shown for run in measured]), "ndcg_shown": shown}
    for name, of_rankers in (("ndcg_to_mean", mean), ("ndcg_to_best", max)):
        own = mean([of_rankers(run.ndcg_rankers) for run in measured])
        if own > 0.0:
            found[name] = shown / own
    return found


def _power_of(runs: Sequence[RunResult], base: Sequence[RunResult], power: float, level: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    needed = [n for run in runs for n in verdicts_of(run, power, level)]
    ratios = paired_ratios(runs, base)
    for name, values in (("impressions_to_verdict", needed), ("ratio", ratios)):
        if values:
            for suffix, value in zip(("", "_q1", "_q3"), quartiles(values), strict=True):
                found[name + suffix] = value if math.isfinite(value) else None
    return found | {"base": base[0].method} if ratios else found


def mean_floor(runs: Iterable[RunResult]) -> float | None:
    """Return the mean floor of some runs, counting each choice of rankers once, or None if there is none."""
    floors = {run.key: run.floor for run in runs}
    known = [floor for floor in floors.values() if floor is not None]
    return mean(known) if len(known) == len(floors) else None


def mean(values: Sequence[float]) -> float:
    """Return the mean, independent of the order of the values and exact if all are equal."""
    return values[0] if min(values) == max(values) else math.fsum(values) / len(values)


def spread(values: Sequence[float]) -> float:
    """Return the standard deviation (n - 1), 0 for a single value.

    >>> spread([1.0, 2.0, 3.0])
    1.0
    """
    centre = mean(values)
    return math.sqrt(math.fsum((x - centre) ** 2 for x in values) / max(len(values) - 1, 1))


def p_value(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the p-value of Welch's two-tailed t-test that two means are equal.

    Without variance there is no t; the p-value is then that of the permutations of the two samples. With a single value
    it is 1.

    >>> round(p_value([0.1, 0.2, 0.3, 0.2], [0.3, 0.4, 0.5, 0.4]), 4)
    0.0134
    """
    from scipy.stats import ttest_ind_from_stats

    if min(len(ours), len(theirs)) < 2:
        return 1.0
    if min(ours) == max(ours) and min(theirs) == max(theirs):
        exact = 2 / math.comb(len(ours) + len(theirs), len(ours))
        return 1.0 if abs(ours[0] - theirs[0]) <= 1e-12 else min(exact, 1.0)
    both = [(mean(values), spread(values), len(values)) for values in (ours, theirs)]
    return float(ttest_ind_from_stats(*both[0], *both[1], equal_var=False).pvalue)


def _summary(runs: list[RunResult], base: list[RunResult], power: float, level: float) -> Summary:
    first = runs[0]
    heldout = [] if main_truth(runs) == "same_queries" else [at_end(run, "heldout") for run in runs]
    same = [at_end(run, "same_queries") for run in runs]
    impressions = first.impressions[-1]
    seconds = math.fsum(run.seconds for run in runs)
    return Summary(
        dataset=first.dataset,
        method=first.method,
        user=first.user,
        rankers=first.rankers,
        error_heldout=mean(heldout) if heldout else None,
        error_heldout_sd=spread(heldout) if heldout else None,
        error_same_queries=mean(same),
        error_same_queries_sd=spread(same),
        floor=mean_floor(runs),
        runs=len(runs),
        impressions=impressions,
        impressions_per_second=impressions * len(runs) / seconds if seconds > 0.0 else 0.0,
        other={
            truth: mean([at_end(run, truth) for run in runs if truth in run.other])
            for truth in dict.fromkeys(name for run in runs for name in run.other)
        },
        **(bias_of(runs) if first.user in RANDOM_USERS else {}),
        **(_power_of(runs, base, power, level) if first.user != "random" else {}),
        **pages_of(runs),
    )


def bias_of(runs: Sequence[RunResult]) -> dict[str, Any]:
    """Return the fields of a `Summary` about bias, if the runs measured it."""
    found: dict[str, Any] = {}
    values = [run.bias for run in runs if math.isfinite(run.bias)]
    if values:
        found["bias"] = mean(values)
    if len(values) > 1:
        half = t_quantile(0.025, len(values) - 1) * spread(values) / math.sqrt(len(values))
        found["bias_low"], found["bias_high"] = found["bias"] - half, found["bias"] + half
    clearest = [run.bias_z for run in runs if math.isfinite(run.bias_z)]
    if clearest:
        found["bias_z"] = mean(clearest)
        found["bias_found"] = sum(z > z_bound(runs[0].rankers) for z in clearest) / len(clearest)
    return found


def z_bound(rankers: int) -> float:
    """Return the bound that the largest |z| over all pairs exceeds in at most 5 % of runs without bias (Bonferroni).

    >>> round(z_bound(2), 2), round(z_bound(15), 2)
    (1.96, 3.49)
    """
    from scipy.special import ndtri

    return -float(ndtri(0.025 / math.comb(rankers, 2)))
