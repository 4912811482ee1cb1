"""From prepared rows to credits: one compiled loop per method over flat buffers.

A row that `checking` finds invalid, or whose credits are not finite, gets a reason and no credit.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from multileave.kernels import kernel
from multileave.outcome import ADDING, Floats
from multileave.replay.inferring.checking import NOT_FINITE, CheckedRows, check_batch
from multileave.replay.inferring.events import EVENTS, Actions, Array, Events, count_events, mark_clicks
from multileave.replay.inferring.examining import examine_batch
from multileave.replay.inferring.rates import BatchRates, rate_batch
from multileave.replay.reading.comparisons import Header
from multileave.stats.tally.health_counts import HealthCounts

LARGEST = 1e40  # of a credit, as in a tally


@dataclass(frozen=True, eq=False)
class Credits:
    """The credits (n, A, R), or preferences by pair (n, A, P), of rows that share a header, by action."""

    values: Floats
    clicks: Array  # int32 (n, A), clicked documents
    reasons: Array  # uint8 (n,), into `checking.REASONS`
    events: Array  # int64 (4,), by EVENTS
    health: HealthCounts
    rates: BatchRates | None

    def some(self, rows: Array) -> "Credits":
        """Return those of some rows; counts over all rows stay."""
        return replace(
            self,
            values=self.values[rows],
            clicks=self.clicks[rows],
            reasons=self.reasons[rows],
            rates=None if self.rates is None else self.rates.some(rows),
        )


def credit_batch(batch: pa.RecordBatch, rows: Array, header: Header, events: Events, actions: Actions) -> Credits:
    """Infer the rows of a batch (int64 positions) that share a header."""
    reads = (int(header.method.keeps_ranks), int(header.method.keeps_note))
    checked = check_batch(batch, rows, len(header.rankers), reads)
    values, clicks, counts = _credit(checked, header, events, len(actions.names), reads)
    # Both leave out rows whose credits are not finite, which is known only now.
    rates = rate_batch(checked, header, events, actions, clicks)
    health = examine_batch(checked, header, batch.column("unit"), whole_pages=actions.whole_pages)
    return Credits(values, clicks, checked.reasons, counts, health, rates)


def _credit(
    checked: CheckedRows, header: Header, events: Events, actions: int, reads: tuple[int, int]
) -> tuple[Floats, Array, Array]:
    """Return the credits and clicks of rows, and what became of their events, as in `Credits`."""
    method, rankers, count = header.method, len(header.rankers), len(checked.rows)
    matrix = method.outcome == "matrix"
    credits = method.outcome == "difference"  # kept as they are; for other kinds, preferences by pair
    found = (
        np.zeros((count, actions, rankers if credits else rankers * (rankers - 1) // 2)),
        np.zeros((count, actions), dtype=np.int32),
        np.zeros(len(EVENTS), dtype=np.int64),
    )
    most = max(checked.most, 1)
    integers, floats = method.workspace(rankers, most, most)
    values = np.zeros((rankers if matrix else 1, rankers))
    credit_rows.bind(credit=method.credit_kernel, add=ADDING[method.outcome])(
        checked.pages,
        checked.k,
        checked.lengths,
        checked.note,
        checked.pinned,
        events.arrays,
        reads,
        method.parameters,
        (np.empty(most, dtype=np.uint8), np.zeros((1 if credits else rankers, rankers))),
        values if matrix else values[0],
        values,
        found,
        np.empty(integers, dtype=np.int32),
        np.empty(floats),
    )
    return found


def credit(*arguments: Any) -> None:
    """Placeholder for the method's credit kernel, which is bound into `credit_rows`."""


def add(*arguments: Any) -> None:
    """Placeholder for the kernel that adds up credits, which is bound into `credit_rows`."""


@kernel
def keep_preferences(total, kept):  # type: ignore[no-untyped-def]
    """Copy credits, (1, R), or the upper triangle of preferences, (R, R), to one row."""
    rankers = total.shape[1]
    if len(total) == 1:
        for r in range(rankers):
            kept[r] = total[0, r]
        return
    pair = 0
    for n in range(rankers):
        for other in range(n + 1, rankers):
            kept[pair] = total[n, other]
            pair += 1


@kernel
def credit_rows(pages, k, lengths, note, pins, events, reads, params, room, out, values, found, work_i, work_f):  # type: ignore[no-untyped-def]  # fmt: skip
    """Mark the clicked documents of each action, and compute their credits.

    pages: see `CheckedRows.pages`; lengths, note, pins: (offsets, values) of lists. events: see `Events`.
    reads: whether credit reads ranks and notes. out: one impression's credits; values: the same memory, (1, R) or
        (R, R). found: credits, clicks and counts, see `Credits`.
    """
    credits, clicks, counts = found
    clicked, total = room
    rows, starts, ranks, drawn, visible, reasons = pages
    for place in range(len(rows)):
        row = rows[place]
        if reasons[place] or events[0][row] == events[0][row + 1]:
            continue
        fixed = pins[1][pins[0][row] : pins[0][row + 1]]
        m, page = drawn[place], visible[place] + len(fixed)
        used = count_events(events, row, page, counts)
        notes = note[1][note[0][row] : note[0][row + 1]]
        sizes = lengths[1][lengths[0][row] : lengths[0][row + 1]]
        for action in range(credits.shape[1]):
            bit = np.uint32(1) << np.uint32(action)
            if used & bit == 0:
                continue
            number = mark_clicks(events, row, bit, fixed, page, clicked[:m])
            if number == 0:
                continue
            clicks[place, action] = number
            values[:] = 0.0
            credit(
                ranks[starts[place] : starts[place] + reads[0] * m], sizes, notes[: reads[1] * m], clicked[:m],
                k[row], params, out, work_i, work_f,
            )  # fmt: skip
            # Written so that a NaN fails it as well.
            fine = True
            for n in range(values.shape[0]):
                for r in range(values.shape[1]):
                    fine = fine and abs(values[n, r]) <= LARGEST
            if not fine:
                reasons[place] = NOT_FINITE
                break
            total[:] = 0.0
            add(values, total)
            keep_preferences(total, credits[place, action])
