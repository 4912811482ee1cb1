"""From parts of a log to prepared batches: choose columns, filter rows, and find invalid ones."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from multileave.errors import DataError
from multileave.log.reader import RowError, id_text, parse_line, short
from multileave.replay.reading.comparisons import Headers
from multileave.replay.reading.files import Part, unreadable
from multileave.replay.reading.preparing import (
    NEEDED,
    Prepared,
    clicks_one_by_one,
    prepare_clicks,
    prepare_rows,
    row_dicts,
    rows_one_by_one,
)

BATCH = 1 << 16  # rows
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
    """What to read of a log: the unit's column, a filter, and which optional columns."""

    unit: str | None
    filter: pc.Expression | None = None
    ids: bool = False
    times: bool = False
    documents: bool = False
    dwell: bool = False
    other: OtherFormat | None = None
    filter_columns: dict[Any, frozenset[str]] = field(default_factory=dict, compare=False)  # by schema


@dataclass(eq=False)
class Loaded:
    """The prepared batches of a part, how many rows it has and how many were filtered out, and its invalid rows."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    filtered: int = 0
    wrong: list[tuple[int, RowError, Any]] = field(default_factory=list)
    lost: list[tuple[int, RowError]] = field(default_factory=list)  # rows that could not be read

    def add(self, prepared: Prepared) -> None:
        """Add a batch."""
        if len(prepared.batch):
            self.batches.append(prepared.batch)
        self.wrong.extend(prepared.wrong)


def load(part: Part, wants: Wants, headers: Headers) -> Loaded:
    """Read and prepare a part of a log of impressions."""
    loaded = Loaded()
    if part.error is not None:
        loaded.lost.append((0, part.error))
    if not part.file.is_parquet:
        _load_lines(part, wants, headers, loaded)
    elif part.error is None:
        loaded.rows = part.rows
        try:
            _load_group(part, wants, headers, loaded)
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            known = sum(map(len, loaded.batches)) + loaded.filtered + len(loaded.wrong)
            loaded.lost.append((part.rows - known, unreadable("row group", error)))
    return loaded


def load_ids(part: Part, other: OtherFormat | None = None) -> tuple[Any, list[str | None]]:
    """Return the rows of a part, counted from 0, and their impression ids."""
    if part.file.is_parquet:
        if part.error is not None:
            return np.zeros(0, dtype=np.int64), []
        try:
            with part.file.filesystem.open_input_file(part.file.path) as opened:
                column = pq.ParquetFile(opened).read_row_group(part.row_group, columns=["impression_id"]).column(0)
            return np.arange(part.rows), column.cast(pa.string())
        except (OSError, pa.ArrowException, IndexError):
            return np.zeros(0, dtype=np.int64), []
    numbers, raws = parse(part)
    given = (lambda raw: raw.get("impression_id")) if other is None else other.impression_id
    texts = [id_text(given(raw)) if isinstance(raw, dict) else None for raw in raws]
    return np.array(numbers, dtype=np.int64) - part.first, texts


def load_clicks(part: Part, other: OtherFormat | None = None) -> Loaded:
    """Read and prepare a part of a log of clicks."""
    loaded = Loaded()
    if part.error is not None:
        loaded.lost.append((0, part.error))
    if not part.file.is_parquet:
        numbers, raws = parse(part)
        loaded.rows = len(raws)
        if other is not None:
            numbers, raws = translated(numbers, raws, other.click, loaded)
        loaded.add(clicks_one_by_one(raws, numbers))
        _give_lines(part, loaded)
    elif part.error is None:
        loaded.rows = part.rows
        start = 0
        try:
            with part.file.filesystem.open_input_file(part.file.path) as opened:
                for batch in pq.ParquetFile(opened).iter_batches(BATCH, [part.row_group], use_threads=False):
                    loaded.add(prepare_clicks(batch, range(start, start + len(batch))))
                    start += len(batch)
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            loaded.lost.append((part.rows - start, unreadable("row group", error)))
    return loaded


def parse(part: Part) -> tuple[list[int], list[Any]]:
    """Return the numbers and values of the JSON lines of a part that are not blank."""
    numbers, raws = [], []
    for number, line in enumerate(part.lines, start=part.first):
        if not line.strip():
            continue
        numbers.append(number)
        raws.append(parse_line(line))
    return numbers, raws


def translated(
    numbers: list[int], raws: list[Any], translate: Callable[[Mapping[str, Any]], Any], loaded: Loaded
) -> tuple[list[int], list[Any]]:
    """Return rows of another format as ours, or as errors; count what is neither row nor error as filtered."""
    kept, rows = [], []
    for number, raw in zip(numbers, raws, strict=True):
        try:
            row = translate(raw) if isinstance(raw, dict) else raw
            if not isinstance(row, dict | RowError | None):
                raise RowError(f"The row is {short(row)}; expected an object.")
        except RowError as error:
            row = error
        if row is None:
            loaded.filtered += 1
        else:
            kept.append(number)
            rows.append(row)
    return kept, rows


def _give_lines(part: Part, loaded: Loaded) -> None:
    """Add the text of invalid lines to their errors."""
    lines = contents(part, [number for number, _, _ in loaded.wrong])
    loaded.wrong = [(number, error, line) for (number, error, _), line in zip(loaded.wrong, lines, strict=True)]


def contents(part: Part, numbers: Sequence[int]) -> list[Any]:
    """Return the content of rows: a line's text or a dictionary, None if it cannot be read."""
    if not part.file.is_parquet:
        return [part.lines[number - part.first].decode("utf-8", "replace") for number in numbers]
    if not numbers:
        return []
    try:
        with part.file.filesystem.open_input_file(part.file.path) as opened:
            group = pq.ParquetFile(opened).read_row_group(part.row_group, use_threads=False)
        chosen = group.take(pa.array(numbers)).to_struct_array().combine_chunks()
        return row_dicts(pa.RecordBatch.from_struct_array(chosen))
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return [None] * len(numbers)


