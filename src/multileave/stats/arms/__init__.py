"""Arms: pages of a single ranker, compared as in an A/B test; sums that merge, and a verdict on each metric."""

from multileave.stats.arms.records import Agreement, ArmEstimate, ArmMetric, ArmVerdict
from multileave.stats.arms.tally import ArmTally

__all__ = ["Agreement", "ArmEstimate", "ArmMetric", "ArmTally", "ArmVerdict"]
