"""Rows of arms, the pages of a single ranker: their metrics, and the sums of these by unit."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multileave.kernels import kernel
from multileave.outcome import Floats
from multileave.replay.inferring.checking import check_batch
from multileave.replay.inferring.events import EVENTS, Actions, Array, Events, count_events
from multileave.replay.inferring.unit_ids import UnitIds, with_room
from multileave.stats.arms.metrics import METRICS
from multileave.stats.arms.sums import ArmSums


@dataclass(frozen=True, eq=False)
class ArmPages:
    """The metrics (n, A, 4) of n rows of one arm, by A actions, as `page_metrics` says.

    missing: bool (n,), whether the ranker returned nothing. reasons: uint8 (n,), into `checking.REASONS`.
    events: int64 (4,), by `EVENTS`.
    """

    metrics: Floats
    missing: Array
    reasons: Array
    events: Array

    def some(self, rows: Array) -> "ArmPages":
        """Return those of some rows; counts over all rows stay."""
        return replace(
            self, metrics=self.metrics[rows], missing=self.missing[rows], reasons=self.reasons[rows]
        )  # fmt: skip


def read_pages(batch: pa.RecordBatch, rows: Array, events: Events, actions: Actions) -> ArmPages:
    """Return the metrics of the rows of a batch (int64 positions) that are pages of one arm."""
    checked = check_batch(batch, rows, 1, (0, 1))
    found = ArmPages(
        np.zeros((len(rows), len(actions.names), len(METRICS))),
        np.zeros(len(rows), dtype=bool),
        checked.reasons,
        np.zeros(len(EVENTS), dtype=np.int64),
    )
    most = checked.most + int(np.diff(checked.pinned[0]).max(initial=0))
    measure_rows(
        checked.pages,
        checked.lengths,
        checked.pinned,
        events.arrays,
        events.values,
        (np.empty(most, dtype=np.uint8), np.empty(most)),
        (found.metrics, found.missing, found.events),
    )
    return found


@kernel
def measure_rows(pages, lengths, pins, events, values, room, found):  # type: ignore[no-untyped-def]
    """Fill in `ArmPages`. pages: see `CheckedRows.pages`; room: scratch for clicks and their values.

    Of several events on a document with the same action, the largest value counts.
    """
    metrics, missing, counts = found
    clicked, worth = room
    rows, _, _, _, visible, reasons = pages
    offsets, positions, masks, _, _, _ = events
    for place in range(len(rows)):
        if reasons[place]:
            continue
        row = rows[place]
        missing[place] = lengths[1][lengths[0][row]] == 0
        fixed = pins[1][pins[0][row] : pins[0][row + 1]]
        page = visible[place] + len(fixed)
        used = count_events(events, row, page, counts)
        for action in range(metrics.shape[1]):
            bit = np.uint32(1) << np.uint32(action)
            if used & bit == 0:
                continue
            clicked[:page] = 0
            for event in range(offsets[row], offsets[row + 1]):
                position = positions[event]
                if masks[event] & bit and 0 <= position < page:
                    if clicked[position] == 0:
                        worth[position] = np.nan
                    if not (np.isnan(values[event]) or worth[position] >= values[event]):
                        worth[position] = values[event]
                    clicked[position] = 1
            for x in range(len(fixed)):
                clicked[fixed[x]] = 0
            for position in range(page):
                if clicked[position]:
                    if metrics[place, action, 0] == 0.0:
                        metrics[place, action, 1] = 1.0
                        metrics[place, action, 2] = 1.0 / (1 + position)
                    metrics[place, action, 0] += 1.0
                    if not np.isnan(worth[position]):
                        metrics[place, action, 3] += worth[position]


class ArmUnits:
    """The sums of an arm's metrics by unit, and of rows without a unit."""

    def __init__(self, actions: int) -> None:
        self.actions = actions
        self._others = [ArmSums() for _ in range(actions)]  # what is not by unit
        self._forget()

    def add(self, units: pa.StringArray, pages: ArmPages) -> None:
        """Add rows that all have reason 0; units: their ids, null for none."""
        single = units.is_null().to_numpy(zero_copy_only=False)
        for action, sums in enumerate(self._others):
            metrics = pages.metrics[:, action]
            sums.add_squares(metrics)
            sums.missing += int(pages.missing.sum())
            sums.add_units(np.column_stack([metrics[single], np.ones(single.sum())]))
        if len(units):
            self._waiting.append((units, pages.metrics.reshape(len(units), -1)))
            self._waiting_rows += len(units)
        if self._ids.are_worth(self._waiting_rows):
            self._add_waiting()

    def add_units(self, units: pa.StringArray, counts: Array, sums: Floats) -> None:
        """Add what `take_units` returned, here or elsewhere."""
        [numbers] = self._number([units])
        np.add.at(self._counts, numbers, counts)
        np.add.at(self._sums, numbers, sums.reshape(len(units), -1))

    def take_units(self) -> tuple[pa.StringArray, Array, Floats]:
        """Return the ids, impressions and sums of all units and forget them; what is not kept by unit stays."""
        self._add_waiting()
        used = len(self._ids)
        taken = self._ids.known, self._counts[:used], self._sums[:used]
        self._forget()
        return taken

    @property
    def size(self) -> int:
        """Bytes that the sums take, at most."""
        return 8 * (len(self._ids) + self._waiting_rows) * (1 + self.actions * len(METRICS))

    @property
    def ids(self) -> pa.Array:
        """The ids of all units."""
        self._add_waiting()
        return self._ids.known

    def sums(self, action: int, without: pa.Array) -> ArmSums:
        """Return the sums of one action over all units but some."""
        ids = self.ids
        kept = np.ones(len(ids), dtype=bool)
        if len(without):
            kept = ~pc.is_in(ids, without).to_numpy(zero_copy_only=False)
        start, used = action * len(METRICS), len(ids)
        found = ArmSums()
        found.merge(self._others[action])
        rows = np.column_stack([self._sums[:used, start : start + len(METRICS)], self._counts[:used]])
        found.add_units(rows[kept])
        return found

    def _forget(self) -> None:
        self._ids = UnitIds()
        self._waiting: list[tuple[pa.StringArray, Floats]] = []
        self._waiting_rows = 0
        self._counts = np.zeros(0, dtype=np.int64)
        self._sums = np.zeros((0, self.actions * len(METRICS)))

    def _add_waiting(self) -> None:
        waiting, self._waiting, self._waiting_rows = self._waiting, [], 0
        for numbers, (_, metrics) in zip(self._number([units for units, _ in waiting]), waiting, strict=True):
            known = numbers >= 0
            np.add.at(self._counts, numbers[known], 1)
            np.add.at(self._sums, numbers[known], metrics[known])

    def _number(self, arrays: list[pa.StringArray]) -> list[Array]:
        numbers = self._ids.number(arrays)
        self._counts, self._sums = (with_room(array, len(self._ids)) for array in (self._counts, self._sums))
        return numbers


def in_two(arms: list[ArmUnits]) -> pa.Array:
    """Return the ids of units that are in more than one arm."""
    counts = pc.value_counts(pa.chunked_array([arm.ids for arm in arms], pa.large_string()))
    return counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
