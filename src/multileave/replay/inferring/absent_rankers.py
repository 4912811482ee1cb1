"""Rows in which a ranker returned nothing: inferred among the rankers that answered, as `Method.infer` does.

What they say cannot be written as one credit for every ranker, as there is no preference about those
that did not answer; it is kept by pair.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from multileave.outcome import TOLERANCE, Floats
from multileave.replay.inferring.credit import Actions, Array, Credits, credit_batch, read_events
from multileave.replay.reading.comparisons import Header
from multileave.stats.intervals.moments import differences, pair_positions

__all__ = ["find_absent", "preferences_among_present"]


def find_absent(batch: pa.RecordBatch, rows: Array, rankers: int) -> Array:
    """Return which of some rows, checked before, have a ranker that returned nothing, bool (n,)."""
    lengths = batch.column("lengths")
    if not len(rows) or (lengths.values.to_numpy(zero_copy_only=False) != 0).all():
        return np.zeros(len(rows), dtype=bool)
    found: Array = (_lengths(batch.take(pa.array(rows)), rankers) == 0).any(axis=1)
    return found


def preferences_among_present(batch: pa.RecordBatch, rows: Array, header: Header, actions: Actions) -> Floats:
    """Return the preferences by pair of rows with absent rankers, (n, A, P)."""
    rankers = len(header.rankers)
    found = np.zeros((len(rows), len(actions.names), rankers * (rankers - 1) // 2))
    present = _lengths(batch.take(pa.array(rows)), rankers) > 0
    masks, which = np.unique(present, axis=0, return_inverse=True)
    first, second = pair_positions(rankers)
    for number, mask in enumerate(masks):
        if mask.sum() < 2:
            continue
        chosen = np.flatnonzero(which.ravel() == number)
        credits = _among(batch.take(pa.array(rows[chosen])), header, mask, actions)
        values = credits.values
        if header.method.outcome == "difference":
            values = differences(values, TOLERANCE)
        found[np.ix_(chosen, np.arange(len(actions.names)), np.flatnonzero(mask[first] & mask[second]))] = values
    return found


def _among(batch: pa.RecordBatch, header: Header, mask: Array, actions: Actions) -> Credits:
    """Infer rows as if there were only some of the rankers."""
    answered = np.flatnonzero(mask)
    narrowed = _narrowed(batch, header, answered)
    some = replace(header, rankers=tuple(header.rankers[place] for place in answered))
    return credit_batch(narrowed, np.arange(len(batch)), some, read_events(narrowed, actions), actions)


def _narrowed(batch: pa.RecordBatch, header: Header, answered: Array) -> pa.RecordBatch:
    """Return rows without the lengths and ranks of the others, and with notes that name those left."""
    rankers = len(header.rankers)
    columns = {name: batch.column(name) for name in batch.schema.names}
    for name in ("lengths", "ranks"):
        flat = columns[name].flatten().to_numpy(zero_copy_only=False).reshape(-1, rankers)[:, answered]
        sizes = columns[name].value_lengths().to_numpy() // rankers * len(answered)
        columns[name] = _lists(sizes, flat.ravel())
    if header.method.note_is_ranker:
        moved = np.full(rankers + 1, -1, dtype=np.int32)
        moved[answered] = np.arange(len(answered))
        notes = columns["note"].flatten().to_numpy(zero_copy_only=False)
        columns["note"] = _lists(
            columns["note"].value_lengths().to_numpy(), moved[np.where(notes < rankers, notes, -1)]
        )  # fmt: skip
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _lengths(batch: pa.RecordBatch, rankers: int) -> Array:
    found: Array = batch.column("lengths").flatten().to_numpy(zero_copy_only=False).reshape(-1, rankers)
    return found


def _lists(sizes: Array, values: Any) -> pa.ListArray:
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, pa.array(np.ascontiguousarray(values), pa.int32()))
