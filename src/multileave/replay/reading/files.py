"""The files of a log, local or in object stores, and their parts, each read by one core at a time."""

import lzma
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from multileave.errors import DataError
from multileave.log.reader import RowError

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

LINES = (".jsonl", ".ndjson", ".json")
PARQUET = (".parquet", ".pq")
PACKED = {".gz": "gzip", ".zst": "zstd", ".xz": "xz"}
BLOCK = 1 << 22  # bytes of lines in a part
MOST_LINE = 1 << 26  # bytes; a longer line is invalid


@dataclass(frozen=True)
class LogFile:
    """A file of a log, with the partition keys in its path."""

    filesystem: pafs.FileSystem
    path: str
    size: int
    keys: tuple[tuple[str, str], ...]

    @property
    def is_parquet(self) -> bool:
        """Whether it is Parquet; otherwise it holds JSON lines."""
        return self.path.endswith(PARQUET)


@dataclass(frozen=True, eq=False)
class Part:
    """A row group, a block of lines, or something that could not be read; first: the number of its first row."""

    file: LogFile
    row_group: int
    first: int
    size: int  # bytes, for the progress bar
    rows: int = 0
    lines: Sequence[bytes] = ()
    error: RowError | None = None

    @property
    def span(self) -> int:
        """How many row numbers there are, from `first`."""
        return self.rows + len(self.lines)


def find_files(paths: Paths, filesystem: pafs.FileSystem | None = None) -> list[LogFile]:
    """Return the log files of paths: files, folders (recursively) and URIs, each once, ordered by path."""
    found: dict[str, LogFile] = {}
    for given in [paths] if isinstance(paths, str | os.PathLike) else paths:
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
            raise DataError(f"Cannot open {name}: {' '.join(str(error).split())}") from error
        if info.type == pafs.FileType.NotFound:
            raise DataError(f"There is no file or folder {name}. Pass files of JSON lines or Parquet, or their folder.")
        infos = [info]
        if info.type == pafs.FileType.Directory:
            inside = system.get_file_info(pafs.FileSelector(path, recursive=True))
            infos = [i for i in inside if i.type == pafs.FileType.File and is_log_name(i.base_name)]
            if not infos:
                raise DataError(
                    f"{name} has no files ending in .parquet, .jsonl, .jsonl.gz, .jsonl.zst or .jsonl.xz. "
                    "Pass the folder of the log."
                )
        for one in infos:
            keys = path_keys(one.path)
            found.setdefault(one.path, LogFile(system, one.path, one.size or 0, keys))
    return sorted(found.values(), key=lambda file: file.path)


def path_keys(path: str) -> tuple[tuple[str, str], ...]:
    """Return the keys and values of key=value folders in a path."""
    return tuple((unquote(k), unquote(v)) for k, e, v in (p.partition("=") for p in path.split("/")) if e)


def is_log_name(name: str) -> bool:
    """Return whether a file in a folder belongs to a log, by its name."""
    for packed in PACKED:
        name = name.removesuffix(packed)
    # By convention, names that start with a dot or an underscore are not data.
    return name.endswith((*LINES, *PARQUET)) and name[0] not in "._"


def parts(files: Sequence[LogFile]) -> Iterator[Part]:
    """Yield the parts of files, in the same order each time."""
    for file in files:
        if not file.is_parquet:
            yield from _line_parts(file)
            continue
        try:
            with file.filesystem.open_input_file(file.path) as opened:
                metadata = pq.ParquetFile(opened).metadata
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            yield Part(file, -1, 0, file.size, error=unreadable("file", error))
            continue
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        for group, size in enumerate(sizes):
            yield Part(file, group, 0, file.size // len(sizes), rows=size)


def _line_parts(file: LogFile) -> Iterator[Part]:
    """Yield blocks of whole lines, numbered from 1."""
    packed = next((codec for end, codec in PACKED.items() if file.path.endswith(end)), None)
    first, rest, share = 1, b"", 0
    try:
        with _unpacked(file, packed) as stream:
            while block := stream.read(BLOCK):
                lines = (rest + block).split(b"\n")
                rest = lines.pop()
                share += len(block)
                if len(rest) > MOST_LINE:
                    lines, rest = [*lines, rest], b""  # in pieces, none of which is an object
                if lines:
                    yield Part(file, -1, first, share, lines=lines)
                    first, share = first + len(lines), 0
    except (OSError, EOFError, lzma.LZMAError, pa.ArrowException) as error:
        yield Part(file, -1, first, share, lines=[rest] if rest else [], error=unreadable("file", error))
        return
    if rest:
        yield Part(file, -1, first, share, lines=[rest])


def _unpacked(file: LogFile, packed: str | None) -> Any:
    if packed == "xz":  # which Arrow cannot read
        return lzma.open(file.filesystem.open_input_file(file.path))
    return file.filesystem.open_input_stream(file.path, compression=packed)


def unreadable(what: str, error: Exception) -> RowError:
    """Return the error for a file or a row group that cannot be read to its end."""
    return RowError(f"The {what} cannot be read to its end: {' '.join(str(error).split())[:300].rstrip('.')}.")
