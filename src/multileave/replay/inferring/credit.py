"""From prepared rows to credits: one compiled loop per method over flat buffers, checks included.

The loop never trusts a row. What would be out of bounds or makes no sense gives the row a reason from
`REASONS`, and no credit.
"""

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from multileave.impression import ABSENT
from multileave.kernels import kernel
from multileave.outcome import ADDING, Floats
from multileave.replay.inferring.health_sums import HealthSums, balance_of, examine_row
from multileave.replay.reading.comparisons import Header

__all__ = ["EVENTS", "REASONS", "Actions", "Credits", "Events", "credit_batch", "read_events"]

Array: TypeAlias = "np.ndarray[Any, Any]"

MOST_DRAWN = 10_000
LARGEST = 1e40  # of a credit, as in a tally
FEW = 32  # events of a row, that are compared with each other to find duplicates; more are sorted

REASONS = (
    "",
    "'k' is below 0",
    "'lengths' is not one number from 0 for every ranker",
    "'ranks' is not one rank for every drawn document and ranker",
    "'note' is not one for every drawn document",
    f"more than {MOST_DRAWN:,} documents were drawn",
    "'ranks' holds a rank that is negative or beyond the ranking's length",
    "'ranks' has a document that is in no ranking",
    "'ranks' has a rank twice in one ranking",
    "'note' holds a number below -1",
    "'pinned' is not different positions of the page",
    "the credits are not finite numbers",
)

EVENTS = ("not_shown", "duplicate", "unused", "counted")  # what becomes of an event, in `Credits.events`


@dataclass(frozen=True)
class Actions:
    """Which events count, each action with a verdict of its own.

    names: "click", "cart", "purchase" or any other name in the log; "satisfied" is a click with at
        least `dwell` seconds on the document.
    window: how long after its impression an event counts, in microseconds; None for ever.
    whole_pages: whether impressions hold all that was shown, so that their balance can be examined.
    """

    names: tuple[str, ...] = ("click",)
    dwell: float = 30.0
    window: int | None = None
    whole_pages: bool = True


@dataclass(frozen=True, eq=False)
class Events:
    """The clicks of a batch: of row i those from offsets[i] to offsets[i + 1]."""

    offsets: Array  # int32 (n + 1,)
    positions: Array  # int32, -1 for a document that was not shown
    masks: Array  # uint32, bit a for actions.names[a]
    codes: Array  # int32, the action, to tell duplicates
    times: Array  # int64, -2**62 where there is none
    again: Array  # uint8, whether it stood there before; known for rows of more than FEW
    late: int
    undated: int


@dataclass(frozen=True, eq=False)
class Credits:
    """What the rows of one header say, by action: (n, A, R) credits, or (n, A, P) preferences by pair."""

    values: Floats
    clicks: Array  # int32 (n, A), clicked documents
    reasons: Array  # uint8 (n,), into REASONS
    events: Array  # int64 (4,), by EVENTS
    health: HealthSums

    def some(self, rows: Array) -> "Credits":
        """Return those of some rows; what was counted over all rows stays."""
        return replace(self, values=self.values[rows], clicks=self.clicks[rows], reasons=self.reasons[rows])


def read_events(batch: pa.RecordBatch, actions: Actions) -> Events:
    """Return the clicks of prepared rows, with documents found in what was shown."""
    lists = batch.column("clicks")
    offsets = lists.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    events = lists.values.slice(first, last - first)
    offsets = offsets - np.int32(first)
    document, position, action, time, dwell = (events.field(x) for x in range(5))
    given = position.fill_null(0).to_numpy(zero_copy_only=False)
    positions = np.where(given < 0, np.int32(-2), given)
    if position.null_count:
        positions[position.is_null().to_numpy(zero_copy_only=False)] = -1
        shown = batch.column("documents")
        _find_documents(
            offsets, positions, *_strings(document),
            shown.offsets.to_numpy(), *_strings(shown.values),
        )  # fmt: skip
    coded = action.fill_null("click").dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False)
    names = coded.dictionary.to_pylist()
    bits = np.array(
        [sum(1 << a for a, wanted in enumerate(actions.names) if wanted == name) for name in names] or [0],
        dtype=np.uint32,
    )
    masks = bits[codes] if len(codes) else np.zeros(0, dtype=np.uint32)
    if "satisfied" in actions.names and "click" in names:
        stayed = dwell.fill_null(-1.0).to_numpy(zero_copy_only=False) >= actions.dwell
        masks[stayed & (codes == names.index("click"))] |= np.uint32(1 << actions.names.index("satisfied"))
    times = time.fill_null(-(2**62)).to_numpy(zero_copy_only=False)
    late = undated = 0
    if actions.window is not None and len(times):
        shown_at = batch.column("time")
        dated = shown_at.is_valid().to_numpy(zero_copy_only=False)
        start = np.repeat(shown_at.fill_null(0).to_numpy(zero_copy_only=False), np.diff(offsets))
        known = np.repeat(dated, np.diff(offsets)) & time.is_valid().to_numpy(zero_copy_only=False)
        after = known & (times - np.where(known, start, times) > actions.window)
        late, undated = int(after.sum()), int((~known).sum())
        masks[after | ~known] = 0
    return Events(offsets, positions, masks, codes, times, _repeats(offsets, positions, codes, times), late, undated)


