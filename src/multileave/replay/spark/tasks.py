"""The tasks of Spark's workers, which do not need Spark themselves.

There are two, with a shuffle between them. `infer_rows` infers rows as the local engine does, and adds them up by unit
within its partition. `merge_units` gets all sums of a unit, one after another, and turns them into tallies.

All counts travel in the rows that tasks return, so a retried task changes nothing.
"""

import json
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multileave.replay.inferring.batches import BatchCredits
from multileave.replay.inferring.row_keys import ID, IDENTITY, ROW
from multileave.replay.reading.parts import Loaded
from multileave.replay.reading.preparing import EVENT_FIELDS, PREPARED, with_clicks
from multileave.replay.repeats import repeats_of
from multileave.replay.report import Counts, Quarantine, Replay
from multileave.replay.run import Run, Settings
from multileave.replay.spark.batches import (
    AGAIN,
    EVENTS,
    HERE,
    KEEP,
    WRONG,
    prepared_clicks,
    prepared_rows,
    with_path_key,
    wrong_rows,
)

MOST_BYTES = 1 << 24  # of units' sums that a task holds before it passes them on
SUMS = pa.list_(pa.float64())

# A row is the sums of a unit, or the other results of a task (`found`, a pickled `Replay`), or an invalid row.
PARTIAL = pa.schema(
    [
        ("key", pa.string()),
        ("unit", pa.string()),
        ("impressions", pa.int64()),
        ("sums", SUMS),
        ("found", pa.binary()),
        ("entry", pa.string()),
    ]
)
FOUND = pa.schema([("found", pa.binary())])
# `wrong` is null, or a quarantine entry; the row then has no impression_id.
CLICKS_FOUND = pa.schema([("impression_id", pa.string()), *EVENT_FIELDS, ("wrong", pa.string())])

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True)
class Job:
    """The settings of every task.

    separate: events come from the join. keeps_wrong: return every invalid row, not only examples.
    repeats: ids may be repeated, and rows are ordered by id.
    setup: called first, for example to register methods.
    """

    settings: Settings
    separate: bool = False
    keeps_wrong: bool = False
    repeats: bool = False
    setup: Callable[[], None] | None = None


class _WrongRows(Quarantine):
    """The quarantine of a task, which returns its entries as rows; keeps: all of them, not only examples."""

    def __init__(self, *, keeps: bool) -> None:
        super().__init__()
        self.keeps = keeps
        self.entries: list[str] = []

    def write(self, entry: dict[str, Any]) -> None:
        """Keep an entry."""
        if self.keeps:
            self.entries.append(json.dumps(entry))


