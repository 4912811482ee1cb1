"""The documents of one query by number, as kernels know them.

Documents are numbered by the best rank that any ranker gives them, so those that some ranker places at rank x or above
are the numbers 0 to entering[x - 1] - 1: the choice sets of ppm, and what a considerate method may show at x.
"""

import numpy as np

from multileave.impression import ABSENT
from multileave.kernels import kernel


def table_size(entries: int) -> int:
    """Return the length of a hash table: a power of two, more than twice the entries, so that chains stay short."""
    return 1 << int(2 * entries).bit_length()


@kernel
def _slot(document, slots):  # type: ignore[no-untyped-def]
    """Return where to look first for a document: the upper bits of its product with 2**64 / phi."""
    mixed = np.uint64(document) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(32)) & np.uint64(len(slots) - 1)


@kernel
def number_documents(ids, lengths, check, top, entering, documents, slots):  # type: ignore[no-untyped-def]
    """Number documents column by column; if `check`, return the first row with a repeat, otherwise -1.

    ids i8[R, n], lengths i4[R]. top i4[R, depth], entering i4[depth], documents i8[R * depth] are filled.
    slots i4: a hash table of `table_size(top.size)` entries that holds numbers plus one.
    """
    rankers, depth = top.shape
    mask = np.uint64(len(slots) - 1)
    slots[:] = 0
    count = np.int32(0)
    for x in range(depth):
        for r in range(rankers):
            if x >= lengths[r]:
                top[r, x] = -1
                continue
            document = ids[r, x]
            slot = _slot(document, slots)
            number = slots[slot]
            while number > 0 and documents[np.uint64(number - 1)] != document:
                slot = (slot + np.uint64(1)) & mask
                number = slots[slot]
            if number == 0:
                documents[count] = document
                count += np.int32(1)
                number = count
                slots[slot] = count
            top[r, x] = number - 1
        entering[x] = count
    if check:
        slots[:count] = -1
        for r in range(rankers):
            for x in range(min(depth, lengths[r])):
                if slots[top[r, x]] == r:
                    return r
                slots[top[r, x]] = r
    return -1


@kernel
def rank_documents(ids, lengths, wanted, ranks, slots):  # type: ignore[no-untyped-def]
    """Fill ranks i4[m, R] with the ranks of the wanted documents; return the first row with a repeat, otherwise -1.

    slots i8: a hash table of `table_size(max(lengths))` entries. An entry has a row's number in its upper half and a
    rank in its lower, so the table need not be cleared between rows.
    """
    mask = np.uint64(len(slots) - 1)
    slots[:] = 0
    for r in range(len(lengths)):
        stamp = (r + 1) << 32
        for x in range(lengths[r]):
            document = ids[r, x]
            slot = _slot(document, slots)
            while slots[slot] >= stamp:
                if ids[r, np.uint64((slots[slot] & 0xFFFFFFFF) - 1)] == document:
                    return r
                slot = (slot + np.uint64(1)) & mask
            slots[slot] = stamp | (x + 1)
        for i in range(len(wanted)):
            slot = _slot(wanted[i], slots)
            ranks[i, r] = ABSENT
            while slots[slot] >= stamp:
                rank = slots[slot] & 0xFFFFFFFF
                if ids[r, np.uint64(rank - 1)] == wanted[i]:
                    ranks[i, r] = rank
                    break
                slot = (slot + np.uint64(1)) & mask
    return -1
