"""Judging: from a tally, or one for each segment, to verdicts."""

from collections.abc import Mapping

import numpy as np

from multileave.errors import TallyError
from multileave.stats.health import Examined, examine
from multileave.stats.intervals.clustered import Intervals, clustered, wilson
from multileave.stats.intervals.confidence_sequence import anytime, boundary
from multileave.stats.intervals.corrections import corrected
from multileave.stats.intervals.crosschecks import bootstrap, sign_test
from multileave.stats.intervals.moments import Moments, pair_positions
from multileave.stats.planning import units_to_decide
from multileave.stats.verdict.rules import Rules
from multileave.stats.verdict.verdict import PairVerdict, Verdict

__all__ = ["judge", "judge_segments"]

IN_SIGHT = 100  # times as many units as there are; what takes more is not promised


def judge(tally: Examined, rules: Rules) -> Verdict:
    """Return the verdict on one tally."""
    return judge_segments({"": tally}, rules)[""]


def judge_segments(tallies: Mapping[str, Examined], rules: Rules) -> dict[str, Verdict]:
    """Return a verdict for each tally; what is significant is corrected over all their pairs."""
    found: dict[str, tuple[Moments, Intervals]] = {}
    for tally in tallies.values():
        tally.check_units("a verdict")
    comparisons = sum(len(pair_positions(len(tally.rankers))[0]) for tally in tallies.values())
    for name, tally in tallies.items():
        moments = tally.moments()
        found[name] = moments, _intervals(tally, moments, rules, comparisons)
    together = corrected(np.concatenate([intervals.p for _, intervals in found.values()]), rules.correction)
    parts = np.split(together, np.cumsum([len(intervals.p) for _, intervals in found.values()])[:-1])
    return {
        name: _verdict(tallies[name], moments, intervals, part, rules, comparisons)
        for (name, (moments, intervals)), part in zip(found.items(), parts, strict=True)
    }


def _intervals(tally: Examined, moments: Moments, rules: Rules, comparisons: int) -> Intervals:
    level = rules.level(comparisons)
    if rules.interval == "anytime":
        return anytime(moments, level, rules.tuned_for)
    if rules.interval == "clustered":
        return clustered(moments, level)
    smallest = (1.0 - rules.confidence) / (comparisons if rules.correction == "holm" else 1)
    if 1.0 / (rules.replicates + 1) > smallest:
        raise TallyError(
            f"replicates is {rules.replicates}, so that no p-value is below {1 / (rules.replicates + 1):.2g}; for "
            f"{comparisons} comparisons at confidence {rules.confidence:g} it must reach {smallest:.2g}. "
            f"Ask for {int(np.ceil(10.0 / smallest))} or more."
        )
    return bootstrap(
        tally.unit_blocks(), moments, level, replicates=rules.replicates, rng=np.random.default_rng(rules.seed)
    )


def _verdict(
    tally: Examined, moments: Moments, intervals: Intervals, p_corrected: np.ndarray, rules: Rules, comparisons: int
) -> Verdict:
    """Put one tally's findings together."""
    multipliers = intervals.multipliers
    if rules.interval == "anytime":
        units = np.full_like(multipliers, float(moments.units))
        multipliers = boundary(units, 1.0 - rules.level(comparisons), rules.tuned_for)
    shares, share_lows, share_highs = wilson(moments.wins, moments.losses, moments.units, multipliers)
    alpha = 1.0 - rules.confidence
    open_pairs = max(int((p_corrected > alpha).sum()), 1) if rules.correction == "holm" else 1
    first, second = pair_positions(len(tally.rankers))
    needed = units_to_decide(moments, rules, open_pairs)
    columns = (
        *intervals[:4], p_corrected, shares, share_lows, share_highs, sign_test(moments.wins, moments.losses)
    )  # fmt: skip
    pairs = []
    rows = zip(first.tolist(), second.tolist(), needed.tolist(), *(column.tolist() for column in columns), strict=True)
    for n, m, units_needed, preference, low, high, p, p_all, share, share_low, share_high, sign_p in rows:
        significant = p_all <= alpha
        in_sight = not significant and units_needed <= IN_SIGHT * moments.units
        pairs.append(
            PairVerdict(
                (tally.rankers[n], tally.rankers[m]), preference, low, high, p, p_all, significant,
                share, share_low, share_high, sign_p, max(round(units_needed) - moments.units, 1) if in_sight else None,
            )
        )  # fmt: skip
    health = examine(tally, moments)
    return Verdict(tally.rankers, moments.impressions, moments.units, rules.confidence, tuple(pairs), rules, health)