def _repeats(offsets: Array, positions: Array, codes: Array, times: Array) -> Array:
    """Return which events of rows with many stood there before, with the same position, action and time."""
    again = np.zeros(len(positions), dtype=np.uint8)
    sizes = np.diff(offsets)
    many = sizes > FEW
    if many.any():
        events = np.flatnonzero(np.repeat(many, sizes))
        rows = np.repeat(np.arange(len(sizes)), sizes)[events]
        keys = (times[events], codes[events], positions[events], rows)
        order = np.lexsort(keys)  # stable, so that the first of equals stays the first
        same = np.ones(len(order) - 1, dtype=bool)
        for key in keys:
            same &= np.diff(key[order]) == 0
        again[events[order[1:][same]]] = 1
    return again


def credit_batch(batch: pa.RecordBatch, rows: Array, header: Header, events: Events, actions: Actions) -> Credits:
    """Infer the rows of a batch (int64 positions) that share a header."""
    method, rankers = header.method, len(header.rankers)
    matrix = method.outcome == "matrix"
    credits = method.outcome == "difference"  # are kept as they are; of other kinds the preferences of pairs
    width = rankers if credits else rankers * (rankers - 1) // 2
    lists = [_integers(batch.column(name)) for name in ("lengths", "ranks", "note", "pinned")]
    most = min(max(int(np.diff(lists[1][0]).max(initial=0)) // rankers, int(np.diff(lists[2][0]).max(initial=0))),
               MOST_DRAWN)  # fmt: skip
    integers, floats = method.workspace(rankers, max(most, 1), max(most, 1))
    number = len(actions.names)
    found = Credits(
        np.zeros((len(rows), number, width)),
        np.zeros((len(rows), number), dtype=np.int32),
        np.zeros(len(rows), dtype=np.uint8),
        np.zeros(len(EVENTS), dtype=np.int64),
        HealthSums.empty(rankers),
    )
    values = np.zeros((rankers if matrix else 1, rankers))
    credit_rows.bind(credit=method.credit_kernel, add=ADDING[method.outcome])(
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
            balance_of(method),
            int(actions.whole_pages),
            found.health.counts,
            found.health.balances,
            np.empty((2, rankers)),
            np.empty(most + 2),
        ),
        np.empty(integers, dtype=np.int32),
        np.empty(floats),
    )
    return found


def _integers(lists: pa.ListArray) -> tuple[Array, Array]:
    return lists.offsets.to_numpy(), lists.values.to_numpy(zero_copy_only=False)


def _strings(strings: pa.StringArray) -> tuple[Array, Array]:
    """Return offsets and bytes of a string array; a null is empty."""
    _, offsets, data = strings.buffers()
    if offsets is None or not len(strings):
        return np.zeros(len(strings) + 1, dtype=np.int32), np.zeros(0, dtype=np.uint8)
    where = np.frombuffer(offsets, dtype=np.int32)[strings.offset : strings.offset + len(strings) + 1]
    return where, np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, dtype=np.uint8)


@kernel
def _find_documents(offsets, positions, name_at, names, shown_at, id_at, ids):  # type: ignore[no-untyped-def]
    """Replace the position -1 of clicks by that of their document, if it was shown."""
    for row in range(len(offsets) - 1):
        for event in range(offsets[row], offsets[row + 1]):
            if positions[event] != -1:
                continue
            start, size = name_at[event], name_at[event + 1] - name_at[event]
            for place in range(shown_at[row], shown_at[row + 1]):
                if id_at[place + 1] - id_at[place] != size:
                    continue
                same = True
                for x in range(size):
                    same = same and ids[id_at[place] + x] == names[start + x]
                if same:
                    positions[event] = place - shown_at[row]
                    break


def credit(*arguments: Any) -> None:
    """Stand for a method's credit kernel in `credit_rows`."""


def add(*arguments: Any) -> None:
    """Stand for what adds up credits of the method's kind in `credit_rows`."""


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
def credit_rows(rows, k, lengths, ranks, note, pins, events, reads, params, room, out, values, found, health, work_i, work_f):  # type: ignore[no-untyped-def]  # noqa: E501  # fmt: skip
    """Check rows, mark the clicked documents of each action, and keep what they say.

    lengths, ranks, note, pins: (offsets, values) of lists. events: see `Events`.
    reads: whether credit reads ranks and notes.
    out: one impression's credits; values: the same memory, (1, R) or (R, R). found: see `Credits`.
    health: what is known of the method's balance, whether to examine rows, and the room for it.
    """
    credits, clicks, reasons, counts = found
    drawn, clicked, total, seen = room
    offsets, positions, masks, codes, times, repeats = events
    known, whole_pages, examined, balances, sums, left = health
    rankers = drawn.shape[1]
    for place in range(len(rows)):
        row = rows[place]
        reason, m, page = read_row(row, k, lengths, ranks, note, pins, reads, drawn, seen)
        first, last = offsets[row], offsets[row + 1]
        if reason:
            last = first
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
        fixed = pins[1][pins[0][row] : pins[0][row + 1]]
        notes = note[1][note[0][row] : note[0][row + 1]]
        sizes = lengths[1][lengths[0][row] : lengths[0][row + 1]]
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
        if reason == 0 and whole_pages:
            kept_ranks = drawn[: (ranks[0][row + 1] - ranks[0][row]) // rankers]
            examine_row(
                known, kept_ranks, len(kept_ranks), page - len(fixed), k[row], sizes, notes, examined, balances, sums,
                left,
            )  # fmt: skip
