"""The tasks of Spark's workers, which do not need Spark themselves.

There are three, with a shuffle between them. `infer_rows` infers rows as the local engine does, and adds them up by
unit within its partition. `merge_units` gets all sums of a unit, one after another, and turns them into tallies.
`merge_found` merges the results of several partitions.

All counts travel in the rows that tasks return, so a retried task changes nothing.
"""

import json
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multileave.log.reader import RowError
from multileave.methods.base import get_method
from multileave.replay.engine import Run
from multileave.replay.inferring.batches import infer_batch
from multileave.replay.inferring.events import Actions
from multileave.replay.inferring.unit_sums import UnitRows, UnitSums
from multileave.replay.reading.files import LogFile, Part
from multileave.replay.reading.parts import Loaded
from multileave.replay.reading.preparing import EVENT_FIELDS, PREPARED, with_clicks
from multileave.replay.report import Comparison, Counts, Quarantine, Replay
from multileave.replay.spark.batches import (
    AGAIN,
    EVENTS,
    HERE,
    KEEP,
    WRONG,
    prepared_clicks,
    prepared_rows,
    row_content,
    row_place,
    with_path_unit,
)

MOST_BYTES = 1 << 24  # of units' sums that a task holds at most
INTS, FLOATS = pa.list_(pa.int64()), pa.list_(pa.float64())

# A row is the sums of a unit, or the other results of a task (`found`, a pickled `Replay`), or an invalid row.
PARTIAL = pa.schema(
    [
        ("key", pa.string()),
        ("unit", pa.string()),
        ("impressions", pa.int64()),
        ("clicks", INTS),
        ("sums", FLOATS),
        ("squares", FLOATS),
        ("found", pa.binary()),
        ("entry", pa.string()),
    ]
)
FOUND = pa.schema([("found", pa.binary())])
# `wrong` is null, or a quarantine entry; the row then has no impression_id.
CLICKS_FOUND = pa.schema([("impression_id", pa.string()), *EVENT_FIELDS, ("wrong", pa.string())])

NOWHERE = Part(LogFile(None, "", 0, 0, ()), -1, 0, 0)  # rows of a batch come from many files

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True)
class Job:
    """The settings of every task.

    separate: events come from the join. keeps_wrong: return every invalid row, not only examples.
    setup: called first, for example to register methods. method: to infer all rows with.
    """

    actions: Actions
    unit: str | None
    cap: int | None
    separate: bool
    keeps_wrong: bool
    setup: Callable[[], None] | None
    method: str | None = None


class _WrongRows(Quarantine):
    """The quarantine of a task; file and row come from the current batch."""

    def __init__(self, *, keeps: bool) -> None:
        super().__init__(None)
        self.keeps = keeps
        self.entries: list[str] = []
        self.batch: pa.RecordBatch = pa.RecordBatch.from_pydict({})

    def add(self, file: str, row_group: int, row: int | None, error: RowError, raw: Any = None, rows: int = 1) -> None:
        """Quarantine a row of the batch, with its content."""
        assert row is not None  # every row from Spark has one
        if raw is None or isinstance(raw, RowError):
            raw = row_content(self.batch, row)
        file, where = row_place(self.batch, row)
        self.keep(file, where, error, raw, rows)

    def enter(self, entry: dict[str, Any]) -> None:
        """Count an entry, and return it as a row later."""
        super().enter(entry)
        if self.keeps:
            self.entries.append(json.dumps(entry))

    def rows(self) -> pa.RecordBatch:
        """Return the entries and forget them."""
        entries, self.entries = self.entries, []
        return _partial(entry=pa.array(entries, pa.string()))