def infer_rows(job: Job, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Infer rows of a log; yield units' sums, invalid rows, and finally the other results."""
    if job.setup is not None:
        job.setup()
    wrong = _WrongRows(keeps=job.keeps_wrong)
    run = Run(job.settings, wrong, separate=job.separate)
    repeats = _Repeats() if job.repeats else None
    for batch in batches:
        batch = with_path_key(with_path_key(batch, job.settings.unit), job.settings.segment)
        _infer(job, run, batch, repeats)
        if wrong.entries:
            yield _rows(PARTIAL, entry=pa.array(wrong.entries))
            wrong.entries.clear()
        if sum(sums.size for _, sums in run.all_sums()) > MOST_BYTES:
            yield from _unit_rows(run)
    yield from _unit_rows(run)
    yield _rows(PARTIAL, found=_pickled(run.finish()))


def merge_units(job: Job, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Turn units' sums, those of a unit adjacent, into tallies, and merge the other results into them."""
    if job.setup is not None:
        job.setup()
    run = Run(replace(job.settings, method=None), Quarantine())
    held = Replay((), Counts(), 0)
    for batch in batches:
        held = reduce(Replay.merge, map(pickle.loads, batch.column("found").drop_null().to_pylist()), held)
        for key in batch.column("key").drop_null().unique():
            some = batch.filter(pc.equal(batch.column("key"), key))
            method, rankers, by_pair, segment = json.loads(key.as_py())
            number = run.headers.number(method, tuple(rankers))
            flat = some.column("sums").flatten().to_numpy()
            counts = some.column("impressions").to_numpy()
            if number < 0:
                run.arm_units(number).add_units(some.column("unit"), counts, flat)
                continue
            number = number if segment is None else run.headers.of_segment(number, segment)
            sums = run.sums(run.headers.by_pair(number) if by_pair else number)
            sums.add_units(some.column("unit"), counts, flat)
    yield _rows(FOUND, found=_pickled(held.merge(run.finish())))


def prepare_clicks(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Check rows of clicks; yield `CLICKS_FOUND`."""
    for batch in batches:
        for prepared in prepared_clicks(batch):
            good = prepared.batch
            yield _rows(CLICKS_FOUND, **dict(zip(good.schema.names, good.columns, strict=True)))
            if prepared.wrong:
                entries = [json.dumps(entry) for entry in wrong_rows(batch, prepared.wrong)]
                yield _rows(CLICKS_FOUND, wrong=pa.array(entries))


class _Repeats:
    """Finds repeated rows in batches in which rows with the same id are adjacent."""

    def __init__(self) -> None:
        self._last: Any = np.zeros((0, 4), dtype=np.uint64)  # keys of the rows that count for the last id

    def find(self, size: int, counts: Counts, found: list[BatchCredits]) -> Any:
        """Return which rows of a batch repeat an earlier one, bool (size,), and count those in conflict."""
        here = np.concatenate([self._last[:0], *(credits.keys for credits in found)])
        keys = np.concatenate([self._last, here[np.argsort(here[:, ROW])]])
        last = keys[-1:, ID]
        keys = keys[np.lexsort((np.arange(len(keys)), keys[:, ID], keys[:, IDENTITY]))]
        again, conflicts = repeats_of(keys)
        counts.conflicting_impressions += conflicts
        self._last = keys[~again & np.isin(keys[:, ID], last)]
        repeated = np.zeros(size, dtype=bool)
        repeated[keys[again, ROW].astype(np.int64)] = True
        return repeated


def _infer(job: Job, run: Run, batch: pa.RecordBatch, repeats: _Repeats | None) -> None:
    here = np.arange(len(batch))
    if job.separate:
        sizes = batch.column(EVENTS).value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        there = batch.column(HERE).fill_null(False).to_numpy(zero_copy_only=False)
        again = there & (batch.column(AGAIN).to_numpy(zero_copy_only=False) if job.repeats else False)
        run.counts.clicks += int(sizes[~again].sum())
        _count_clicks_alone(run, batch, np.flatnonzero(~there), sizes)
        here = np.flatnonzero(there)
    kept = batch.column(KEEP).fill_null(False).to_numpy(zero_copy_only=False)
    rows = here[kept[here]]
    loaded = Loaded(filtered=len(here) - len(rows))
    dated = job.settings.actions.window is not None
    for prepared in prepared_rows(batch, rows, job.settings.unit, run.headers, dated=dated):
        loaded.add(prepared)
    loaded.rows = loaded.known
    if job.separate:
        clicks, kind = batch.column(EVENTS), PREPARED.field("clicks").type
        loaded.batches = [with_clicks(held, clicks.take(held.column("row")).cast(kind)) for held in loaded.batches]
    found = run.infer(loaded, None if repeats is None else partial(repeats.find, len(batch), run.counts))
    run.take(loaded, found, wrong_rows(batch, loaded.wrong))


def _count_clicks_alone(run: Run, batch: pa.RecordBatch, rows: Any, sizes: Any) -> None:
    """Count the events of rows without an impression: orphans and invalid clicks."""
    for row in rows.tolist():
        entry, count = batch.column(WRONG)[row].as_py(), int(sizes[row])
        if entry is None:
            run.counts.orphan_clicks += count
        else:
            run.counts.malformed_clicks += run.quarantine.add([json.loads(entry)] * count)


def _unit_rows(run: Run) -> Iterator[pa.RecordBatch]:
    """Yield the units' sums and forget them."""
    for number, sums in run.all_sums():
        ids, counts, values = sums.take_units()
        if len(ids):
            key = json.dumps(run.headers.spelled(number))
            offsets = np.arange(len(ids) + 1, dtype=np.int32) * (values.size // len(ids))
            yield _rows(
                PARTIAL,
                key=pa.array([key] * len(ids)),
                unit=ids.cast(pa.string()),
                impressions=pa.array(counts),
                sums=pa.ListArray.from_arrays(offsets, pa.array(values.ravel())),
            )


def _pickled(found: Replay) -> pa.BinaryArray:
    return pa.array([pickle.dumps(found)], pa.binary())


def _rows(schema: pa.Schema, **columns: pa.Array) -> pa.RecordBatch:
    """Return rows of a schema; columns not given are null."""
    size = len(next(iter(columns.values())))
    arrays = [columns[field.name] if field.name in columns else pa.nulls(size, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
