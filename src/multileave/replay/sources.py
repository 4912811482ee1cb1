"""Where rows come from: files, folders and object stores, cut into parts that a core reads at a time."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from multileave.errors import DataError
from multileave.replay.headers import Headers, RowError
from multileave.replay.preparing import (
    NEEDED,
    DoesNotFit,
    Origin,
    Prepared,
    fast_clicks,
    fast_rows,
    raw_batch,
    slow_clicks,
    slow_rows,
)
from multileave.replay.rows import id_text

__all__ = ["Loaded", "LogFile", "Part", "Wants", "find_files", "load", "load_clicks", "load_ids", "parts"]

LINES = (".jsonl", ".ndjson", ".json")
PACKED = {".gz": "gzip", ".zst": "zstd"}
BLOCK = 1 << 22  # bytes of lines in a part
MOST_LINE = 1 << 26  # bytes; a longer line is wrong
BATCH = 1 << 16  # rows
CODED = ("method", "rankers")  # the same in many rows, so read as codes


@dataclass(frozen=True)
class LogFile:
    """A file of a log, with the partition keys in its path."""

    filesystem: pafs.FileSystem
    path: str
    number: int
    size: int
    keys: tuple[tuple[str, str], ...]

    @property
    def is_parquet(self) -> bool:
        """Whether it is Parquet; otherwise it holds JSON lines."""
        return self.path.endswith((".parquet", ".pq"))


@dataclass(frozen=True, eq=False)
class Part:
    """A row group, or a block of lines, or what could not be read at all."""

    file: LogFile
    row_group: int
    first: int
    size: int  # bytes, for the progress bar
    rows: int = 0
    lines: Sequence[bytes] = ()
    error: RowError | None = None


@dataclass(frozen=True)
class Wants:
    """What is asked of a log: the unit's column, a filter, and what of the rows is needed."""

    unit: str | None
    filter: pc.Expression | None = None
    ids: bool = False
    times: bool = False
    documents: bool = False
    dwell: bool = False


@dataclass(eq=False)
class Loaded:
    """What a part gave: prepared batches, how many rows it has, how many were filtered out, and what was wrong."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    filtered: int = 0
    wrong: list[tuple[int, RowError, Any]] = field(default_factory=list)
    lost: list[tuple[int, RowError]] = field(default_factory=list)  # rows of which nothing more is known

    def add(self, prepared: Prepared) -> None:
        """Add a batch."""
        if len(prepared.batch):
            self.batches.append(prepared.batch)
        self.wrong.extend(prepared.wrong)


def find_files(paths: Sequence[str | os.PathLike[str]], filesystem: pafs.FileSystem | None = None) -> list[LogFile]:
    """Return the log files that paths name: files, folders (whole trees) and URIs, each once."""
    found: dict[str, LogFile] = {}
    for given in paths:
        name = os.fspath(given)
        try:
            if filesystem is not None:
                system, path = filesystem, name
            elif "://" in name:
                system, path = pafs.FileSystem.from_uri(name)
            else:
                system, path = pafs.LocalFileSystem(), os.path.abspath(name)
            info = system.get_file_info(path)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{name} cannot be opened: {' '.join(str(error).split())}") from error
        if info.type == pafs.FileType.NotFound:
            raise DataError(f"there is no file or folder {name}. Give files of JSON lines or Parquet, or their folder.")
        infos = [info]
        if info.type == pafs.FileType.Directory:
            infos = [i for i in system.get_file_info(pafs.FileSelector(path, recursive=True)) if _is_log(i)]
            if not infos:
                raise DataError(
                    f"{name} holds no file that ends in .parquet, .jsonl, .jsonl.gz or .jsonl.zst. "
                    "Give the folder of the log."
                )
        for one in sorted(infos, key=lambda i: str(i.path)):
            keys = tuple((unquote(k), unquote(v)) for k, e, v in (p.partition("=") for p in one.path.split("/")) if e)
            found.setdefault(one.path, LogFile(system, one.path, len(found), one.size or 0, keys))
    return list(found.values())


def _is_log(info: pafs.FileInfo) -> bool:
    name = info.base_name
    for packed in PACKED:
        name = name.removesuffix(packed)
    # As everywhere, what begins with a dot or an underscore is not data.
    return info.type == pafs.FileType.File and name.endswith((*LINES, ".parquet", ".pq")) and name[0] not in "._"


def parts(files: Sequence[LogFile]) -> Iterator[Part]:
    """Yield the parts of files, one after another, the same each time."""
    for file in files:
        if not file.is_parquet:
            yield from _line_parts(file)
            continue
        try:
            with file.filesystem.open_input_file(file.path) as opened:
                metadata = pq.ParquetFile(opened).metadata
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            yield Part(file, -1, 0, file.size, error=_unreadable("file", error))
            continue
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        for group, size in enumerate(sizes):
            yield Part(file, group, 0, file.size // len(sizes), rows=size)


def _line_parts(file: LogFile) -> Iterator[Part]:
    """Yield blocks of whole lines, numbered from 1."""
    packed = next((codec for end, codec in PACKED.items() if file.path.endswith(end)), None)
    first, rest, share = 1, b"", 0
    try:
        with file.filesystem.open_input_stream(file.path, compression=packed) as stream:
            while block := stream.read(BLOCK):
                lines = (rest + block).split(b"\n")
                rest = lines.pop()
                share += len(block)
                if len(rest) > MOST_LINE:
                    lines, rest = [*lines, rest], b""  # in pieces, none of which is an object
                if lines:
                    yield Part(file, -1, first, share, lines=lines)
                    first, share = first + len(lines), 0
    except (OSError, pa.ArrowException) as error:
        yield Part(file, -1, first, share, lines=[rest] if rest else [], error=_unreadable("file", error))
        return
    if rest:
        yield Part(file, -1, first, share, lines=[rest])


def _unreadable(what: str, error: Exception) -> RowError:
    return RowError("malformed", f"the {what} cannot be read: {' '.join(str(error).split())[:300]}")


def load(part: Part, wants: Wants, headers: Headers) -> Loaded:
    """Read and prepare the rows of a part of a log of impressions."""
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
            loaded.lost.append((part.rows - known, _unreadable("row group", error)))
    return loaded


def load_ids(part: Part) -> tuple[Any, list[str | None]]:
    """Return the numbers of a part's rows, less the first, and their impression ids."""
    if part.file.is_parquet:
        if part.error is not None:
            return np.zeros(0, dtype=np.int64), []
        try:
            with part.file.filesystem.open_input_file(part.file.path) as opened:
                column = pq.ParquetFile(opened).read_row_group(part.row_group, columns=["impression_id"]).column(0)
            return np.arange(part.rows), column.cast(pa.string())
        except (OSError, pa.ArrowException, IndexError):
            return np.zeros(0, dtype=np.int64), []
    numbers, raws = _parse(part)
    texts = [id_text(raw.get("impression_id")) if isinstance(raw, dict) else None for raw in raws]
    return np.array(numbers, dtype=np.int64) - part.first, texts


