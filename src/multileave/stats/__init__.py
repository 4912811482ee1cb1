"""From outcomes to a decision: tally, intervals, verdict, plan.

Level by level: `moments`, `intervals`, `sequence`, `crosschecks`, `corrections` are formulas on arrays;
`units`, `singles`, `balance`, `evidence` are what a `tally` holds; `judging` makes a `verdict` of it, with
`health`, `ranking`, `strengths`, `segments` and `planning` beside; `wording`, `page`, `plots` show it.
"""

from multileave.stats.health import Health
from multileave.stats.planning import Design, Plan, plan
from multileave.stats.tally.tally import Tally
from multileave.stats.verdict.rules import Rules
from multileave.stats.verdict.segments import SegmentedTally, SegmentedVerdict
from multileave.stats.verdict.strengths import Strength, Strengths
from multileave.stats.verdict.verdict import PairVerdict, Verdict

__all__ = [
    "Design",
    "Health",
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
]