def infer_rows(job: Job, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Infer rows of a log; yield units' sums, invalid rows, and finally the other results."""
    if job.setup is not None:
        job.setup()
    wrong = _WrongRows(keeps=job.keeps_wrong)
    run = Run(job.actions, job.cap, wrong, 1, None, None if job.method is None else get_method(job.method))
    for batch in batches:
        wrong.batch = batch
        _infer(job, run, wrong, with_path_unit(batch, job.unit))
        if wrong.entries:
            yield wrong.rows()
        if sum(sums.size for sums in run.sums.values()) > MOST_BYTES:
            yield from _unit_rows(run)
    yield from _unit_rows(run)
    yield _partial(found=_pickled(run.finish(0)))


def merge_units(job: Job, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Turn units' sums, ordered by key and unit, into tallies, some units at a time; pass on other results."""
    rest: list[Replay] = []
    key, sums, last = "", None, ""
    for batch in batches:
        rest = _merged([*rest, *map(pickle.loads, batch.column("found").drop_null().to_pylist())])
        for given, units, rows in _by_key(batch, len(job.actions.names)):
            if sums is not None and (given != key or sums.size > MOST_BYTES):
                # The cap applies to a unit as a whole.
                same = int(np.argmin(np.append(_equal(units, last), False))) if given == key else 0
                if same:
                    sums.add_units(units[:same], rows[:same])
                    units, rows = units[same:], rows[same:]
                if len(units):
                    yield _tallies(job, key, sums)
                    sums = None
            if not len(units):
                continue
            if sums is None:
                key = given
                _, rankers, by_pair = json.loads(key)
                sums = UnitSums(len(rankers), len(job.actions.names), by_pair=by_pair, by_unit=job.cap is not None)
            sums.add_units(units, rows)
            last = units[-1].as_py()
    if sums is not None:
        yield _tallies(job, key, sums)
    for found in rest:
        yield pa.RecordBatch.from_arrays([_pickled(found)], schema=FOUND)


def merge_found(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Merge the results in a partition into one."""
    held: list[Replay] = []
    for batch in batches:
        for found in batch.column("found"):
            held = _merged([*held, pickle.loads(found.as_py())])
    for found in held:
        yield pa.RecordBatch.from_arrays([_pickled(found)], schema=FOUND)


def prepare_clicks(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Check rows of clicks; yield `CLICKS_FOUND`."""
    wrong = _WrongRows(keeps=True)
    for batch in batches:
        wrong.batch = batch
        for prepared in prepared_clicks(batch):
            good = prepared.batch
            yield pa.RecordBatch.from_arrays([*good.columns, pa.nulls(len(good), pa.string())], schema=CLICKS_FOUND)
            for row, error, raw in prepared.wrong:
                wrong.add("", -1, row, error, raw)
        if wrong.entries:
            entries = pa.array(wrong.entries, pa.string())
            wrong.entries = []
            nothing = [pa.nulls(len(entries), field.type) for field in CLICKS_FOUND][:-1]
            yield pa.RecordBatch.from_arrays([*nothing, entries], schema=CLICKS_FOUND)


def _infer(job: Job, run: Run, wrong: _WrongRows, batch: pa.RecordBatch) -> None:
    here = np.arange(len(batch))
    sizes = np.zeros(len(batch), dtype=np.int64)
    if job.separate:
        sizes = batch.column(EVENTS).value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        there = batch.column(HERE).fill_null(False).to_numpy(zero_copy_only=False)
        again = there & batch.column(AGAIN).fill_null(False).to_numpy(zero_copy_only=False)
        run.counts.clicks += int(sizes[~again].sum())
        run.counts.repeated_impressions += int(again.sum())
        _count_clicks_alone(run, wrong, batch, np.flatnonzero(~there), sizes)
        here = np.flatnonzero(there)
    loaded = Loaded()
    kept = batch.column(KEEP).fill_null(False).to_numpy(zero_copy_only=False)
    rows = here[kept[here]]
    loaded.filtered = len(here) - len(rows)
    loaded.rows = loaded.filtered
    for chosen, prepared in prepared_rows(batch, rows, job.unit, run.headers, dated=job.actions.window is not None):
        loaded.rows += chosen
        loaded.add(prepared)
    found = []
    for held in loaded.batches:
        if job.separate:
            held = with_clicks(held, batch.column(EVENTS).take(held.column("row")).cast(PREPARED.field("clicks").type))
        found.append(infer_batch(held, run.headers, job.actions))
    if job.separate:
        run.counts.clicks_of_other_rows += int(sizes[here].sum()) - sum(credits.events for credits in found)
    run.take(NOWHERE, loaded, found, known=job.separate)


def _count_clicks_alone(run: Run, wrong: _WrongRows, batch: pa.RecordBatch, rows: Any, sizes: Any) -> None:
    """Count the events of rows without an impression: orphans and invalid clicks."""
    for row in rows.tolist():
        entry, count = batch.column(WRONG)[row].as_py(), int(sizes[row])
        if entry is None:
            run.counts.orphan_clicks += count
            continue
        run.counts.malformed_clicks += count
        for _ in range(count):
            wrong.enter(json.loads(entry))


def _unit_rows(run: Run) -> Iterator[pa.RecordBatch]:
    """Yield the units' sums and forget them."""
    for number, sums in sorted(run.sums.items()):
        header = run.headers.known[number]
        ids, rows = sums.take_units()
        if len(ids):
            key = json.dumps([str(header.method), header.rankers, sums.by_pair])
            yield _partial(
                key=pa.array([key] * len(ids)),
                unit=ids.cast(pa.string()),
                impressions=pa.array(rows.counts),
                clicks=_lists(rows.clicks, INTS),
                sums=_lists(rows.sums, FLOATS),
                squares=_lists(rows.squares, FLOATS) if sums.by_unit else pa.nulls(len(ids), FLOATS),
            )


def _by_key(batch: pa.RecordBatch, actions: int) -> Iterator[tuple[str, pa.StringArray, UnitRows]]:
    """Yield key, ids and sums of consecutive rows with the same key."""
    batch = batch.filter(batch.column("unit").is_valid())
    if not len(batch):
        return
    codes = batch.column("key").dictionary_encode().indices.to_numpy()
    starts = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
    for start, end in zip(starts, [*starts[1:], len(batch)], strict=True):
        run = batch.slice(start, end - start)
        clicks, sums, squares = (_numbers(run.column(name), actions) for name in ("clicks", "sums", "squares"))
        rows = UnitRows(run.column("impressions").to_numpy(), clicks[:, :, 0], sums, squares)
        yield run.column("key")[0].as_py(), run.column("unit").cast(pa.string()), rows


def _numbers(lists: pa.ListArray, actions: int) -> Any:
    """Return lists of equal lengths as an array (U, A, ...), empty if all are null."""
    flat = lists.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(lists), actions, -1) if len(flat) else flat.reshape(0, actions, 1)


def _equal(units: pa.StringArray, unit: str) -> Any:
    return pc.equal(units, unit).to_numpy(zero_copy_only=False)


def _tallies(job: Job, key: str, sums: UnitSums) -> pa.RecordBatch:
    method, rankers, _ = json.loads(key)
    comparisons, left_out = [], 0
    for place, action in enumerate(job.actions.names):
        tally, left_out = sums.tally(tuple(rankers), place, job.cap)
        comparisons.append(Comparison(method, action, tally))
    found = Replay(tuple(comparisons), Counts(units_over_cap=left_out), 0)
    return pa.RecordBatch.from_arrays([_pickled(found)], schema=FOUND)


def _merged(found: list[Replay]) -> list[Replay]:
    return [reduce(Replay.merge, found)] if found else []


def _pickled(found: Replay) -> pa.BinaryArray:
    return pa.array([pickle.dumps(found)], pa.binary())


def _lists(array: Any, kind: pa.DataType) -> pa.ListArray:
    flat = np.ascontiguousarray(array).reshape(len(array), -1)
    offsets = np.arange(0, flat.size + 1, flat.shape[1], dtype=np.int32)
    return pa.ListArray.from_arrays(offsets, pa.array(flat.ravel(), kind.value_type))


def _partial(**columns: pa.Array) -> pa.RecordBatch:
    """Return rows of `PARTIAL`; columns not given are null."""
    size = len(next(iter(columns.values())))
    arrays = [columns[field.name] if field.name in columns else pa.nulls(size, field.type) for field in PARTIAL]
    return pa.RecordBatch.from_arrays(arrays, schema=PARTIAL)
