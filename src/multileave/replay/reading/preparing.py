"""From raw Arrow batches to prepared ones: by columns if all rows are valid, otherwise row by row.

The columns are what makes replay fast. They do not say what a valid row is: a batch that is not plainly valid as a
whole is passed to `multileave.log.reader`, which does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multileave.impression import FORMAT_VERSION
from multileave.log.reader import LARGEST_VALUE, RowError, read_click, read_name, read_row
from multileave.log.schema import EVENT, TIME
from multileave.replay.reading.comparisons import Headers

NEEDED = ("version", "method", "rankers", "k", "pinned", "lengths", "ranks", "note")
INTS = pa.list_(pa.int32())
FLOATS = pa.list_(pa.float64())
EVENT_FIELDS = [pa.field("time", pa.int64()) if field.name == "timestamp" else field for field in EVENT]
CLICK_ROWS = pa.schema([pa.field("impression_id", pa.string()), *EVENT_FIELDS])

# All that inference needs of a row: `header` numbers its method and rankers, `documents` are the shown ids as text,
# times are in microseconds, and `row` is its number in the part it comes from.
PREPARED = pa.schema(
    [
        ("impression_id", pa.string()),
        ("unit", pa.string()),
        ("segment", pa.string()),
        ("time", pa.int64()),
        ("header", pa.int32()),
        ("k", pa.int32()),
        ("lengths", INTS),
        ("ranks", INTS),
        ("note", INTS),
        ("stat", FLOATS),
        ("pinned", INTS),
        ("documents", pa.list_(pa.string())),
        ("clicks", pa.list_(pa.struct(EVENT_FIELDS))),
        ("row", pa.int64()),
    ]
)


# What is raised if columns do not fit, also by Arrow for the types of a damaged file.
UNFIT = (pa.ArrowException, RowError, KeyError, ValueError, AttributeError, TypeError)


class DoesNotFit(ValueError):
    """A batch whose columns do not follow the schema; its rows are read one by one."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """The valid rows of a batch, the number and error of each invalid one, and how many were filtered out."""

    batch: pa.RecordBatch
    wrong: list[tuple[int, RowError]]
    filtered: int = 0


def prepare_rows(
    raw: pa.RecordBatch, numbers: Any, unit: str | None, headers: Headers, whole: Callable[[], pa.RecordBatch]
) -> Prepared:
    """Prepare a batch of impressions.

    numbers: int64 (n,), of its rows in their part. whole: returns the same rows with all columns of the log.
    """
    try:
        return Prepared(_by_columns(raw, numbers, unit, headers), [])
    except UNFIT:
        pass
    return rows_one_by_one(row_dicts(whole()), numbers.tolist(), unit, headers)


def prepare_clicks(raw: pa.RecordBatch, numbers: Sequence[int]) -> Prepared:
    """Prepare a batch of clicks from separate files."""
    try:
        ids, events = _column(raw, "impression_id", pa.string()), _event_columns(raw)
        if not ids.null_count:
            return Prepared(pa.RecordBatch.from_arrays([ids, *events], schema=CLICK_ROWS), [])
    except UNFIT:
        pass
    return clicks_one_by_one(row_dicts(raw), numbers)


def rows_one_by_one(raws: Sequence[Any], numbers: Sequence[int], unit: str | None, headers: Headers) -> Prepared:
    """Prepare parsed rows of impressions."""

    def read(raw: Any) -> dict[str, Any]:
        row = read_row(raw, unit)
        segment = None if headers.segment is None else read_name(raw, headers.segment)
        return {**row, "segment": segment, "header": headers.number(row["method"], tuple(row["rankers"]))}

    return one_by_one(raws, numbers, read, PREPARED)


def clicks_one_by_one(raws: Sequence[Any], numbers: Sequence[int]) -> Prepared:
    """Prepare parsed rows of clicks."""
    return one_by_one(raws, numbers, read_click, CLICK_ROWS)


def one_by_one(
    raws: Sequence[Any], numbers: Sequence[int], read: Callable[[Any], dict[str, Any] | None], schema: pa.Schema
) -> Prepared:
    """Read rows into a batch; a `RowError` among them is invalid, and None, also from `read`, is filtered out."""
    rows, wrong = [], []
    for number, raw in zip(numbers, raws, strict=True):
        try:
            if isinstance(raw, RowError):
                raise raw
            row = None if raw is None else read(raw)
            if row is not None:
                rows.append({**row, "row": number})
        except RowError as error:
            wrong.append((number, error))
    return Prepared(pa.RecordBatch.from_pylist(rows, schema=schema), wrong, len(raws) - len(rows) - len(wrong))


def row_dicts(batch: pa.RecordBatch) -> list[Any]:
    """Return the rows of a batch as dictionaries, with a `RowError` for one that cannot be read."""
    try:
        whole: list[Any] = batch.to_pylist()
        return whole
    except (ValueError, OverflowError, pa.ArrowException):
        pass
    rows: list[Any] = []
    for row in range(len(batch)):
        try:
            rows.extend(batch.slice(row, 1).to_pylist())
        except (ValueError, OverflowError, pa.ArrowException) as error:
            rows.append(RowError(f"The row cannot be read: {error}"[:200]))
    return rows


def _by_columns(raw: pa.RecordBatch, numbers: Any, unit: str | None, headers: Headers) -> pa.RecordBatch:
    size = len(raw)
    names = set(raw.schema.names)
    if any(raw.column(name).null_count for name in NEEDED):
        raise DoesNotFit
    version = raw.column("version").cast(pa.int64()).to_numpy(zero_copy_only=False)
    if (version != FORMAT_VERSION).any():
        raise DoesNotFit
    columns = {
        "unit": _column(raw, unit, pa.string()),
        "segment": _column(raw, headers.segment, pa.string()),
        "time": _column(raw, "timestamp", TIME).cast(pa.int64()),
        "header": _headers(raw, headers),
        "documents": _documents(raw),
        "stat": _stat(raw),
        "clicks": _clicks(raw.column("clicks")) if "clicks" in names else _no_clicks(size),
        "row": pa.array(numbers),
    }
    for field in PREPARED:
        if field.name not in columns:
            columns[field.name] = _column(raw, field.name, field.type)
    return pa.RecordBatch.from_arrays([columns[name] for name in PREPARED.names], schema=PREPARED)


def no_events() -> pa.StructArray:
    """Return an array of no events."""
    return pa.StructArray.from_arrays([pa.nulls(0, field.type) for field in EVENT_FIELDS], fields=EVENT_FIELDS)


def _no_clicks(size: int) -> pa.ListArray:
    return pa.ListArray.from_arrays(np.zeros(size + 1, dtype=np.int32), no_events())


def attach_clicks(batch: pa.RecordBatch, first: int, places: Any, events: pa.StructArray) -> pa.RecordBatch:
    """Attach separate clicks to their rows; places: row numbers less `first`, rising, one for each event."""
    wanted = batch.column("row").to_numpy() - first
    starts, ends = np.searchsorted(places, wanted, "left"), np.searchsorted(places, wanted, "right")
    sizes = ends - starts
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    order = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
    lists = pa.ListArray.from_arrays(offsets.astype(np.int32), events.take(pa.array(order)))
    return with_clicks(batch, lists)


def with_clicks(batch: pa.RecordBatch, clicks: pa.ListArray) -> pa.RecordBatch:
    """Return prepared rows with other clicks."""
    return batch.set_column(batch.schema.get_field_index("clicks"), PREPARED.field("clicks"), clicks)


def lacks_positions(clicks: pa.Array) -> bool:
    """Return whether some click has no position, or clicks are not lists of structs."""
    if not pa.types.is_list(clicks.type) or not pa.types.is_struct(clicks.type.value_type):
        return True
    events = clicks.flatten()
    position = events.type.get_field_index("position")
    return len(events) > 0 if position < 0 else bool(events.null_count or events.field(position).null_count)


def _column(raw: pa.RecordBatch, name: str | None, kind: pa.DataType) -> pa.Array:
    """Return a column as a type, all null if there is none; raise `DoesNotFit` unless all is plainly valid."""
    if name not in raw.schema.names:
        return pa.nulls(len(raw), kind)
    column = raw.column(name)
    if not fits(column.type, kind):
        raise DoesNotFit
    column = column if column.type == kind else column.cast(kind, safe=not pa.types.is_timestamp(kind))
    if kind == pa.string():
        column.validate(full=True)
    if pa.types.is_list(kind) and (column.null_count or column.values.null_count):
        raise DoesNotFit
    return column


def fits(given: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether the values of a type mean the same as text, numbers, times or lists of them."""
    if pa.types.is_dictionary(given):
        given = given.value_type
    if pa.types.is_list(kind):
        return (pa.types.is_list(given) or pa.types.is_large_list(given)) and fits(given.value_type, kind.value_type)
    if pa.types.is_timestamp(kind):
        return bool(pa.types.is_timestamp(given) or pa.types.is_null(given))
    text = pa.types.is_string(given) or pa.types.is_large_string(given) or pa.types.is_string_view(given)
    other = pa.types.is_null(given) or pa.types.is_integer(given) or given == kind
    return bool(other or (text and kind == pa.string()))