def _load_lines(part: Part, wants: Wants, headers: Headers, loaded: Loaded) -> None:
    numbers, raws = parse(part)
    loaded.rows = len(raws)
    if wants.other is not None:
        numbers, raws = translated(numbers, raws, wants.other.impression, loaded)
    if wants.filter is not None and raws:
        # The filter does not apply to what is not an object: that is kept, and found invalid.
        objects = [x for x, raw in enumerate(raws) if isinstance(raw, dict)]
        if objects:
            batch = _with_keys(_as_batch([raws[x] for x in objects]), part.file.keys)
            kept = set(np.array(objects)[_passing(batch, wants.filter)].tolist())
            dropped = set(objects) - kept
            loaded.filtered += len(dropped)
            numbers = [number for x, number in enumerate(numbers) if x not in dropped]
            raws = [raw for x, raw in enumerate(raws) if x not in dropped]
    if wants.unit in dict(part.file.keys):
        raws = [{**dict(part.file.keys), **raw} if isinstance(raw, dict) else raw for raw in raws]
    loaded.add(rows_one_by_one(raws, numbers, wants.unit, headers))
    _give_lines(part, loaded)


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
    """Return the positions of rows that pass a filter."""
    numbered = pa.Table.from_batches([batch]).append_column("__place", pa.array(np.arange(len(batch))))
    try:
        return numbered.filter(condition).column("__place").to_numpy()
    except (pa.ArrowException, KeyError) as error:
        raise DataError(f"The filter {condition} does not fit the log: {' '.join(str(error).split())[:300]}") from error


def _with_keys(batch: pa.RecordBatch, keys: tuple[tuple[str, str], ...]) -> pa.RecordBatch:
    for key, value in keys:
        if key not in batch.schema.names:
            batch = batch.append_column(key, pa.array([value] * len(batch), pa.string()))
    return batch


