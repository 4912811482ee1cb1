"""From parts of a log to prepared batches: choose columns, filter rows, and find invalid ones."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import and_
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from multileave.errors import DataError
from multileave.log.reader import RowError, id_text, parse_line
from multileave.replay.reading.comparisons import Headers
from multileave.replay.reading.files import Part, unreadable
from multileave.replay.reading.preparing import (
    NEEDED,
    Prepared,
    clicks_one_by_one,
    fits,
    lacks_positions,
    one_by_one,
    prepare_clicks,
    prepare_rows,
    row_dicts,
    rows_one_by_one,
)
from multileave.replay.report import quarantine_entry

BATCH = 1 << 16  # rows
Translate: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any] | None]
CODED = ("method", "rankers")  # repetitive, so read dictionary-encoded


class OtherFormat(Protocol):
    """How JSON objects in another format become rows of ours; None for objects that are something else."""

    def impression_id(self, raw: Mapping[str, Any]) -> Any:
        """Return the id by which events refer to an impression."""

    def impression(self, raw: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return a row of impressions, or raise `RowError`."""

    def click(self, raw: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return a row of clicks, or raise `RowError`."""


@dataclass(frozen=True)
class Wants:
    """What to read of a log: the unit's column, a filter, whether clicks are separate, and which optional columns."""

    unit: str | None
    filter: pc.Expression | None = None
    separate: bool = False
    times: bool = False
    documents: bool = False
    dwell: bool = False
    other: OtherFormat | None = None


@dataclass(eq=False)
class Loaded:
    """The prepared batches of a part, and how many rows it has, how many were filtered out, are repeated or invalid."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    filtered: int = 0
    repeated: int = 0
    wrong: list[tuple[int, RowError]] = field(default_factory=list)
    lost: list[tuple[int, RowError]] = field(default_factory=list)  # rows that could not be read

    @property
    def known(self) -> int:
        """How many rows have been read, valid or not."""
        return sum(map(len, self.batches)) + self.filtered + len(self.wrong)

    def add(self, prepared: Prepared) -> None:
        """Add a batch."""
        if len(prepared.batch):
            self.batches.append(prepared.batch)
        self.wrong.extend(prepared.wrong)
        self.filtered += prepared.filtered

    def leave_out(self, repeated: Any, first: int = 0) -> None:
        """Leave out repeated rows, bool by row number less `first`."""
        for x, batch in enumerate(self.batches):
            again = repeated[batch.column("row").to_numpy() - first]
            self.repeated += int(again.sum())
            self.batches[x] = batch.filter(pa.array(~again)) if again.any() else batch

    def entries(self, part: Part) -> list[dict[str, Any]]:
        """Return the invalid and the lost rows as entries of the quarantine."""
        group = {"row_group": part.row_group} if part.file.is_parquet and part.row_group >= 0 else {}
        number = "row" if part.file.is_parquet else "line"
        content = contents(part, [row for row, _ in self.wrong])
        wrong = [
            quarantine_entry(part.file.path, {**group, number: row}, error, raw)
            for (row, error), raw in zip(self.wrong, content, strict=True)
        ]
        return [*wrong, *(quarantine_entry(part.file.path, group, error, rows=rows) for rows, error in self.lost)]


def load(part: Part, wants: Wants, headers: Headers) -> Loaded:
    """Read and prepare a part of a log of impressions."""
    return _load(part, partial(_load_lines, wants, headers), partial(_load_group, wants, headers))


def load_clicks(part: Part, other: OtherFormat | None = None) -> Loaded:
    """Read and prepare a part of a log of clicks."""
    translate = None if other is None else other.click
    return _load(part, lambda part: [clicks_one_by_one(*parse(part, translate))], _load_click_group)


def load_lines(part: Part, read: Callable[[Any], dict[str, Any] | None], schema: pa.Schema) -> Loaded:
    """Read a part of JSON lines into rows of a schema; read: returns a row, None for something else."""
    return _load(part, lambda part: [one_by_one(*parse(part), read, schema)], lambda part: [])


def _load(
    part: Part, lines: Callable[[Part], Iterable[Prepared]], group: Callable[[Part], Iterable[Prepared]]
) -> Loaded:
    loaded = Loaded()
    if part.error is not None:
        loaded.lost.append((0, part.error))
    parquet = part.file.is_parquet
    try:
        for prepared in group(part) if parquet and part.error is None else lines(part):
            loaded.add(prepared)
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        loaded.lost.append((part.rows - loaded.known, unreadable("row group", error)))
    loaded.rows = part.rows if parquet else loaded.known
    return loaded


def load_ids(part: Part, other: OtherFormat | None = None) -> tuple[Any, pa.StringArray]:
    """Return the rows of a part, counted from 0, and their impression ids."""
    if not part.file.is_parquet:
        raws, numbers = parse(part)
        given = (lambda raw: raw.get("impression_id")) if other is None else other.impression_id
        texts = [id_text(given(raw)) if isinstance(raw, dict) else None for raw in raws]
        return np.array(numbers, dtype=np.int64) - part.first, pa.array(texts, pa.string())
    try:
        with part.file.filesystem.open_input_file(part.file.path) as opened:
            column = pq.ParquetFile(opened).read_row_group(part.row_group, columns=["impression_id"]).column(0)
        return np.arange(part.rows), column.cast(pa.string()).combine_chunks()
    except (OSError, pa.ArrowException, IndexError):
        return np.zeros(0, dtype=np.int64), pa.array([], pa.string())


def parse(part: Part, translate: Translate | None = None) -> tuple[list[Any], list[int]]:
    """Return the rows and numbers of the JSON lines of a part that are not blank."""
    numbered = [(number, line) for number, line in enumerate(part.lines, start=part.first) if line.strip()]
    return parse_lines((line for _, line in numbered), translate), [number for number, _ in numbered]


def parse_lines(lines: Iterable[bytes], translate: Translate | None = None) -> list[Any]:
    """Return the objects of JSON lines; a `RowError` for an invalid one, None for one that is something else."""
    rows: list[Any] = []
    for line in lines:
        try:
            row = parse_line(line)
            rows.append(row if translate is None else translate(row))
        except RowError as error:
            rows.append(error)
    return rows


def contents(part: Part, numbers: Sequence[int]) -> list[Any]:
    """Return the content of rows: a line's text or a dictionary, None if it cannot be read."""
    if not part.file.is_parquet:
        return [part.lines[number - part.first].decode("utf-8", "replace") for number in numbers]
    if not numbers:
        return []
    try:
        with part.file.filesystem.open_input_file(part.file.path) as opened:
            return row_dicts(_whole_rows(pq.ParquetFile(opened), part, numbers))
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return [None] * len(numbers)


def _whole_rows(file: pq.ParquetFile, part: Part, rows: Any) -> pa.RecordBatch:
    """Return rows of a row group with all their columns."""
    group = file.read_row_group(part.row_group, use_threads=False)
    return pa.RecordBatch.from_struct_array(group.take(pa.array(rows)).to_struct_array().combine_chunks())


def _load_lines(wants: Wants, headers: Headers, part: Part) -> Iterator[Prepared]:
    raws, numbers = parse(part, None if wants.other is None else wants.other.impression)
    if wants.filter is not None:
        # The filter does not apply to what is not an object: that is kept, and found invalid.
        objects = [x for x, raw in enumerate(raws) if isinstance(raw, dict)]
        batch = _with_keys(_as_batch([raws[x] for x in objects]), part.file.keys)
        for x in np.array(objects)[~_passing(batch, wants.filter)].tolist():
            raws[x] = None
    if {wants.unit, headers.segment} & dict(part.file.keys).keys():
        raws = [{**dict(part.file.keys), **raw} if isinstance(raw, dict) else raw for raw in raws]
    yield rows_one_by_one(raws, numbers, wants.unit, headers)


def _as_batch(raws: Sequence[Any]) -> pa.RecordBatch:
    """Return parsed JSON objects as a batch to filter; a field of mixed types becomes JSON text."""
    names = dict.fromkeys(name for raw in raws for name in raw)
    columns = {}
    for name in names:
        values = [raw.get(name) for raw in raws]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowException, OverflowError, UnicodeError, ValueError, TypeError):
            columns[name] = pa.array([None if value is None else json.dumps(value) for value in values])
    return pa.RecordBatch.from_pydict(columns)