def _headers(raw: pa.RecordBatch, headers: Headers) -> pa.Int32Array:
    method, rankers = raw.column("method"), raw.column("rankers")
    method = method if pa.types.is_dictionary(method.type) else method.dictionary_encode()
    flat = rankers.flatten()
    flat = flat if pa.types.is_dictionary(flat.type) else flat.dictionary_encode()
    if flat.null_count or not len(raw):
        raise DoesNotFit
    methods, names = method.dictionary.to_pylist(), flat.dictionary.to_pylist()
    if not all(isinstance(name, str) for name in (*methods, *names)):
        raise DoesNotFit
    codes = method.indices.to_numpy(zero_copy_only=False)
    flat_codes = flat.indices.to_numpy(zero_copy_only=False)
    for used, known in ((codes, methods), (flat_codes, names)):
        if used.min(initial=0) < 0 or used.max(initial=0) >= len(known):  # a damaged file
            raise DoesNotFit
    sizes = rankers.value_lengths().to_numpy(zero_copy_only=False)
    width = int(sizes[0])
    if width and (sizes == width).all():
        table = np.column_stack([codes, flat_codes.reshape(-1, width)])
        if (table == table[0]).all():
            number = headers.number(methods[codes[0]], tuple(names[code] for code in table[0, 1:]))
            return pa.array(np.full(len(raw), number, dtype=np.int32))
    ends = np.cumsum(sizes)
    found = np.empty(len(raw), dtype=np.int32)
    for row, (code, end, size) in enumerate(zip(codes.tolist(), ends.tolist(), sizes.tolist(), strict=True)):
        found[row] = headers.number(methods[code], tuple(names[c] for c in flat_codes[end - size : end].tolist()))
    return pa.array(found)