def _load_group(part: Part, wants: Wants, headers: Headers, loaded: Loaded) -> None:
    with part.file.filesystem.open_input_file(part.file.path) as opened:
        plain = pq.ParquetFile(opened)
        filtered_by = _filter_columns(wants, plain.schema_arrow, part.file.keys)
        columns = _columns(plain, part, wants, filtered_by)
        start = 0
        for raw in _coded_batches(opened, plain, part, columns, filtered_by):
            batch, rows = _with_keys(raw, part.file.keys), np.arange(start, start + len(raw))
            start += len(raw)
            if wants.filter is not None:
                passing = _passing(batch, wants.filter)
                loaded.filtered += len(batch) - len(passing)
                batch, rows = batch.take(pa.array(passing)), rows[passing]

            def whole(rows: Any = rows) -> pa.RecordBatch:
                found = plain.read_row_group(part.row_group).take(pa.array(rows)).to_struct_array().combine_chunks()
                return _with_keys(pa.RecordBatch.from_struct_array(found), part.file.keys)

            if len(rows):
                loaded.add(prepare_rows(batch, rows, wants.unit, headers, whole))


def _filter_columns(wants: Wants, schema: pa.Schema, keys: tuple[tuple[str, str], ...]) -> frozenset[str]:
    """Return the columns that the filter reads.

    Arrow does not say which columns an expression reads, so it is tried on no rows, leaving out one column at a time.
    """
    if wants.filter is None:
        return frozenset()
    known = schema, tuple(key for key, _ in keys)
    if known not in wants.filter_columns:
        nothing = _with_keys(pa.RecordBatch.from_pylist([], schema=schema), keys)
        _passing(nothing, wants.filter)  # raises an error if it does not fit
        needed = set()
        for name in set(nothing.schema.names):
            try:
                _passing(nothing.drop_columns([name]), wants.filter)
            except DataError:
                needed.add(name)
        wants.filter_columns[known] = frozenset(needed)
    return wants.filter_columns[known]


def _coded_batches(
    opened: pa.NativeFile, plain: pq.ParquetFile, part: Part, columns: list[str], as_they_are: frozenset[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a row group, with repetitive columns dictionary-encoded if Arrow can."""
    leaves = [plain.schema.column(x) for x in range(len(plain.schema))]
    names = set(CODED) - as_they_are
    coded = [x.path for x in leaves if x.path.partition(".")[0] in names and x.physical_type == "BYTE_ARRAY"]
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


def _columns(file: pq.ParquetFile, part: Part, wants: Wants, filtered_by: frozenset[str]) -> list[str]:
    """Return the columns to read; documents only if a click has no position."""
    names = set(file.schema_arrow.names)
    wanted = [*NEEDED, *([wants.unit] if wants.unit else []), *(["impression_id"] if wants.ids else [])]
    if wants.times:
        wanted.append("timestamp")
    leaves = [file.schema.column(x).path for x in range(len(file.schema))]
    events = {path.rpartition(".")[2]: path for path in leaves if path.startswith("clicks.")}
    documents = wants.documents
    if "clicks" in names and not wants.ids:
        documents = "position" not in events
        if not documents:
            held = file.read_row_group(part.row_group, columns=[events["position"]], use_threads=False)
            documents = any(_has_nulls(chunk) for chunk in held.column(0).chunks)
        fields = ["position", "action", "timestamp", *(["dwell"] if wants.dwell else [])]
        chosen = [events[name] for name in (*fields, *(["document"] if documents else [])) if name in events]
        wanted.extend(chosen or ["clicks"])
    if documents:
        wanted.extend(["shown", "ids"])
    # A whole column includes its parts.
    wanted = [name for name in wanted if name.partition(".")[0] not in filtered_by] + sorted(filtered_by)
    return [name for name in wanted if name.partition(".")[0] in names]


def _has_nulls(lists: pa.Array) -> bool:
    """Return whether the one field of a list of structs has nulls, or the type is another."""
    if not pa.types.is_list(lists.type) or not pa.types.is_struct(lists.type.value_type):
        return True
    events = lists.flatten()
    return bool(events.null_count or events.field(0).null_count)