def _passing(batch: pa.RecordBatch, condition: pc.Expression) -> Any:
    """Return which rows pass a filter, bool (n,)."""
    numbered = pa.Table.from_batches([batch]).append_column("__place", pa.array(np.arange(len(batch))))
    passing = np.zeros(len(batch), dtype=bool)
    try:
        passing[numbered.filter(condition).column("__place").to_numpy()] = True
    except (pa.ArrowException, KeyError) as error:
        raise DataError(f"The filter {condition} does not fit the log: {' '.join(str(error).split())[:300]}") from error
    return passing


def _with_keys(batch: pa.RecordBatch, keys: tuple[tuple[str, str], ...]) -> pa.RecordBatch:
    for key, value in keys:
        if key not in batch.schema.names:
            batch = batch.append_column(key, pa.array([value] * len(batch), pa.string()))
    return batch


def _load_group(wants: Wants, headers: Headers, part: Part) -> Iterator[Prepared]:
    with part.file.filesystem.open_input_file(part.file.path) as opened:
        plain = pq.ParquetFile(opened)
        passing = np.ones(part.rows, dtype=bool)
        if wants.filter is not None:
            passing = _passing_rows(part, plain.schema_arrow, wants.filter)
        start = 0
        for raw in _coded_batches(opened, plain, part, _columns(plain, part, wants, headers.segment)):
            chosen = np.flatnonzero(passing[start : start + len(raw)])
            rows = start + chosen
            start += len(raw)
            if len(chosen) < len(raw):
                yield Prepared(raw.slice(0, 0), [], len(raw) - len(chosen))
                raw = raw.take(pa.array(chosen))

            def whole(rows: Any = rows) -> pa.RecordBatch:
                return _with_keys(_whole_rows(plain, part, rows), part.file.keys)

            if len(rows):
                yield prepare_rows(_with_keys(raw, part.file.keys), rows, wants.unit, headers, whole)


