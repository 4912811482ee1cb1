"""Keys of rows: hashes of an impression's id and of its content, to find impressions that are logged twice.

A row is identified by 128 bits. Among 100 million, the chance that any two share them is below 2e-23, so equal bits
mean the same impression. They are hashes of the id and, as each experiment may number its impressions, of the method
and the rankers; not of these if clicks are separate, as clicks refer to ids alone. The content is what inference reads:
method, rankers, k, lengths, ranks, notes, pins, unit and the events that count.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from multileave.kernels import kernel
from multileave.replay.inferring.events import Array, Events, strings

# Columns of keys: hashes of the id with its method and rankers, of the id alone, of the content; and the row's number.
IDENTITY, ID, CONTENT, ROW = range(4)
LISTS = ("lengths", "ranks", "note", "pinned")

ONE, TWO = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
HALF, BYTE, THIRD = np.uint64(32), np.uint64(8), np.uint64(29)


def row_keys(batch: pa.RecordBatch, events: Events, wrong: Array, *, separate: bool) -> Array:
    """Return the keys of prepared rows that have an id and are not wrong (bool (n,)), uint64 (m, 4).

    An empty id is none. separate: clicks are in other files.
    """
    ids, units = batch.column("impression_id"), batch.column("unit")
    starts, text = strings(ids)
    rows = np.flatnonzero((np.diff(starts) > 0) & ~wrong)
    if ids.null_count:
        rows = rows[ids.is_valid().to_numpy(zero_copy_only=False)[rows]]
    keys = np.empty((len(rows), 4), dtype=np.uint64)
    lists = [(lists.offsets.to_numpy(), _words(lists.values)) for lists in map(batch.column, LISTS)]
    hash_rows(
        rows,
        (starts, text),
        strings(units),
        _words(batch.column("header")),
        _words(batch.column("k")),
        tuple(lists),
        (events.offsets, events.positions.view(np.uint32), events.masks, events.times.view(np.uint64)),
        separate,
        keys,
    )
    keys[:, ROW] = batch.column("row").to_numpy()[rows]
    return keys


def _words(integers: pa.Int32Array) -> Any:
    return integers.to_numpy(zero_copy_only=False).view(np.uint32)


@kernel
def mixed(hashed, word, factor, shift):  # type: ignore[no-untyped-def]
    """Return a hash with one more word in it."""
    hashed = (hashed ^ word) * factor
    return hashed ^ (hashed >> shift)


@kernel
def hash_rows(rows, ids, units, headers, k, lists, events, separate, keys):  # type: ignore[no-untyped-def]
    """Fill in the first three columns of the keys of rows."""
    offsets, positions, masks, times = events
    for x in range(len(rows)):
        row = rows[x]
        header = np.uint64(headers[row])
        first, second = hash_text(ids, row)
        keys[x, IDENTITY] = mixed(first, np.uint64(0) if separate else header, ONE, HALF)
        keys[x, ID] = second
        content = mixed(hash_text(units, row)[0], header << HALF | np.uint64(k[row]), ONE, HALF)
        for each in range(len(lists)):
            content = hash_list(lists[each], row, content)
        for event in range(offsets[row], offsets[row + 1]):
            if masks[event]:
                what = np.uint64(positions[event]) << HALF | np.uint64(masks[event])
                content = mixed(mixed(content, what, ONE, HALF), times[event], ONE, HALF)
        keys[x, CONTENT] = content


@kernel
def hash_text(strings, row):  # type: ignore[no-untyped-def]
    """Return two hashes of a string: of its length, of eight bytes at a time, and of the last eight."""
    starts, text = strings
    start, end = starts[row], starts[row + 1]
    size = np.uint64(end - start)
    one, two = mixed(ONE, size, ONE, HALF), mixed(TWO, size, TWO, THIRD)
    if end - start < 8:
        word = np.uint64(0)
        for x in range(start, end):
            word = word << BYTE | np.uint64(text[x])
        return mixed(one, word, ONE, HALF), mixed(two, word, TWO, THIRD)
    place = start
    while place < end:
        at = min(place, end - 8)
        word = (
            np.uint64(text[at]) | np.uint64(text[at + 1]) << np.uint64(8) | np.uint64(text[at + 2]) << np.uint64(16)
            | np.uint64(text[at + 3]) << np.uint64(24) | np.uint64(text[at + 4]) << np.uint64(32)
            | np.uint64(text[at + 5]) << np.uint64(40) | np.uint64(text[at + 6]) << np.uint64(48)
            | np.uint64(text[at + 7]) << np.uint64(56)
        )  # fmt: skip
        one, two = mixed(one, word, ONE, HALF), mixed(two, word, TWO, THIRD)
        place += 8
    return one, two


@kernel
def hash_list(lists, row, hashed):  # type: ignore[no-untyped-def]
    """Return a hash with a list of integers in it: a sum over values and their places, which is faster than a chain."""
    starts, values = lists
    first, last = starts[row], starts[row + 1]
    total = np.uint64(last - first)
    place = np.uint64(0)
    for x in range(first, last):
        place += TWO
        product = (np.uint64(values[x]) ^ place) * ONE
        total += product ^ (product >> HALF)
    return mixed(hashed, total, ONE, HALF)
