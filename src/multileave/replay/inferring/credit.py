"""From prepared rows to credits: one compiled loop per method over flat buffers.

The loop checks every row. One that is invalid gets a reason from `REASONS`, and no credit.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from multileave.impression import ABSENT
from multileave.kernels import kernel
from multileave.methods._alone import add_earned, fill_surplus
from multileave.outcome import ADDING, Floats
from multileave.replay.inferring.events import FEW, Actions, Array, Events
from multileave.replay.inferring.examining import Examined, examine_row, groups_of
from multileave.replay.inferring.rates import BatchRates, add_rates, knows_rates
from multileave.replay.reading.comparisons import Header
from multileave.stats.tally.health_counts import HealthCounts

MOST_DRAWN = 10_000
LARGEST = 1e40  # of a credit, as in a tally

REASONS = (
    "",
    "'k' is below 0.",
    "'lengths' must be one number from 0 for every ranker.",
    "'ranks' must be one rank for every drawn document and ranker.",
    "'note' must be one for every drawn document.",
    f"More than {MOST_DRAWN:,} documents were drawn.",
    "'ranks' contains a rank that is negative or beyond the ranking's length.",
    "'ranks' contains a document that is in no ranking.",
    "'ranks' contains a rank twice in one ranking.",
    "'note' contains a number below -1.",
    "'pinned' must be different positions of the page.",
    "The credits are not finite numbers.",
)

EVENTS = ("not_shown", "duplicate", "unused", "counted")  # what becomes of an event, in `Credits.events`


@dataclass(frozen=True, eq=False)
class Credits:
    """The credits (n, A, R), or preferences by pair (n, A, P), of rows that share a header, by action."""

    values: Floats
    clicks: Array  # int32 (n, A), clicked documents
    reasons: Array  # uint8 (n,), into REASONS
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
    method, rankers = header.method, len(header.rankers)
    matrix = method.outcome == "matrix"
    credits = method.outcome == "difference"  # kept as they are; for other kinds, preferences by pair
    width = rankers if credits else rankers * (rankers - 1) // 2
    lists = [flat(batch.column(name)) for name in ("lengths", "ranks", "note", "pinned")]
    most = min(max(int(np.diff(lists[1][0]).max(initial=0)) // rankers, int(np.diff(lists[2][0]).max(initial=0))),
               MOST_DRAWN)  # fmt: skip
    integers, floats = method.workspace(rankers, max(most, 1), max(most, 1))
    number = len(actions.names)
    found = Credits(
        np.zeros((len(rows), number, width)),
        np.zeros((len(rows), number), dtype=np.int32),
        np.zeros(len(rows), dtype=np.uint8),
        np.zeros(len(EVENTS), dtype=np.int64),
        HealthCounts(rankers),
        BatchRates.of(len(rows), number, rankers) if knows_rates(method, actions) else None,
    )
    examined = Examined(rankers)
    rates = found.rates or BatchRates.of(0, number, rankers)
    values = np.zeros((rankers if matrix else 1, rankers))
    examine = examine_row.bind(balance=method.balance_kernel)
    surplus = fill_surplus.bind(propensity=method.propensity_kernel)
    credit_rows.bind(
        credit=method.credit_kernel, add=ADDING[method.outcome], examine_row=examine, fill_surplus=surplus
    )(
        rows,
        batch.column("k").to_numpy(),
        *lists,
        (events.offsets, events.positions, events.masks, events.codes, events.times, events.again),
        (int(method.keeps_ranks), int(method.keeps_note)),
        method.parameters,
        (
            np.empty((most + 1, rankers), dtype=np.int32),
            np.empty(most + 1, dtype=np.uint8),
            np.zeros((1 if credits else rankers, rankers)),
            np.zeros(rankers, dtype=np.uint64),
        ),
        values if matrix else values[0],
        values,
        (found.values, found.clicks, found.reasons, found.events),
        (
            groups_of(batch.column("unit"), rankers),
            int(not method.clone_proof),
            int(actions.whole_pages),
            examined.counts,
            examined.balances,
            examined.groups,
            np.empty((2, rankers)),
            np.empty(most + 2),
        ),
        (
            int(found.rates is not None),
            flat(batch.column("stat")),
            rates.rows,
            rates.pages,
            rates.squares,
            np.zeros((2, rankers)),
            np.empty(2 * most + 2),
        ),
        np.empty(integers, dtype=np.int32),
        np.empty(floats),
    )
    return replace(found, health=examined.health())


def flat(lists: pa.ListArray) -> tuple[Array, Array]:
    """Return the offsets and the values of lists."""
    return lists.offsets.to_numpy(), lists.values.to_numpy(zero_copy_only=False)


def credit(*arguments: Any) -> None:
    """Placeholder for the method's credit kernel, which is bound into `credit_rows`."""


