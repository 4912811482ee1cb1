"""Wording: an A/B verdict as lines of plain text, for reports and the dashboard."""

from typing import NamedTuple

from multileave.stats.arms.records import Agreement, ArmEstimate, ArmVerdict
from multileave.stats.verdict.numbers import decimals_of, fixed, percent

LABELS = {
    "clicks": "clicks", "success": "pages with a click", "reciprocal_rank": "reciprocal rank of the highest click",
    "abandonment": "pages without a click", "value": "value",
}  # fmt: skip


def lines(verdict: ArmVerdict) -> list[str]:
    """Return a heading for each metric and a line for each arm."""
    found = []
    for metric in verdict.metrics:
        found.append(LABELS[metric.metric])
        found += [f"  {arm.arm}: {arm_words(verdict, arm)}" for arm in metric.arms]
    return found


class ArmCells(NamedTuple):
    """An arm's estimate as texts: its mean, the change from the control, the interval and p; "" where there is none.

    The interval is that of the change, in its unit, or of the mean for the control. p is corrected for the number of
    arms.
    """

    mean: str
    change: str
    interval: str
    p: str


def arm_cells(arm: ArmEstimate) -> ArmCells:
    """Return an estimate as texts; the change is a lift if the control's mean is surely above 0."""
    decimals = decimals_of(arm.low, arm.high)
    mean = fixed(arm.mean, decimals)
    if arm.difference is None or arm.difference_low is None or arm.difference_high is None or arm.p is None:
        return ArmCells(mean, "", f"{fixed(arm.low, decimals)} to {fixed(arm.high, decimals)}", "")
    corrected = arm.p if arm.p_corrected is None else arm.p_corrected
    p = "p < 0.001" if corrected < 0.001 else f"p = {corrected:.3f}"
    if arm.lift is None or arm.lift_low is None or arm.lift_high is None:
        places, unit = decimals_of(arm.difference_low, arm.difference_high), ""
        texts = [fixed(x, places) for x in (arm.difference, arm.difference_low, arm.difference_high)]
    else:
        places, unit = max(decimals_of(100.0 * arm.lift_low, 100.0 * arm.lift_high) - 1, 0), " %"
        texts = [fixed(100.0 * x, places) for x in (arm.lift, arm.lift_low, arm.lift_high)]
    change, low, high = texts
    return ArmCells(mean, f"{'' if change.startswith('-') else '+'}{change}{unit}", f"{low} to {high}", p)


def arm_words(verdict: ArmVerdict, arm: ArmEstimate) -> str:
    """Return "0.43 per page, +6 %, 95 % CI 2 to 10, p = 0.003"; for the control, the interval of its mean."""
    cells = arm_cells(arm)
    interval = f"{percent(verdict.confidence)} CI {cells.interval}"
    p = f"{cells.p}, valid at any time" if cells.p and verdict.anytime else cells.p
    return ", ".join(filter(None, (f"{cells.mean} per page", cells.change, interval, p)))


def agreement_words(one: Agreement) -> str:
    """Return one sentence on whether interleaving and the A/B test agree about a ranker."""
    what = f"{one.ranker} and {one.control}"
    if one.agree is not None:
        return f"Interleaving and the A/B test {'agree' if one.agree else 'disagree'} about {what}."
    open_ = [
        name
        for name, known in (("interleaving", one.preference_significant), ("the A/B test", one.difference_significant))
        if not known
    ]
    return f"No significant difference between {what} yet by {' or '.join(open_)}."
