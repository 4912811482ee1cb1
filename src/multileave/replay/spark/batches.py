"""Batches from Spark: rows of a log as columns or as JSON lines, and where each comes from."""

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multileave.log.reader import RowError
from multileave.replay.reading.comparisons import Headers
from multileave.replay.reading.files import path_keys
from multileave.replay.reading.parts import parse_lines
from multileave.replay.reading.preparing import (
    Prepared,
    clicks_one_by_one,
    lacks_positions,
    prepare_clicks,
    prepare_rows,
    row_dicts,
    rows_one_by_one,
)
from multileave.replay.report import quarantine_entry

# Columns besides those of the log: the JSON line, its file, the row there or the start of its block, whether it passes
# the filter, its number in the DataFrame and its id; after a join, whether there is an impression, its events, and the
# quarantine entry of an invalid click; if ids are repeated, whether the row is not the first with its id.
LINE, FILE, ROW, BLOCK, KEEP, NUMBER, ID = "__line", "__file", "__row", "__block", "__keep", "__number", "__id"
HERE, EVENTS, WRONG, AGAIN = "__here", "__events", "__wrong", "__again"
OWN = (LINE, FILE, ROW, BLOCK, KEEP, NUMBER, ID, HERE, EVENTS, WRONG, AGAIN)


def prepared_rows(
    batch: pa.RecordBatch, rows: Any, unit: str | None, headers: Headers, *, dated: bool
) -> Iterator[Prepared]:
    """Prepare some rows of a batch, numbered by their place in it."""
    numbers, raws, rows = _lines(batch, rows)
    if raws:
        for name in {unit, headers.segment} & set(batch.schema.names):
            held = batch.column(name).to_pylist()
            for x, row in enumerate(numbers):
                if held[row] is not None and isinstance(raws[x], dict):
                    raws[x] = {name: held[row], **raws[x]}
        yield rows_one_by_one(raws, numbers, unit, headers)
    if len(rows):
        raw = _log_columns(batch)
        raw = raw if len(rows) == len(batch) else raw.take(pa.array(rows))
        yield prepare_rows(_needed(batch, raw, dated=dated), rows, unit, headers, lambda: raw)


def _needed(batch: pa.RecordBatch, raw: pa.RecordBatch, *, dated: bool) -> pa.RecordBatch:
    """Leave out columns that inference does not need, which the local engine does not read."""
    spare = [] if dated else ["timestamp"]
    name = EVENTS if EVENTS in batch.schema.names else "clicks"
    events = batch.column(name) if name in batch.schema.names else None
    if events is None or not lacks_positions(events):
        spare += ["shown", "ids"]
    return raw.drop_columns([name for name in (*spare, "hidden") if name in raw.schema.names])


def with_path_key(batch: pa.RecordBatch, name: str | None) -> pa.RecordBatch:
    """Take a column, such as the unit's, from key=value folders if there is no other."""
    if name is None:
        return batch
    files = batch.column(FILE).dictionary_encode()
    named = [dict(path_keys(_file_name(file))).get(name) for file in files.dictionary.to_pylist()]
    if not any(named):
        return batch
    values = pa.array(named, pa.string()).take(files.indices)
    if name not in batch.schema.names:
        return batch.append_column(name, values)
    held = pc.coalesce(batch.column(name).cast(pa.string()), values)
    return batch.set_column(batch.schema.get_field_index(name), name, held)


def prepared_clicks(batch: pa.RecordBatch) -> Iterator[Prepared]:
    """Prepare a batch of clicks, numbered by their place in it."""
    numbers, raws, rows = _lines(batch, np.arange(len(batch)))
    if raws:
        yield clicks_one_by_one(raws, numbers)
    if len(rows):
        yield prepare_clicks(_log_columns(batch).take(pa.array(rows)), rows.tolist())


def _log_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.drop_columns([name for name in OWN if name in batch.schema.names])


def _lines(batch: pa.RecordBatch, rows: Any) -> tuple[list[int], list[Any], Any]:
    """Return the numbers and values of JSON lines that are not blank, and the rows that are columns."""
    if LINE not in batch.schema.names:
        return [], [], rows
    lines = batch.column(LINE).take(pa.array(rows)).to_pylist()
    spelled = [(row, line) for row, line in zip(rows.tolist(), lines, strict=True) if line is not None and line.strip()]
    others = rows[np.array([line is None for line in lines], dtype=bool)]
    return [row for row, _ in spelled], parse_lines(line for _, line in spelled), others


def wrong_rows(batch: pa.RecordBatch, wrong: Sequence[tuple[int, RowError]]) -> list[dict[str, Any]]:
    """Return invalid rows of a batch as entries of the quarantine."""
    entries = []
    for row, error in wrong:
        number = batch.column(ROW)[row].as_py() if ROW in batch.schema.names else None
        line = batch.column(LINE)[row].as_py() if LINE in batch.schema.names else None
        [raw] = row_dicts(_log_columns(batch).slice(row, 1)) if line is None else [line.decode("utf-8", "replace")]
        file = _file_name(batch.column(FILE)[row].as_py())
        entries.append(quarantine_entry(file, {} if number is None else {"row": number}, error, raw))
    return entries


def _file_name(uri: str | None) -> str:
    if not uri:
        return "(a DataFrame)"
    name = unquote(uri)
    return "/" + name.removeprefix("file:").lstrip("/") if name.startswith("file:") else name