def _load_click_group(part: Part) -> Iterator[Prepared]:
    start = 0
    with part.file.filesystem.open_input_file(part.file.path) as opened:
        for batch in pq.ParquetFile(opened).iter_batches(BATCH, [part.row_group], use_threads=False):
            yield prepare_clicks(batch, range(start, start + len(batch)))
            start += len(batch)


def _passing_rows(part: Part, schema: pa.Schema, condition: pc.Expression) -> Any:
    """Return which rows of a row group pass a filter, bool (n,); Arrow finds the columns that it reads."""
    import pyarrow.dataset as pads  # only with a filter, as it takes a while

    nothing = _with_keys(pa.RecordBatch.from_pylist([], schema=schema), part.file.keys)
    _passing(nothing, condition)  # raises an error if it does not fit the log
    keys = [pc.field(key) == value for key, value in part.file.keys if key not in schema.names]
    group = pads.ParquetFileFormat().make_fragment(
        part.file.path, part.file.filesystem, reduce(and_, keys, pc.scalar(True)), row_groups=[part.row_group]
    )
    passing = group.to_table(nothing.schema, columns={"passing": condition}, use_threads=False).column(0)
    return passing.fill_null(False).to_numpy()


def _coded_batches(
    opened: pa.NativeFile, plain: pq.ParquetFile, part: Part, columns: list[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a row group, with repetitive columns dictionary-encoded if Arrow can."""
    leaves = [plain.schema.column(x) for x in range(len(plain.schema))]
    coded = [x.path for x in leaves if x.path.partition(".")[0] in CODED and x.physical_type == "BYTE_ARRAY"]
    file = pq.ParquetFile(opened, metadata=plain.metadata, read_dictionary=coded)
    done = 0
    try:
        for batch in _batches(file, part, columns):
            yield batch
            done += len(batch)
    except pa.ArrowNotImplementedError:  # names in a list whose dictionary changes within the row group
        for batch in _batches(plain, part, columns):
            skipped = min(done, len(batch))
            done -= skipped
            if skipped < len(batch):
                yield batch.slice(skipped)


def _batches(file: pq.ParquetFile, part: Part, columns: list[str]) -> Iterator[pa.RecordBatch]:
    if part.rows > 2 * BATCH:
        yield from file.iter_batches(BATCH, [part.row_group], columns=columns, use_threads=False)
    else:  # as a whole, which is faster
        yield from file.read_row_group(part.row_group, columns=columns, use_threads=False).to_batches(BATCH)


def _columns(file: pq.ParquetFile, part: Part, wants: Wants, segment: str | None) -> list[str]:
    """Return the columns to read; documents only if a click has no position."""
    names = set(file.schema_arrow.names)
    wanted = [*NEEDED, "stat", *dict.fromkeys(name for name in (wants.unit, segment) if name)]
    # Ids of other types are of no use, but also do no harm if no click refers to them.
    if wants.separate or (
        "impression_id" in names and fits(file.schema_arrow.field("impression_id").type, pa.string())
    ):
        wanted.append("impression_id")
    if wants.times:
        wanted.append("timestamp")
    leaves = [file.schema.column(x).path for x in range(len(file.schema))]
    events = {path.rpartition(".")[2]: path for path in leaves if path.startswith("clicks.")}
    documents = wants.documents
    if "clicks" in names and not wants.separate:
        held = file.read_row_group(part.row_group, columns=[events.get("position", "clicks")], use_threads=False)
        documents = any(lacks_positions(chunk) for chunk in held.column(0).chunks)
        fields = ["position", "action", "timestamp", "value", *(["dwell"] if wants.dwell else [])]
        chosen = [events[name] for name in (*fields, *(["document"] if documents else [])) if name in events]
        wanted.extend(chosen or ["clicks"])
    if documents:
        wanted.extend(["shown", "ids"])
    return [name for name in wanted if name.partition(".")[0] in names]
