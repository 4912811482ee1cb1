"""Segment tables: the preference for each ranker over the control, segment by segment."""

from dataclasses import dataclass

from markupsafe import Markup

from multileave.live.pages.impressions import signed
from multileave.live.pages.pairs import PairRow, drawn_rankers, rows_of
from multileave.live.verdicts.segments import SegmentReport
from multileave.stats.verdict.interactions import Interaction


@dataclass(frozen=True)
class SegmentRow:
    """A segment: its size, what it says, and its shrunken estimate, empty if there is none."""

    segment: str
    impressions: int
    units: int
    pair: PairRow
    shrunken: str


@dataclass(frozen=True)
class SegmentTable:
    """A ranker against the control in every segment. p: of the test for one look, empty if there is none."""

    ranker: str
    rows: tuple[SegmentRow, ...]
    axis: Markup
    p: str


def segment_tables(found: SegmentReport) -> list[SegmentTable]:
    """Return a table for each ranker that the experiment's page draws, the most preferred first."""
    if found.verdict is None:
        return []
    control, segments = found.report.experiment.definition.control, found.verdict.segments
    largest = max(segments.values(), key=lambda one: one.impressions)
    interactions = {one.rankers: one for one in found.verdict.interactions}
    tables = []
    for ranker in drawn_rankers(found.report.verdict or largest, control):
        if ranker == control or ranker in largest.dropped:
            continue
        rows, axis = rows_of(largest, [one.pair(ranker, control) for one in segments.values()])
        forwards = (ranker, control) in interactions
        interaction = interactions.get((ranker, control) if forwards else (control, ranker))
        shrunken = {} if interaction is None else interaction.shrunken
        texts = {name: signed(mean if forwards else -mean) for name, mean in shrunken.items()}
        made = tuple(
            SegmentRow(name, one.impressions, one.units, row, texts.get(name, ""))
            for (name, one), row in zip(segments.items(), rows, strict=True)
        )
        tables.append(SegmentTable(ranker, made, axis, "" if interaction is None else _p(interaction)))
    return tables


def _p(interaction: Interaction) -> str:
    p = interaction.p_corrected
    return "" if p is None else "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
