"""Checking prepared rows: why some are invalid, and the ranks of the others as kernels read them.

Checking, crediting, estimating rates and examining are one loop each over the rows of a batch: four small loops compile
to code that takes less than half the time of one large loop.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from multileave.impression import ABSENT
from multileave.kernels import kernel
from multileave.replay.inferring.events import Array

MOST_DRAWN = 10_000

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
NOT_FINITE = 11

Lists: TypeAlias = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class CheckedRows:
    """The n rows of a batch that share a header, checked.

    rows: int64 (n,), their positions in the batch; k: int32, and lengths, note, pinned, stat: offsets and values of
        lists, of all rows of the batch.
    ranks: int32 (N, R), of all drawn documents, ABSENT for none; those of row i are starts[i] to starts[i + 1].
    drawn, visible: int32 (n,), how many documents of a row were drawn, and are on the page without pinned ones.
    reasons: uint8 (n,), into REASONS; 0 for a valid row.
    """

    rows: Array
    k: Array
    lengths: Lists
    note: Lists
    pinned: Lists
    stat: Lists
    ranks: Array
    starts: Array
    drawn: Array
    visible: Array
    reasons: Array

    @property
    def most(self) -> int:
        """The largest number of documents drawn in a row."""
        return int(self.drawn.max(initial=0))

    @property
    def pages(self) -> tuple[Array, ...]:
        """What the kernels read of each row's page."""
        return self.rows, self.starts, self.ranks, self.drawn, self.visible, self.reasons


def check_batch(batch: pa.RecordBatch, rows: Array, rankers: int, reads: tuple[int, int]) -> CheckedRows:
    """Check the rows of a batch (int64 positions) that share a header. reads: whether ranks and notes are needed."""
    count = len(rows)
    lengths, note, pinned, stat, flat = (
        _flat(batch.column(name)) for name in ("lengths", "note", "pinned", "stat", "ranks")
    )
    found = CheckedRows(
        rows, batch.column("k").to_numpy(), lengths, note, pinned, stat,
        np.empty((int(np.diff(flat[0])[rows].sum()) // rankers, rankers), dtype=np.int32),
        np.zeros(count + 1, dtype=np.int64),
        np.zeros(count, dtype=np.int32),
        np.zeros(count, dtype=np.int32),
        np.zeros(count, dtype=np.uint8),
    )  # fmt: skip
    check_rows(found.pages, found.k, lengths, note, pinned, flat, reads, np.empty(rankers, dtype=np.uint64))
    return found


def _flat(lists: pa.ListArray) -> Lists:
    return lists.offsets.to_numpy(), lists.values.to_numpy(zero_copy_only=False)


@kernel
def check_rows(pages, k, lengths, note, pinned, flat, reads, seen):  # type: ignore[no-untyped-def]
    """Fill in `CheckedRows`. reads: whether ranks and notes are needed; seen: uint64 (R,), scratch."""
    rows, starts, ranks, drawn, visible, reasons = pages
    rankers = ranks.shape[1]
    for place in range(len(rows)):
        row, start = rows[place], starts[place]
        starts[place + 1] = start
        sizes = lengths[1][lengths[0][row] : lengths[0][row + 1]]
        given = flat[1][flat[0][row] : flat[0][row + 1]]
        notes = note[1][note[0][row] : note[0][row + 1]]
        pins = pinned[1][pinned[0][row] : pinned[0][row + 1]]
        own = ranks[start : start + len(given) // rankers]
        m = len(own) if reads[0] or len(own) else len(notes)
        page = min(k[row], m) + len(pins)
        reason = check_sizes(k[row], sizes, len(given), notes, rankers, reads)
        if reason == 0:
            reason = copy_ranks(given, sizes, own, seen)
        if reason == 0:
            reason = check_pins(pins, page)
        if reason:
            reasons[place] = reason
            continue
        starts[place + 1] = start + len(own)
        drawn[place] = m
        visible[place] = page - len(pins)


@kernel
def check_sizes(k, sizes, given, notes, rankers, reads):  # type: ignore[no-untyped-def]
    """Return what is wrong with the sizes and notes of a row, 0 for nothing."""
    if k < 0:
        return 1
    if len(sizes) != rankers:
        return 2
    for r in range(rankers):
        if sizes[r] < 0:
            return 2
    m = given // rankers
    if given % rankers or (m == 0 and reads[0] and len(notes)):
        return 3
    if m and (len(notes) or reads[1]) and len(notes) != m:
        return 4
    if max(m, len(notes)) > MOST_DRAWN:
        return 5
    for x in range(len(notes)):
        if notes[x] < -1:
            return 9
    return 0


@kernel
def copy_ranks(given, sizes, ranks, seen):  # type: ignore[no-untyped-def]
    """Copy the ranks of a row, 0 as ABSENT; return what is wrong with them, 0 for nothing."""
    rankers = ranks.shape[1]
    for r in range(rankers):
        seen[r] = 0
    for x in range(len(ranks)):
        present = False
        for r in range(rankers):
            rank = given[x * rankers + r]
            if rank < 0 or rank > sizes[r]:
                return 6
            ranks[x, r] = rank if rank > 0 else ABSENT
            present |= rank > 0
            if 0 < rank < 64:
                bit = np.uint64(1) << np.uint64(rank)
                if seen[r] & bit:
                    return 8
                seen[r] |= bit
            elif rank:
                for y in range(x):
                    if ranks[y, r] == rank:
                        return 8
        if not present:
            return 7
    return 0


@kernel
def check_pins(pins, page):  # type: ignore[no-untyped-def]
    """Return what is wrong with pinned positions, 0 for nothing."""
    for x in range(len(pins)):
        if pins[x] < 0 or pins[x] >= page:
            return 10
        for y in range(x):
            if pins[x] == pins[y]:
                return 10
    return 0