def add(*arguments: Any) -> None:
    """Placeholder for the kernel that adds up credits, which is bound into `credit_rows`."""


@kernel
def read_row(row, k, lengths, ranks, note, pinned, reads, drawn, seen):  # type: ignore[no-untyped-def]
    """Check a row and copy its ranks; return the reason, how many documents were drawn and how many are on the page."""
    rankers = drawn.shape[1]
    sizes = lengths[1][lengths[0][row] : lengths[0][row + 1]]
    flat = ranks[1][ranks[0][row] : ranks[0][row + 1]]
    notes = note[1][note[0][row] : note[0][row + 1]]
    pins = pinned[1][pinned[0][row] : pinned[0][row + 1]]
    if k[row] < 0:
        return 1, 0, 0
    if len(sizes) != rankers or (rankers and sizes.min() < 0):
        return 2, 0, 0
    if len(flat) % rankers:
        return 3, 0, 0
    m = len(flat) // rankers
    if reads[0] == 0 and m == 0:
        m = len(notes)
    if m == 0 and len(notes):
        return 3, 0, 0
    if (len(notes) and len(notes) != m) or (reads[1] and len(notes) != m):
        return 4, 0, 0
    if m > MOST_DRAWN:
        return 5, 0, 0
    for x in range(len(notes)):
        if notes[x] < -1:
            return 9, 0, 0
    seen[:] = 0
    for x in range(len(flat) // rankers):
        present = False
        for r in range(rankers):
            rank = flat[x * rankers + r]
            if rank < 0 or rank > sizes[r]:
                return 6, 0, 0
            drawn[x, r] = rank if rank > 0 else ABSENT
            present = present or rank > 0
            if 0 < rank < 64:
                bit = np.uint64(1) << np.uint64(rank)
                if seen[r] & bit:
                    return 8, 0, 0
                seen[r] |= bit
            elif rank:
                for y in range(x):
                    if drawn[y, r] == rank:
                        return 8, 0, 0
        if not present:
            return 7, 0, 0
    page = min(k[row], m) + len(pins)
    for x in range(len(pins)):
        if pins[x] < 0 or pins[x] >= page:
            return 10, 0, 0
        for y in range(x):
            if pins[x] == pins[y]:
                return 10, 0, 0
    return 0, m, page


@kernel
def count_events(first, last, page, events, counts):  # type: ignore[no-untyped-def]
    """Count what becomes of the events of a row, by `EVENTS`; return the actions that some of them count for."""
    _, positions, masks, codes, times, repeats = events
    used = np.uint32(0)
    for event in range(first, last):
        again = repeats[event] != 0
        if last - first <= FEW:
            for before in range(first, event):
                again = again or (
                    positions[before] == positions[event]
                    and codes[before] == codes[event]
                    and times[before] == times[event]
                )
        if positions[event] < 0 or positions[event] >= page:
            counts[0] += 1
        elif again:
            counts[1] += 1
        elif masks[event] == 0:
            counts[2] += 1
        else:
            counts[3] += 1
            used |= masks[event]
    return used


@kernel
def credit_rows(rows, k, lengths, ranks, note, pins, events, reads, params, room, out, values, found, health, rates, work_i, work_f):  # type: ignore[no-untyped-def]  # noqa: E501  # fmt: skip
    """Check rows, mark the clicked documents of each action, and compute their credits.

    lengths, ranks, note, pins: (offsets, values) of lists. events: see `Events`.
    reads: whether credit reads ranks and notes.
    out: one impression's credits; values: the same memory, (1, R) or (R, R). found: see `Credits`.
    health: the groups of units, whether clones mislead the method, whether to examine rows, and scratch for it.
    rates: whether to estimate them, what is found (see `BatchRates`), and scratch for it.
    """
    credits, clicks, reasons, counts = found
    drawn, clicked, total, seen = room
    offsets, positions, masks, _, _, _ = events
    unit_groups, clones, whole_pages, examined, balances, groups, sums, left = health
    wanted, stat, rate_rows, pages, squares, page_room, chance_room = rates
    rankers = drawn.shape[1]
    for place in range(len(rows)):
        row = rows[place]
        reason, m, page = read_row(row, k, lengths, ranks, note, pins, reads, drawn, seen)
        first, last = offsets[row], offsets[row + 1]
        if reason:
            last = first
        used = count_events(first, last, page, events, counts)
        fixed = pins[1][pins[0][row] : pins[0][row + 1]]
        notes = note[1][note[0][row] : note[0][row + 1]]
        sizes = lengths[1][lengths[0][row] : lengths[0][row + 1]]
        visible = page - len(fixed)
        chances = chance_room[: max(visible, 0)]
        known = 0
        if wanted and reason == 0:
            known = fill_surplus(
                drawn[: (ranks[0][row + 1] - ranks[0][row]) // rankers], sizes, notes,
                stat[1][stat[0][row] : stat[0][row + 1]], visible, k[row], params,
                chances, page_room[0], page_room[1], chance_room[visible:],
            )  # fmt: skip
        for action in range(credits.shape[1]):
            bit = np.uint32(1) << np.uint32(action)
            if used & bit == 0:
                continue
            clicked[:m] = 0
            number = 0
            for event in range(first, last):
                position = positions[event]
                if masks[event] & bit == 0 or position < 0 or position >= page:
                    continue
                shift = 0
                pinned = False
                for x in range(len(fixed)):
                    pinned = pinned or fixed[x] == position
                    shift += fixed[x] < position
                if not pinned and clicked[position - shift] == 0:
                    clicked[position - shift] = 1
                    number += 1
            if number == 0:
                continue
            clicks[place, action] = number
            if known:
                start = action * rankers
                add_earned(drawn, visible, chances, clicked, rate_rows[place, start : start + rankers])
            values[:] = 0.0
            credit(
                drawn[: reads[0] * m], sizes, notes[: reads[1] * m], clicked[:m], k[row], params, out, work_i, work_f
            )
            # Written so that a NaN fails it as well.
            fine = True
            for n in range(values.shape[0]):
                for r in range(rankers):
                    fine = fine and abs(values[n, r]) <= LARGEST
            if not fine:
                reason = 11
                break
            kept = credits[place, action]
            total[:] = 0.0
            add(values, total)
            if len(total) == 1:
                for r in range(rankers):
                    kept[r] = total[0, r]
            else:
                pair = 0
                for n in range(rankers):
                    for other in range(n + 1, rankers):
                        kept[pair] = total[n, other]
                        pair += 1
        reasons[place] = reason
        if known and reason == 0:
            add_rates(rate_rows[place], page_room, pages, squares)
        if reason == 0 and whole_pages:
            kept_ranks = drawn[: (ranks[0][row + 1] - ranks[0][row]) // rankers]
            examine_row(
                unit_groups[row], clones, kept_ranks, len(kept_ranks), page - len(fixed), k[row], sizes, notes, params,
                examined, balances, groups, sums, left,
            )  # fmt: skip
