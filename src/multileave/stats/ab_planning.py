"""What an A/B test on clicks would take, from the tally of a pilot that interleaved.

An A/B test of R rankers shows each of them to one in R units. If a unit's clicks per page vary as much on a ranker's
own pages as they did on combined ones, with standard error D / sqrt(U) for the mean of U units, then the difference
between two arms of U / R units has the standard error D sqrt(2 R) / sqrt(U): a `Design` like any other.

The difference to detect is that of the rates that the tally estimates for each ranker alone, or a given lift.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from multileave.errors import TallyError
from multileave.stats.planning import Design, Plan, plan, with_range
from multileave.stats.rates.estimating import adjusted
from multileave.stats.verdict.rules import is_number

if TYPE_CHECKING:
    from multileave.stats.tally.tally import Tally


def plan_ab(tally: "Tally", n: int, m: int, lift: float | None = None, **options: Any) -> Plan | None:
    """Return what an A/B test on clicks takes to compare rankers n and m of a tally.

    None if the tally does not know the clicks of its units, or neither has rates nor is given a lift, or an A/B test
    would take more units than anyone has. options: of `plan`.
    """
    clicks = click_design(tally)
    if clicks is None:
        return None
    mean, design = clicks
    error = 0.0
    if lift is not None:
        if not is_number(lift) or lift == 0.0:
            raise TallyError(f"The lift is {lift!r}; expected a number other than 0, such as 0.02 for 2 %.")
        difference = lift * mean
    else:
        sums = tally.rate_sums()
        if sums.units < 2:
            return None
        totals, covariance, _ = adjusted(sums, "doubly robust")
        difference = float(totals[n] - totals[m]) / sums.impressions
        spread = covariance[n, n] - 2.0 * covariance[n, m] + covariance[m, m]
        error = math.sqrt(max(float(spread), 0.0)) / sums.impressions
    try:
        made = plan(design, difference, **options)
    except TallyError:
        return None
    return with_range(made, error) if lift is None else made


def click_design(tally: "Tally") -> tuple[float, Design] | None:
    """Return the mean clicks per impression, and what one more unit contributes to an A/B test of all rankers on them.

    None if clicks are not known by unit, or do not vary.
    """
    counts, clicks = tally.clicks_by_unit()
    units, impressions = len(counts), int(counts.sum())
    if units < 2 or not clicks.any():
        return None
    mean = float(clicks.sum()) / impressions
    left = clicks - mean * counts
    deviation = math.sqrt(units * units / (units - 1) * float((left * left).sum())) / impressions
    if deviation == 0.0:
        return None
    visits, effective = impressions / units, impressions**2 / float((counts.astype(np.float64) ** 2).sum()) / units
    return mean, Design(deviation * math.sqrt(2 * len(tally.rankers)), visits, visits, effective)
