"""From outcomes to a decision: tally, intervals, verdict."""

from multileave.stats.tally import Tally
from multileave.stats.verdict import PairVerdict, Verdict

__all__ = ["PairVerdict", "Tally", "Verdict"]
