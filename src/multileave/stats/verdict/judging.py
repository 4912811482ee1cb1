"""Judging: from a tally, or one per segment, to verdicts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from multileave.errors import TallyError, nearest
from multileave.outcome import Floats
from multileave.stats.health import examine
from multileave.stats.intervals.clustered import Intervals, clustered, wilson
from multileave.stats.intervals.confidence_sequence import anytime, boundary
from multileave.stats.intervals.corrections import CORRECTIONS
from multileave.stats.intervals.crosschecks import bootstrap, sign_test
from multileave.stats.intervals.group_sequential import scheduled
from multileave.stats.intervals.max_t import MaxT, max_t
from multileave.stats.intervals.moments import Moments, pair_positions
from multileave.stats.intervals.sign_flips import exact_for_few
from multileave.stats.planning import one_error, units_to_decide
from multileave.stats.rates.estimating import estimate
from multileave.stats.tally.base import BaseTally
from multileave.stats.tally.weighting import WeightedTally, Weighting
from multileave.stats.verdict.rules import Rules
from multileave.stats.verdict.verdict import PairVerdict, Verdict

TESTS = {"clustered": "t", "anytime": "confidence sequence", "scheduled": "group sequential", "bootstrap": "bootstrap"}
EXACT = "sign flips"
IN_SIGHT = 100  # times the current units; beyond that, `more_units` is None


def judge(tally: BaseTally, rules: Rules) -> Verdict:
    """Return the verdict on one tally."""
    return judge_segments({"": tally}, rules)[""]


def judge_segments(tallies: Mapping[str, BaseTally], rules: Rules) -> dict[str, Verdict]:
    """Return a verdict for each tally, corrected for the pairs of all of them."""
    found: dict[str, tuple[Moments, Intervals]] = {}
    exact: dict[str, Mapping[int, Floats]] = {}
    correct = CORRECTIONS[rules.correction]
    weighted = {name: _weighted(tally, rules) for name, tally in tallies.items()}
    comparisons = sum(len(pair_positions(len(tally.rankers))[0]) for tally in tallies.values())
    level = rules.level(comparisons)
    for name, tally in weighted.items():
        moments = tally.moments()
        few = {} if rules.interval == "anytime" else tally.few_sums(moments)
        exact[name] = few if rules.one_look else {}
        compared = _compared(tallies[name], moments, rules.dropped)
        found[name] = moments, _intervals(tally, compared, few, rules, comparisons, level)
    corrected = _corrected(correct, [intervals.p for _, intervals in found.values()])
    joint = _max_t(list(weighted.values()), [one.p for _, one in found.values()], rules, exact=any(exact.values()))
    if joint is not None:
        corrected = np.split(joint.p, np.cumsum([tally.pairs for tally in weighted.values()])[:-1])
        if rules.simultaneous:
            from scipy.special import ndtr

            level = 1.0 - 2.0 * float(ndtr(-joint.critical))
            found = {name: (moments, clustered(moments, level)) for name, (moments, _) in found.items()}
    rules = replace(rules, correction="holm") if rules.correction == "max-t" and joint is None else rules
    signs = [sign_test(moments.wins, moments.losses) for moments, _ in found.values()]
    signs_corrected = _corrected(correct, signs)
    verdicts = {}
    for at, (name, (moments, intervals)) in enumerate(found.items()):
        tests = [EXACT if pair in exact[name] else TESTS[rules.interval] for pair in range(len(intervals.p))]
        columns = {"p_corrected": corrected[at], "test": np.array(tests)}
        if rules.one_look:
            columns |= {"sign_p": signs[at], "sign_p_corrected": signs_corrected[at]}
        verdicts[name] = _verdict(tallies[name], moments, intervals, columns, rules, level)
    return verdicts


def _weighted(tally: BaseTally, rules: Rules) -> BaseTally:
    """Return the tally with its units weighted as the rules say."""
    tally.check_units("a verdict")
    if rules.weighting == Weighting():
        return tally
    weighted = WeightedTally(tally, rules.weighting)
    if weighted.units < 2:
        raise TallyError(
            f"With cap={rules.cap}, {weighted.units} of {tally.units:,} units are left; a verdict needs two. Choose a "
            "larger cap."
        )
    return weighted


def _max_t(tallies: Sequence[BaseTally], p: Sequence[Floats], rules: Rules, *, exact: bool) -> MaxT | None:
    """Return p-values corrected by max-t, None if the rules do not ask for it or the pairs' joint law is not known.

    exact: whether some pair was tested exactly, which has no joint law with the others.
    """
    if rules.correction != "max-t" or rules.interval != "clustered" or exact:
        return None
    known = [dependence for tally in tallies if (dependence := tally.dependence()) is not None]
    if len(known) < len(tallies):
        return None
    return max_t(np.concatenate(p), known, rules.confidence, seed=rules.seed)


def _corrected(correct: Callable[[Floats], Floats], p: Sequence[Floats]) -> list[Floats]:
    """Return the p-values of several tallies, corrected for all of them."""
    return np.split(correct(np.concatenate(p)), np.cumsum([len(part) for part in p])[:-1])


def _compared(tally: BaseTally, moments: Moments, dropped: Sequence[str]) -> Moments:
    """Return the moments with the impressions that each pair took part in, (P,), if rankers were dropped."""
    if not dropped:
        return moments
    for name in dropped:
        if name not in tally.rankers:
            known = ", ".join(tally.rankers)
            raise TallyError(f"{name!r} was dropped, but the tally compares {known}.{nearest(name, tally.rankers)}")
    gone = np.array([name in dropped for name in tally.rankers])
    first, second = pair_positions(len(tally.rankers))
    absent = np.where(gone, tally.evidence.missing, 0) * (moments.impressions / tally.impressions)
    taken = np.maximum(moments.impressions - np.maximum(absent[first], absent[second]), 1)
    return moments._replace(impressions=taken)


def _intervals(
    tally: BaseTally, moments: Moments, few: Mapping[int, Floats], rules: Rules, comparisons: int, level: float
) -> Intervals:
    if rules.interval == "anytime":
        return anytime(moments, level, rules.tuned_for)
    if rules.interval == "scheduled":
        return scheduled(moments, level, rules.fractions[: rules.look], rules.spending, few)
    if rules.interval == "clustered":
        return exact_for_few(clustered(moments, level), few, level)
    # If all pairs have the smallest p-value, it is multiplied by this.
    factor = float(CORRECTIONS[rules.correction](np.full(comparisons, 1e-12)).min()) / 1e-12
    smallest = (1.0 - rules.confidence) / factor
    if 1.0 / (rules.replicates + 1) > smallest:
        raise TallyError(
            f"With replicates={rules.replicates} no p-value can be below {1 / (rules.replicates + 1):.2g}, but "
            f"{comparisons} comparisons at confidence {rules.confidence:g} need {smallest:.2g}. Use "
            f"replicates={int(np.ceil(10.0 / smallest))} or more."
        )
    drawn = bootstrap(
        tally.unit_blocks(), moments, level, replicates=rules.replicates, rng=np.random.default_rng(rules.seed)
    )
    return exact_for_few(drawn, few, level)


def _verdict(
    tally: BaseTally,
    moments: Moments,
    intervals: Intervals,
    tests: Mapping[str, "np.ndarray[Any, Any]"],
    rules: Rules,
    level: float,
) -> Verdict:
    """Return the verdict on one tally; every column holds a field of `PairVerdict`, a value per pair.

    tests: columns that were corrected for the pairs of all tallies.
    """
    multipliers = intervals.multipliers
    if rules.interval == "anytime":
        units = np.full_like(multipliers, float(moments.units))
        multipliers = boundary(units, 1.0 - level)
    shares, share_lows, share_highs = wilson(moments.wins, moments.losses, moments.units, multipliers)
    alpha, p_corrected = 1.0 - rules.confidence, tests["p_corrected"]
    open_pairs = max(int((p_corrected > alpha).sum()), 1) if rules.correction in ("holm", "max-t") else 1
    first, second = pair_positions(len(tally.rankers))
    error = one_error(moments)
    needed = {
        name: units_to_decide(moments, rules, open_pairs, errors)
        for name, errors in (("more_units", 0.0), ("more_units_low", error), ("more_units_high", -error))
    }
    columns = {
        "preference": intervals.means, "low": intervals.lows, "high": intervals.highs, "p": intervals.p,
        "significant": p_corrected <= alpha, "share": shares, "share_low": share_lows, "share_high": share_highs,
        "evidence": moments.carriers, **tests,
    }  # fmt: skip
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    pairs = []
    for at, (n, m, row) in enumerate(zip(first.tolist(), second.tolist(), rows, strict=True)):
        found = dict(zip(columns, row, strict=True))
        for name, units_needed in needed.items():
            in_sight = not found["significant"] and units_needed[at] <= IN_SIGHT * moments.units
            in_sight &= not {tally.rankers[n], tally.rankers[m]} & set(rules.dropped)
            found[name] = max(round(float(units_needed[at])) - moments.units, 1) if in_sight else None
        pairs.append(PairVerdict((tally.rankers[n], tally.rankers[m]), **found))
    health = examine(tally, moments, rules.dropped, limit=rules.weighting.limit)
    impressions = tally.impressions - tally.over(rules.cap)[1]
    rates = estimate(tally.rate_sums(rules.weighting), tally.rankers, rules)
    return Verdict(
        tally.rankers, impressions, moments.units, rules.confidence, tuple(pairs), rules, health, rates
    )  # fmt: skip