def load_clicks(part: Part) -> Loaded:
    """Read and prepare the rows of a part of a log of clicks."""
    loaded = Loaded()
    if part.error is not None:
        loaded.lost.append((0, part.error))
    if not part.file.is_parquet:
        numbers, raws = _parse(part)
        loaded.rows = len(raws)
        loaded.add(slow_clicks(raws, numbers))
    elif part.error is None:
        loaded.rows = part.rows
        start = 0
        try:
            with part.file.filesystem.open_input_file(part.file.path) as opened:
                for batch in pq.ParquetFile(opened).iter_batches(BATCH, [part.row_group], use_threads=False):
                    try:
                        loaded.add(fast_clicks(batch))
                    except DoesNotFit:
                        loaded.add(slow_clicks(_row_dicts(batch), range(start, start + len(batch))))
                    start += len(batch)
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            loaded.lost.append((part.rows - start, _unreadable("row group", error)))
    return loaded


def _parse(part: Part) -> tuple[list[int], list[Any]]:
    numbers, raws = [], []
    for number, line in enumerate(part.lines, start=part.first):
        if not line.strip():
            continue
        numbers.append(number)
        try:
            raws.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raws.append(RowError("malformed", f"the line is not JSON: {error}"[:200]))
    return numbers, raws


def _load_lines(part: Part, wants: Wants, headers: Headers, loaded: Loaded) -> None:
    numbers, raws = _parse(part)
    loaded.rows = len(raws)
    if wants.filter is not None and raws:
        # What is not an object cannot be judged by the filter, so it is kept and found wrong.
        objects = [x for x, raw in enumerate(raws) if isinstance(raw, dict)]
        if objects:
            batch = _with_keys(raw_batch([raws[x] for x in objects]), part.file)
            kept = set(np.array(objects)[_passing(batch, wants.filter)].tolist())
            dropped = set(objects) - kept
            loaded.filtered = len(dropped)
            numbers = [number for x, number in enumerate(numbers) if x not in dropped]
            raws = [raw for x, raw in enumerate(raws) if x not in dropped]
    if wants.unit in dict(part.file.keys):
        raws = [{**dict(part.file.keys), **raw} if isinstance(raw, dict) else raw for raw in raws]
    loaded.add(slow_rows(raws, numbers, Origin(part.file.number, -1, part.first), wants.unit, headers))


