"""Segments: the verdict in each segment of an experiment's traffic, computed when it is asked for.

What every impression contributed to the tallies is stored with it, so nothing is inferred again: its segment's and
unit's sums are added up. That takes time in proportion to the impressions, so there is a limit to them, and a worker
computes one result at a time. Impressions past their retention are in the verdict of all traffic, but in no segment.
"""

import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from multileave.live.errors import Conflict, Unavailable
from multileave.live.experiment import Experiment
from multileave.live.store.database import Store
from multileave.live.store.impressions import load_counted, segment_sizes
from multileave.live.verdicts.report import Report
from multileave.live.verdicts.stored_tallies import rules_of
from multileave.outcome import Floats
from multileave.stats import Rules, SegmentedTally, SegmentedVerdict, Tally
from multileave.stats.tally.grouped_tally import ZERO
from multileave.stats.verdict.interactions import find_interactions
from multileave.stats.verdict.segments import NO_SEGMENT

MOST_IMPRESSIONS = 1_000_000
MOST_SEGMENTS = 20
OTHER = "other"  # all segments but the largest


@dataclass(frozen=True)
class SegmentReport:
    """What an experiment says about an action in each segment.

    verdict: None if no impression has a segment, or no segment has two units. Its verdicts are valid at any time, but
    the tests among its interactions are for one look; there are none after a ranker was dropped, and no interactions
    if the experiment weights its units.
    impressions: how many were counted. merged: how many small segments are together in `other`.
    """

    report: Report
    verdict: SegmentedVerdict | None
    impressions: int
    merged: int


class Segments:
    """Computes segments, one result at a time. seconds: how long a request waits for another to be done."""

    def __init__(self, store: Store, seconds: float) -> None:
        self._store, self._seconds = store, seconds
        self._computing = threading.Lock()

    def of(self, report: Report) -> SegmentReport:
        """Return the segments of an experiment whose tallies are up to date."""
        if not self._computing.acquire(timeout=self._seconds):
            raise Unavailable("The segments of another experiment are being computed. Try again in a few seconds.")
        try:
            return self._compute(report)
        finally:
            self._computing.release()

    def _compute(self, report: Report) -> SegmentReport:
        experiment, number = report.experiment, report.experiment.number
        total, segments, largest = segment_sizes(self._store, number, MOST_SEGMENTS + 1)
        if total > MOST_IMPRESSIONS:
            raise Conflict(
                f"Experiment {number} has {total:,} impressions; segments are computed from at most "
                f"{MOST_IMPRESSIONS:,}. Export it and run: multileave replay --segment segment"
            )
        merged = 0
        if segments > MOST_SEGMENTS:
            largest, merged = largest[:MOST_SEGMENTS], segments - MOST_SEGMENTS
        if not set(largest) - {None}:
            return SegmentReport(report, None, total, merged)
        batches = load_counted(self._store, number, payload=bool(experiment.dropped))
        tally = tally_of(batches, experiment, report.action, largest)
        return SegmentReport(report, judged(tally, experiment), total, merged)


def tally_of(
    batches: Iterable[Sequence[Any]], experiment: Experiment, action: str, largest: Sequence[str | None]
) -> SegmentedTally:
    """Return the tally by segment of counted impressions; all segments but the largest are one."""
    names = {segment: NO_SEGMENT if segment is None else segment for segment in largest}
    sums = {name: _Sums(experiment, action) for name in (*names.values(), OTHER)}
    for rows in batches:
        parts: dict[str, list[Any]] = {}
        for row in rows:
            parts.setdefault(names.get(row.segment, OTHER), []).append(row)
        for name, part in parts.items():
            sums[name].add(part)
    tally = SegmentedTally(experiment.definition.rankers, "segment")
    tally.tallies = {name: one.tally() for name, one in sums.items() if one.units}
    return tally


def judged(tally: SegmentedTally, experiment: Experiment) -> SegmentedVerdict | None:
    """Return verdicts that are valid at any time, with tests for one look; None if no segment has two units."""
    definition = experiment.definition
    # Looks may be scheduled for all traffic, but no segment was stored as it was then.
    rules = rules_of(replace(experiment, definition=replace(definition, looks=())))
    few = {name for name, one in tally.tallies.items() if one.units - one.over(rules.cap)[0] < 2}
    tally.tallies = {name: one for name, one in tally.tallies.items() if name not in few}
    if not tally.tallies:
        return None
    found = tally.judged(rules)
    interactions = found.interactions  # without tests
    if experiment.dropped:  # depending on the data, which no test for one look allows
        interactions = tuple(one for one in interactions if not {*one.rankers} & {*experiment.dropped})
    elif interactions:
        interactions = find_interactions(tally.tallies, Rules(definition.confidence))
    return replace(found, interactions=interactions, left_out=tuple(sorted(few)))


class _Sums:
    """The sums of a segment's units."""

    def __init__(self, experiment: Experiment, action: str) -> None:
        definition, self._drops = experiment.definition, bool(experiment.dropped)
        self._rankers, self._actions = definition.rankers, len(definition.actions)
        self._place = definition.actions.index(action)
        self._end = 1 + len(self._rankers) * (len(self._rankers) - 1) // 2
        self.units: dict[str, int] = {}
        self._impressions = np.zeros(0, dtype=np.int64)
        self._sums: Floats = np.zeros((0, self._end))
        self._squares: Floats = np.zeros(self._end - 1)
        self._missing = np.zeros(len(self._rankers), dtype=np.int64)
        self._clicked = 0

    def add(self, rows: Sequence[Any]) -> None:
        """Add impressions: their units, and what they contributed, None without clicks."""
        units = self.units
        places = np.array([units.setdefault(row.unit, len(units)) for row in rows])
        self._grow()
        np.add.at(self._impressions, places, 1)
        if self._drops:  # the verdict must know which impressions lack a ranker
            self._missing += (np.array([json.loads(row.payload)["lengths"] for row in rows]) == 0).sum(axis=0)
        counted = [row.counted for row in rows if row.counted is not None]
        if not counted:
            return
        clicked = places[[row.counted is not None for row in rows]]
        found = np.frombuffer(b"".join(counted)).reshape(len(counted), self._actions, -1)
        values = found[:, self._place, : self._end]  # clicks and preferences; rates may follow
        np.add.at(self._sums, clicked, values)
        self._squares += (values[:, 1:] ** 2).sum(axis=0)
        self._clicked += int((values[:, 0] > 0).sum())

    def tally(self) -> Tally:
        """Return the tally."""
        used, impressions = len(self.units), int(self._impressions.sum())
        sums = self._sums[:used]
        tally = Tally.from_sums(
            self._rankers,
            list(self.units),
            self._impressions[:used],
            np.where(np.abs(sums[:, 1:]) <= ZERO, 0.0, sums[:, 1:]),
            self._squares,
            sums_of="pairs",
            clicks=sums[:, 0].astype(np.int64),
        )
        tally.evidence.clicks_known, tally.evidence.without_clicks = impressions, impressions - self._clicked
        tally.evidence.missing = self._missing
        return tally

    def _grow(self) -> None:
        more = len(self.units) - len(self._impressions)
        if more > 0:
            more += len(self.units) // 2
            self._impressions = np.concatenate([self._impressions, np.zeros(more, dtype=np.int64)])
            self._sums = np.concatenate([self._sums, np.zeros((more, self._end))])