def _stat(raw: pa.RecordBatch) -> pa.ListArray:
    """Return the figures of the draws; logs may lack them, and inference needs them only for rates."""
    if "stat" not in raw.schema.names or not fits(raw.column("stat").type, FLOATS):
        return pa.ListArray.from_arrays(np.zeros(len(raw) + 1, dtype=np.int32), pa.nulls(0, pa.float64()))
    column = raw.column("stat").cast(FLOATS)
    if column.null_count or column.values.null_count:
        raise DoesNotFit
    return column


def _documents(raw: pa.RecordBatch) -> pa.ListArray:
    if "ids" in raw.schema.names and raw.column("ids").null_count < len(raw):
        raise DoesNotFit
    return _column(raw, "shown", PREPARED.field("documents").type)


def _clicks(column: pa.Array) -> pa.ListArray:
    kind = column.type
    if pa.types.is_null(kind):
        return _no_clicks(len(column))
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        raise DoesNotFit
    sizes = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    events = column.flatten()
    if events.null_count:
        raise DoesNotFit
    held = pa.RecordBatch.from_arrays(events.flatten(), names=[field.name for field in events.type])
    arrays = _event_columns(held)
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(arrays, fields=EVENT_FIELDS))


def _event_columns(raw: pa.RecordBatch) -> list[pa.Array]:
    """Return the fields of events; raise `DoesNotFit` if one has neither a document nor a position."""
    events = [_column(raw, field.name, field.type) for field in EVENT]
    events = [column.cast(field.type) for column, field in zip(events, EVENT_FIELDS, strict=True)]
    document, position = events[0], events[1]
    if position.null_count and document.null_count and pc.and_(position.is_null(), document.is_null()).true_count:
        raise DoesNotFit
    if (
        events[-1].null_count < len(events[-1])
        and not (np.abs(events[-1].drop_null().to_numpy()) <= LARGEST_VALUE).all()
    ):
        raise DoesNotFit
    return events
