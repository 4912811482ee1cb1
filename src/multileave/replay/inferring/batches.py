"""Inferring a prepared batch: the credits of its rows, by method and rankers.

Rows in which a ranker returned nothing are inferred among the rankers that answered, as `Method.infer` does. There is
no preference about the others, which one credit per ranker cannot express, so such rows are kept by pair.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from multileave.log.reader import RowError
from multileave.outcome import TOLERANCE, Floats
from multileave.replay.inferring.arms import ArmPages, read_pages
from multileave.replay.inferring.checking import REASONS
from multileave.replay.inferring.credit import Credits, credit_batch
from multileave.replay.inferring.events import EVENTS, Actions, Array, read_events
from multileave.replay.inferring.row_keys import row_keys
from multileave.replay.reading.comparisons import Header, Headers
from multileave.stats.intervals.moments import differences, pair_positions
from multileave.stats.tally.health_counts import HealthCounts


@dataclass(eq=False)
class BatchCredits:
    """The credits of a batch.

    groups: for each header its number, and the units and credits of its valid rows. wrong: the other rows.
    arms: for each arm its number, and the units and metrics of its valid rows.
    keys: of the valid rows that have an id, see `row_keys`.
    events: how many there are; outcomes: int64, what became of them, by `EVENTS`; late, undated: of the unused.
    """

    groups: list[tuple[int, pa.StringArray, Credits]] = field(default_factory=list)
    arms: list[tuple[int, pa.StringArray, ArmPages]] = field(default_factory=list)
    wrong: list[tuple[int, RowError]] = field(default_factory=list)
    keys: Any = None
    events: int = 0
    outcomes: Any = None
    late: int = 0
    undated: int = 0


def infer_batch(batch: pa.RecordBatch, headers: Headers, actions: Actions, *, separate: bool = False) -> BatchCredits:
    """Infer a prepared batch; separate: its clicks come from other files."""
    events = read_events(batch, actions)
    found = BatchCredits(events=int(events.offsets[-1]), outcomes=np.zeros(len(EVENTS), dtype=np.int64))
    found.late, found.undated = events.late, events.undated
    numbers, units = batch.column("header").to_numpy(), batch.column("unit")
    wrong = np.zeros(len(batch), dtype=bool)
    for number, rows in _rows_by_header(batch, numbers, headers):
        credits: Credits | ArmPages
        if number < 0:
            credits = read_pages(batch, rows, events, actions)
        else:
            credits = credit_batch(batch, rows, headers.known[number], events, actions)
        found.outcomes += credits.events
        valid = credits.reasons == 0
        if not valid.all():
            where = batch.column("row").to_numpy()
            wrong[rows[~valid]] = True
            for place in np.flatnonzero(~valid).tolist():
                found.wrong.append((int(where[rows[place]]), RowError(REASONS[credits.reasons[place]])))
            rows, credits = rows[valid], credits.some(valid)
        if isinstance(credits, ArmPages):
            found.arms.append((number, units.take(pa.array(rows)), credits))
            continue
        rankers = len(headers.known[number].rankers)
        absent = _find_absent(batch, rows, rankers)
        if absent.any():
            # Their health is in the sums of the other rows.
            pairs = _infer_present(batch, rows[absent], headers.known[number], actions)
            some = replace(credits.some(absent), values=pairs, health=HealthCounts(rankers), rates=None)
            found.groups.append((headers.by_pair(number), units.take(pa.array(rows[absent])), some))
            rows, credits = rows[~absent], credits.some(~absent)
        chosen = units if len(rows) == len(batch) else units.take(pa.array(rows))
        found.groups.append((number, chosen, credits))
    found.keys = row_keys(batch, events, wrong, separate=separate)
    return found


def _rows_by_header(batch: pa.RecordBatch, numbers: Array, headers: Headers) -> Iterator[tuple[int, Array]]:
    """Yield the rows of each header; if there are segments, of each header in each segment."""
    for number in np.unique(numbers).tolist():
        rows = np.flatnonzero(numbers == number)
        if headers.segment is None or number < 0:
            yield number, rows
            continue
        coded = batch.column("segment").take(pa.array(rows)).dictionary_encode(null_encoding="encode")
        codes = coded.indices.to_numpy()
        for code, segment in enumerate(coded.dictionary.to_pylist()):
            yield headers.of_segment(number, segment), rows[codes == code]


def _find_absent(batch: pa.RecordBatch, rows: Array, rankers: int) -> Array:
    """Return which of some valid rows have a ranker that returned nothing, bool (n,)."""
    lengths = batch.column("lengths")
    if not len(rows) or (lengths.values.to_numpy(zero_copy_only=False) != 0).all():
        return np.zeros(len(rows), dtype=bool)
    found: Array = (_lengths(batch.take(pa.array(rows)), rankers) == 0).any(axis=1)
    return found


def _infer_present(batch: pa.RecordBatch, rows: Array, header: Header, actions: Actions) -> Floats:
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
        narrowed, some = _narrowed(batch.take(pa.array(rows[chosen])), header, np.flatnonzero(mask))
        values = credit_batch(narrowed, np.arange(len(chosen)), some, read_events(narrowed, actions), actions).values
        if header.method.outcome == "difference":
            values = differences(values, TOLERANCE)
        found[np.ix_(chosen, np.arange(len(actions.names)), np.flatnonzero(mask[first] & mask[second]))] = values
    return found


def _narrowed(batch: pa.RecordBatch, header: Header, answered: Array) -> tuple[pa.RecordBatch, Header]:
    """Return rows as if there were only the rankers that answered."""
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
        sizes = columns["note"].value_lengths().to_numpy()
        columns["note"] = _lists(sizes, moved[np.where(notes < rankers, notes, -1)])
    some = replace(header, rankers=tuple(header.rankers[place] for place in answered))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)), some


def _lengths(batch: pa.RecordBatch, rankers: int) -> Array:
    found: Array = batch.column("lengths").flatten().to_numpy(zero_copy_only=False).reshape(-1, rankers)
    return found


def _lists(sizes: Array, values: Any) -> pa.ListArray:
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, pa.array(np.ascontiguousarray(values), pa.int32()))
