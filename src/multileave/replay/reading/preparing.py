"""From raw Arrow batches to prepared ones: by whole columns where they fit, row by row where they do not."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from multileave.impression import FORMAT_VERSION
from multileave.replay.reading.comparisons import Headers, RowError
from multileave.replay.reading.rows import EVENT_FIELDS, PREPARED, prepare_click, prepare_row

__all__ = ["CLICK_ROWS", "NEEDED", "DoesNotFit", "Origin", "Prepared", "fast_clicks", "fast_rows", "slow_rows"]

NEEDED = ("version", "method", "rankers", "k", "pinned", "lengths", "ranks", "note")
CLICK_ROWS = pa.schema([pa.field("impression_id", pa.string()), *EVENT_FIELDS])
INTS = pa.list_(pa.int32())


class DoesNotFit(Exception):
    """A batch whose columns are not as the schema says; its rows are looked at one by one."""


@dataclass(frozen=True)
class Origin:
    """Where rows come from: file, row group (-1 for lines) and the number of the first row (lines from 1)."""

    file: int
    row_group: int
    first: int


@dataclass(frozen=True, eq=False)
class Prepared:
    """The rows of a batch that can be looked at further, and what is wrong with the others, by row number."""

    batch: pa.RecordBatch
    wrong: list[tuple[int, RowError, Any]]


def slow_rows(
    raws: Sequence[Any], numbers: Sequence[int], origin: Origin, unit: str | None, headers: Headers
) -> Prepared:
    """Prepare rows one by one; a raw row that is a `RowError` itself, or bytes, is wrong."""
    rows, wrong = [], []
    for number, raw in zip(numbers, raws, strict=True):
        try:
            if isinstance(raw, RowError):
                raise raw
            row = prepare_row(raw, unit, headers)
        except RowError as error:
            wrong.append((number, error, raw))
        else:
            row.update(file=origin.file, row_group=origin.row_group, row=number)
            rows.append(row)
    return Prepared(pa.RecordBatch.from_pylist(rows, schema=PREPARED), wrong)


def slow_clicks(raws: Sequence[Any], numbers: Sequence[int]) -> Prepared:
    """Prepare rows of a click file one by one."""
    rows, wrong = [], []
    for number, raw in zip(numbers, raws, strict=True):
        try:
            if isinstance(raw, RowError):
                raise raw
            rows.append(prepare_click(raw))
        except RowError as error:
            wrong.append((number, error, raw))
    return Prepared(pa.RecordBatch.from_pylist(rows, schema=CLICK_ROWS), wrong)


def fast_rows(raw: pa.RecordBatch, origin: Origin, unit: str | None, headers: Headers) -> Prepared:
    """Prepare a batch by its columns; raise `DoesNotFit` if only a look at its rows can tell what is wrong."""
    try:
        return _fast_rows(raw, origin, unit, headers)
    except (pa.ArrowException, UnicodeDecodeError, RowError, KeyError, ValueError) as error:
        raise DoesNotFit from error
    except (AttributeError, TypeError) as error:  # columns of other types than ours, in a damaged file
        raise DoesNotFit from error


def fast_clicks(raw: pa.RecordBatch) -> Prepared:
    """Prepare a batch of a click file by its columns, or raise `DoesNotFit`."""
    try:
        ids = _text(raw.column("impression_id"))
        events = [_event_column(raw, field, len(raw)) for field in EVENT_FIELDS]
        _check_named(events)
    except (pa.ArrowException, KeyError, ValueError, AttributeError, TypeError) as error:
        raise DoesNotFit from error
    if ids.null_count:
        raise DoesNotFit
    return Prepared(pa.RecordBatch.from_arrays([ids, *events], schema=CLICK_ROWS), [])


def _fast_rows(raw: pa.RecordBatch, origin: Origin, unit: str | None, headers: Headers) -> Prepared:
    size = len(raw)
    names = set(raw.schema.names)
    if any(raw.column(name).null_count for name in NEEDED):
        raise DoesNotFit
    version = raw.column("version").cast(pa.int64()).to_numpy(zero_copy_only=False)
    if (version != FORMAT_VERSION).any():
        raise DoesNotFit
    columns = {
        "impression_id": _text(raw.column("impression_id"))
        if "impression_id" in names
        else pa.nulls(size, pa.string()),
        "unit": _text(raw.column(unit)) if unit in names else pa.nulls(size, pa.string()),
        "time": _time(raw.column("timestamp")) if "timestamp" in names else pa.nulls(size, pa.int64()),
        "header": _headers(raw, headers),
        "k": raw.column("k").cast(pa.int32()),
        **{name: _lists(raw.column(name)) for name in ("lengths", "ranks", "note", "pinned")},
        "documents": _documents(raw) if "shown" in names else pa.nulls(size, pa.list_(pa.string())),
        "clicks": _clicks(raw.column("clicks")) if "clicks" in names else empty_clicks(size),
        "file": pa.array(np.full(size, origin.file, dtype=np.int32)),
        "row_group": pa.array(np.full(size, origin.row_group, dtype=np.int32)),
        "row": pa.array(np.arange(origin.first, origin.first + size)),
    }
    return Prepared(pa.RecordBatch.from_arrays([columns[name] for name in PREPARED.names], schema=PREPARED), [])


def empty_clicks(size: int) -> pa.ListArray:
    """Return no clicks for so many rows."""
    events = pa.StructArray.from_arrays([pa.nulls(0, field.type) for field in EVENT_FIELDS], fields=EVENT_FIELDS)
    return pa.ListArray.from_arrays(np.zeros(size + 1, dtype=np.int32), events)


def attach_clicks(batch: pa.RecordBatch, first: int, places: Any, events: pa.StructArray) -> pa.RecordBatch:
    """Give rows their clicks; places: rising row numbers, less `first`, that the events belong to."""
    wanted = batch.column("row").to_numpy() - first
    starts, ends = np.searchsorted(places, wanted, "left"), np.searchsorted(places, wanted, "right")
    sizes = ends - starts
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    order = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
    lists = pa.ListArray.from_arrays(offsets.astype(np.int32), events.take(pa.array(order)))
    return batch.set_column(batch.schema.get_field_index("clicks"), PREPARED.field("clicks"), lists)


def _text(column: pa.Array) -> pa.StringArray:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)
            or pa.types.is_string_view(kind) or pa.types.is_null(kind)):  # fmt: skip
        raise DoesNotFit
    text = column if pa.types.is_string(column.type) else column.cast(pa.string())
    text.validate(full=True)
    return text


def _time(column: pa.Array) -> pa.Int64Array:
    if pa.types.is_null(column.type):
        return column.cast(pa.int64())
    if not pa.types.is_timestamp(column.type):
        raise DoesNotFit
    return column.cast(pa.timestamp("us", tz=column.type.tz), safe=False).cast(pa.int64())


def _lists(column: pa.Array) -> pa.ListArray:
    if column.type == INTS:
        lists = column
    elif (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)) and (
        pa.types.is_integer(column.type.value_type) or pa.types.is_null(column.type.value_type)
    ):
        lists = column.cast(INTS)
    else:
        raise DoesNotFit
    if lists.values.null_count:
        raise DoesNotFit
    return lists


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


def _documents(raw: pa.RecordBatch) -> pa.ListArray:
    shown = raw.column("shown")
    if "ids" in raw.schema.names and raw.column("ids").null_count < len(raw):
        raise DoesNotFit
    lists = shown if shown.type == pa.list_(pa.string()) else shown.cast(pa.list_(pa.string()))
    if lists.null_count or lists.values.null_count:
        raise DoesNotFit
    return lists


def _clicks(column: pa.Array) -> pa.ListArray:
    kind = column.type
    if pa.types.is_null(kind):
        return empty_clicks(len(column))
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        raise DoesNotFit
    sizes = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    events = column.flatten()
    if events.null_count:
        raise DoesNotFit
    held = pa.RecordBatch.from_arrays(events.flatten(), names=[field.name for field in events.type])
    arrays = [_event_column(held, field, len(events)) for field in EVENT_FIELDS]
    _check_named(arrays)
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(arrays, fields=EVENT_FIELDS))


def _event_column(raw: pa.RecordBatch, field: pa.Field, size: int) -> pa.Array:
    name = "timestamp" if field.name == "time" else field.name
    if name not in raw.schema.names:
        return pa.nulls(size, field.type)
    column = raw.column(name)
    if name == "timestamp":
        return _time(column)
    if name in ("document", "action"):
        return _text(column)
    if pa.types.is_null(column.type) or pa.types.is_integer(column.type) or column.type == field.type:
        return column if column.type == field.type else column.cast(field.type)
    raise DoesNotFit


def _check_named(events: list[pa.Array]) -> None:
    """Raise `DoesNotFit` if an event has neither a document nor a position."""
    document, position = events[0], events[1]
    if position.null_count and document.null_count:
        neither = position.is_null().to_numpy(zero_copy_only=False) & document.is_null().to_numpy(zero_copy_only=False)
        if neither.any():
            raise DoesNotFit


def raw_batch(raws: Sequence[Any]) -> pa.RecordBatch:
    """Return parsed JSON objects as a batch to filter by; a field of mixed types holds JSON texts."""
    fields: dict[str, None] = {}
    for raw in raws:
        if isinstance(raw, dict):
            fields.update(dict.fromkeys(raw))
    columns = {}
    for field in fields:
        values = [raw.get(field) if isinstance(raw, dict) else None for raw in raws]
        try:
            columns[field] = pa.array(values)
        except (pa.ArrowException, OverflowError, UnicodeError, ValueError, TypeError):
            columns[field] = pa.array([None if value is None else json.dumps(value) for value in values])
    return pa.RecordBatch.from_pydict(columns)
