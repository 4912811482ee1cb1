"""The verdict of an A/B test between arms, as records."""

from collections.abc import Sequence
from typing import TypeVar

from multileave.errors import TallyError, nearest
from multileave.stats.records import Record, about

T = TypeVar("T")


class ArmEstimate(Record):
    """An arm's mean of a metric, and how that compares with the control's arm."""

    arm: str = about("The arm: the ranker whose pages its users saw.")
    mean: float = about("Mean per page.")
    low: float = about("Lower end of its confidence interval.")
    high: float = about("Upper end of its confidence interval.")
    difference: float | None = about("Mean minus the control's; None for the control.", default=None)
    difference_low: float | None = about("Lower end of the difference's confidence interval.", default=None)
    difference_high: float | None = about("Upper end of the difference's confidence interval.", default=None)
    error: float | None = about("Cluster-robust standard error of the difference.", default=None)
    lift: float | None = about("The difference relative to the control's mean, 0.06 for +6 %.", default=None)
    lift_low: float | None = about(
        "Lower end of the lift's confidence interval; None if the control's mean could be 0.", default=None
    )
    lift_high: float | None = about("Upper end of the lift's confidence interval.", default=None)
    p: float | None = about("Two-sided p-value against no difference.", default=None)
    p_corrected: float | None = about("The p-value corrected for the number of arms, not of metrics.", default=None)
    significant: bool = about("Whether p_corrected is at most 1 - confidence.", default=False)


class ArmMetric(Record):
    """The arms compared by one metric."""

    metric: str = about("clicks, success, reciprocal_rank, abandonment or value, each per page.")
    arms: tuple[ArmEstimate, ...] = about("An estimate for each arm.")

    def __getitem__(self, arm: str) -> ArmEstimate:
        return _named(arm, [one.arm for one in self.arms], self.arms, "arm")


class ArmSize(Record):
    """How much an arm has recorded."""

    arm: str = about("The arm.")
    impressions: int = about("Number of its impressions.")
    units: int = about("Number of its units.")
    active_units: int = about("Units with at least one click.")
    missing: int = about("Impressions in which the ranker returned nothing; they count with the list shown instead.")


class ArmVerdict(Record):
    """The verdict of an A/B test between arms; `str()` is a line for each arm and metric."""

    control: str = about("The arm that others are compared with.")
    action: str = about("The action that counts as a click.")
    confidence: float = about("Confidence level of the intervals.")
    anytime: bool = about("Whether intervals and p-values are valid at any time.")
    sizes: tuple[ArmSize, ...] = about("How much each arm has recorded.")
    metrics: tuple[ArmMetric, ...] = about("The comparison by each metric; the first is the primary one.")

    def __getitem__(self, metric: str) -> ArmMetric:
        return _named(metric, [one.metric for one in self.metrics], self.metrics, "metric")

    def __str__(self) -> str:
        from multileave.stats.arms.wording import lines

        return "\n".join(lines(self))


class Agreement(Record):
    """What interleaving and the A/B test say about one ranker and the control."""

    ranker: str = about("The ranker.")
    control: str = about("The ranker it is compared with.")
    metric: str = about("The metric of the A/B test.")
    preference: float = about("Preference for the ranker over the control by interleaving, per impression.")
    preference_significant: bool = about("Whether that preference is significant.")
    difference: float = about("Difference between the arms.")
    difference_significant: bool = about("Whether that difference is significant.")
    agree: bool | None = about("Whether both are significant and in the same direction; None unless both are.")


def _named(wanted: str, names: Sequence[str], found: Sequence[T], what: str) -> T:
    if wanted not in names:
        raise TallyError(
            f"There is no {what} {wanted!r} in this verdict; expected one of {', '.join(names)}."
            f"{nearest(wanted, names)}"
        )
    return found[names.index(wanted)]
