"""From outcomes to a decision.

tally/        sums of outcomes by unit: `Tally` with a row per unit, `GroupedTally` for stores that keep the rows
intervals/    formulas on arrays: intervals for one look and for any number of looks, corrections, cross-checks
verdict/      `judging` turns a tally into a `Verdict`; `wording`, `html` show it; `segments`, `strengths`
health        whether the data can be trusted; `balance` checks that rankers are shown as often as they should be
planning      how many users it takes to detect a difference
plots         verdicts and plans as figures
records       dataclasses from whose fields JSON and tables follow
"""

from multileave.stats.health import Health
from multileave.stats.planning import Design, Plan, plan, plan_pairs
from multileave.stats.tally.tally import Tally
from multileave.stats.verdict.interactions import Interaction
from multileave.stats.verdict.rules import Rules
from multileave.stats.verdict.segments import SegmentedTally, SegmentedVerdict
from multileave.stats.verdict.strengths import Strength, Strengths
from multileave.stats.verdict.verdict import PairVerdict, Verdict

__all__ = [
    "Design",
    "Health",
    "Interaction",
    "PairVerdict",
    "Plan",
    "Rules",
    "SegmentedTally",
    "SegmentedVerdict",
    "Strength",
    "Strengths",
    "Tally",
    "Verdict",
    "plan",
    "plan_pairs",
]