def _passing(batch: pa.RecordBatch, condition: pc.Expression) -> Any:
    """Return the positions of rows that pass a filter."""
    numbered = pa.Table.from_batches([batch]).append_column("__place", pa.array(np.arange(len(batch))))
    try:
        return numbered.filter(condition).column("__place").to_numpy()
    except (pa.ArrowException, KeyError) as error:
        raise DataError(f"the filter {condition} does not fit the log: {' '.join(str(error).split())[:300]}") from error


def _with_keys(batch: pa.RecordBatch, file: LogFile) -> pa.RecordBatch:
    for key, value in file.keys:
        if key not in batch.schema.names:
            batch = batch.append_column(key, pa.array([value] * len(batch)))
    return batch


def _load_group(part: Part, wants: Wants, headers: Headers, loaded: Loaded) -> None:
    with part.file.filesystem.open_input_file(part.file.path) as opened:
        plain = pq.ParquetFile(opened)
        columns = _columns(plain, part, wants)
        start = 0
        for raw in _coded_batches(opened, plain, part, columns):
            origin = Origin(part.file.number, part.row_group, start)
            start += len(raw)
            batch = _with_keys(raw, part.file)
            try:
                if wants.filter is not None:
                    raise DoesNotFit
                loaded.add(fast_rows(batch, origin, wants.unit, headers))
            except DoesNotFit:
                if columns is not None:
                    table = plain.read_row_group(part.row_group).slice(origin.first, len(raw))
                    whole = table.to_struct_array().combine_chunks()
                    batch = _with_keys(pa.RecordBatch.from_struct_array(whole), part.file)
                _load_rows(batch, origin, wants, headers, loaded)


def _coded_batches(
    opened: pa.NativeFile, plain: pq.ParquetFile, part: Part, columns: list[str] | None
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a row group, with what is the same in many rows as codes where Arrow can do that."""
    leaves = [plain.schema.column(x) for x in range(len(plain.schema))]
    coded = [x.path for x in leaves if x.path.partition(".")[0] in CODED and x.physical_type == "BYTE_ARRAY"]
    file = pq.ParquetFile(opened, metadata=plain.metadata, read_dictionary=coded)
    done = 0
    try:
        for batch in _batches(file, part, columns):
            yield batch
            done += len(batch)
    except pa.ArrowNotImplementedError:  # names in a list whose dictionary changes on the way
        for batch in _batches(plain, part, columns):
            skipped = min(done, len(batch))
            done -= skipped
            if skipped < len(batch):
                yield batch.slice(skipped)


def _batches(file: pq.ParquetFile, part: Part, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
    if part.rows > 2 * BATCH:
        yield from file.iter_batches(BATCH, [part.row_group], columns=columns, use_threads=False)
    else:  # as a whole, which is quicker
        yield from file.read_row_group(part.row_group, columns=columns, use_threads=False).to_batches(BATCH)


def _load_rows(batch: pa.RecordBatch, origin: Origin, wants: Wants, headers: Headers, loaded: Loaded) -> None:
    """Prepare what a filter keeps of a batch with all its columns, by columns if that is possible after all."""
    numbers = np.arange(origin.first, origin.first + len(batch))
    if wants.filter is not None:
        passing = _passing(batch, wants.filter)
        loaded.filtered += len(batch) - len(passing)
        batch, numbers = batch.take(pa.array(passing)), numbers[passing]
        try:
            prepared = fast_rows(batch, origin, wants.unit, headers)
        except DoesNotFit:
            pass
        else:
            place = prepared.batch.schema.get_field_index("row")
            loaded.add(Prepared(prepared.batch.set_column(place, "row", pa.array(numbers)), []))
            return
    loaded.add(slow_rows(_row_dicts(batch), numbers.tolist(), origin, wants.unit, headers))


def _row_dicts(batch: pa.RecordBatch) -> list[Any]:
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
            rows.append(RowError("malformed", f"the row cannot be read: {error}"[:200]))
    return rows


def _columns(file: pq.ParquetFile, part: Part, wants: Wants) -> list[str] | None:
    """Return the columns to read, None for all; documents only where a click has no position."""
    if wants.filter is not None:
        return None
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
    return [name for name in wanted if name.partition(".")[0] in names]


def _has_nulls(lists: pa.Array) -> bool:
    """Return whether a list of structs of one field misses some of it, or is something else."""
    if not pa.types.is_list(lists.type) or not pa.types.is_struct(lists.type.value_type):
        return True
    events = lists.flatten()
    return bool(events.null_count or events.field(0).null_count)
