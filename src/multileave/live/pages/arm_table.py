"""The table of arms: what an A/B test between them says, and whether the comparison agrees."""

from dataclasses import dataclass

from multileave.live.verdicts.report import Report
from multileave.stats.arms.wording import LABELS, ArmCells, agreement_words, arm_cells


@dataclass(frozen=True)
class ArmRow:
    """An arm's estimate of a metric. significant: whether it differs significantly from the control's arm."""

    arm: str
    cells: ArmCells
    significant: bool


@dataclass(frozen=True)
class ArmTable:
    """The arms of an experiment.

    sizes: the impressions and units of each arm that has some. metrics: the label and rows of each metric; empty if
    there is no verdict yet. notes: sentences, such as whether the comparison agrees.
    """

    control: str
    sizes: tuple[tuple[str, int, int], ...]
    metrics: tuple[tuple[str, tuple[ArmRow, ...]], ...]
    notes: tuple[str, ...]


def arm_table(report: Report) -> ArmTable | None:
    """Return the table of an experiment's arms, None if it never had any."""
    experiment, verdict = report.experiment, report.arms
    if not experiment.arm_slices:
        return None
    sums = report.arm_sums.get(report.action, {})
    sizes = tuple((arm, one.impressions, one.units) for arm, one in sums.items() if one.impressions)
    notes = [agreement_words(one) for one in report.agreements]
    notes += [
        f"{arm} returned nothing for {one.missing:,} of its {one.impressions:,} pages; these count for its arm with "
        "the list shown instead."
        for arm, one in sums.items()
        if one.missing
    ]
    notes += [
        f"The arm of {drop.ranker} was closed when {drop.ranker} was dropped, so it lacks what came later."
        for drop in experiment.drops
        if drop.ranker in experiment.definition.arms
    ]
    if verdict is None:
        return ArmTable(experiment.definition.control, sizes, (), tuple(notes))
    metrics = tuple(
        (LABELS[metric.metric], tuple(ArmRow(one.arm, arm_cells(one), one.significant) for one in metric.arms))
        for metric in verdict.metrics
    )
    return ArmTable(verdict.control, sizes, metrics, tuple(notes))
