"""Documents of one query by number: how a draw and inference know them.

Documents are integers here, whatever they stand for: ids of the user's, or codes from 0 on, one for each document.
"""

import numpy as np

from multileave.impression import ABSENT
from multileave.kernels import kernel

__all__ = ["number_documents", "rank_documents", "rank_numbered", "table_size", "take_codes"]


def table_size(entries: int) -> int:
    """Return how long a hash table is: a power of two at least twice as large, so that its chains stay short."""
    return 1 << int(2 * entries).bit_length()


@kernel
def _slot(document, slots):  # type: ignore[no-untyped-def]
    """Return where to look first for a document: the upper bits of its product with 2**64 / phi."""
    mixed = np.uint64(document) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(32)) & np.uint64(len(slots) - 1)


@kernel
def number_documents(ids, lengths, check, direct, top, entering, documents, slots):  # type: ignore[no-untyped-def]
    """Number documents column by column; return the row of a repeat if `check`, else -1.

    `slots` i4 has numbers plus one: if `direct` an entry for every integer that `ids` may hold, else a hash table of
    `table_size(top.size)` entries.
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
            slot = np.uint64(document) if direct else _slot(document, slots)
            number = slots[slot]
            while number > 0 and not direct and documents[np.uint64(number - 1)] != document:
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
def take_codes(codes, lengths, top, entering, count):  # type: ignore[no-untyped-def]
    """Take `count` codes as they are for numbers, where these need not be in the order of the best ranks."""
    rankers, depth = top.shape
    for x in range(depth):
        entering[x] = count
        for r in range(rankers):
            top[r, x] = codes[r, x] if x < lengths[r] else -1


@kernel
def rank_documents(ids, lengths, wanted, ranks, slots):  # type: ignore[no-untyped-def]
    """Find the ranks of the wanted documents; return the row of a repeat, else -1.

    `slots` i8 is a hash table of `table_size(max(lengths))` entries; an entry is a row's number in the upper
    half and a rank in the lower, so that it need not be cleared between rows.
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


@kernel
def rank_numbered(numbers, lengths, wanted, ranks, slots):  # type: ignore[no-untyped-def]
    """Find the ranks of the wanted numbers as `rank_documents` does, with an entry in `slots` for every number."""
    slots[:] = 0
    for r in range(len(lengths)):
        stamp = (r + 1) << 32
        for x in range(lengths[r]):
            number = np.uint64(numbers[r, x])
            if slots[number] >= stamp:
                return r
            slots[number] = stamp | (x + 1)
        for i in range(len(wanted)):
            found = slots[np.uint64(wanted[i])]
            ranks[i, r] = found & 0xFFFFFFFF if found >= stamp else ABSENT
    return -1
