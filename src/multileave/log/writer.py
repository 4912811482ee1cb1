"""Writing logs: `LogWriter` for applications, `to_row` and `write_parquet` for data lakes."""

import json
import os
import threading
import uuid
import warnings
from collections.abc import Hashable, Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multileave.errors import DataError, MultileaveWarning
from multileave.impression import ABSENT, Impression
from multileave.log.schema import IMPRESSIONS

ROW_GROUP = 1 << 16  # rows; one core reads a group at a time


def to_row(impression: Impression, **envelope: Any) -> dict[str, Any]:
    """Return an impression as a row of `IMPRESSIONS`, or of `JOINED` with clicks=[...].

    envelope: impression_id, timestamp, user_id, session_id, query, clicks.
    """
    data = impression.to_dict()
    plain = all(isinstance(document, str) for document in (*impression.shown, *impression.hidden))
    for name in ("shown", "hidden"):
        data[name] = data[name] if plain else [json.dumps(document) for document in data[name]]
    data["ids"] = None if plain else "json"
    data["pinned"] = [position for position, _ in impression.pinned]
    data["ranks"] = np.where(impression.ranks == ABSENT, 0, impression.ranks).ravel().tolist()
    return {**dict.fromkeys(name for name in IMPRESSIONS.names if name not in data), **data, **envelope}


def json_line(fields: Mapping[str, Any]) -> bytes:
    """Return fields as one JSON line with its newline; times are written as ISO 8601 in UTC."""
    spelled = {name: spell_time(value) if isinstance(value, datetime) else value for name, value in fields.items()}
    return json.dumps(spelled, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def spell_time(time: datetime) -> str:
    """Return a time as ISO 8601 in UTC; one without a time zone is taken to be in UTC.

    >>> spell_time(datetime(2026, 5, 4, 12, 0, 0, 250000))
    '2026-05-04T12:00:00.250000Z'
    """
    aware = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    return aware.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


class LogWriter:
    """Appends impressions and clicks to JSON lines in a folder.

    Each line reaches the operating system in one write, so a crash truncates at most the last line. That line is
    moved to a file ending in ``.cut`` when the folder is opened again. A writer owns its files: give every process
    its own name.

    folder: where ``impressions-NAME-000001.jsonl`` and ``clicks-NAME-000001.jsonl`` go.
    most_bytes, most_rows: of a file, after which the next one is started.
    sync: wait until each line is on disk.

    >>> import tempfile
    >>> from multileave import TeamDraft
    >>> impression = TeamDraft().combine({"bm25": "abc", "dense": "bca"}, k=2, seed=4)
    >>> with tempfile.TemporaryDirectory() as folder, LogWriter(folder) as log:
    ...     shown = log.impression(impression, user_id="u7")
    ...     log.click(shown, document="b")
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        name: str = "log",
        most_bytes: int = 1 << 27,
        most_rows: int | None = None,
        sync: bool = False,
    ) -> None:
        if most_bytes < 1 or (most_rows is not None and most_rows < 1):
            raise DataError(f"most_bytes is {most_bytes} and most_rows is {most_rows}; expected integers from 1.")
        if not name or not all(c.isalnum() or c in "_." for c in name):
            raise DataError(f"name is {name!r}; expected letters, digits, '_' and '.', as it is part of file names.")
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        rest = (self.folder, name, most_bytes, most_rows, sync)
        self._impressions, self._clicks = _Stream("impressions", *rest), _Stream("clicks", *rest)

    def impression(
        self,
        impression: Impression,
        *,
        impression_id: str | None = None,
        timestamp: datetime | None = None,
        user_id: str | None = None,
        **more: Any,
    ) -> str:
        """Append an impression and return its id; a new one by default.

        more: session_id, query, and anything else that JSON can represent.
        """
        found = uuid.uuid4().hex if impression_id is None else impression_id
        taken = impression.to_dict()
        clash = next((field for field in more if field in taken), None)
        if clash is not None:
            raise DataError(f"{clash!r} is a field of the impression itself. Choose another name for your field.")
        envelope = {"impression_id": found, "timestamp": timestamp or datetime.now(UTC), "user_id": user_id}
        self._impressions.append({**envelope, **more, **taken})
        return found

    def click(
        self,
        impression_id: str,
        *,
        document: Hashable = None,
        position: int | None = None,
        action: str = "click",
        timestamp: datetime | None = None,
        dwell: float | None = None,
        value: float | None = None,
    ) -> None:
        """Append what a user did with a shown document, given by its id or its position from 0."""
        if document is None and position is None:
            raise DataError("A click has neither a document nor a position. Pass one of them.")
        event = {"document": document, "position": position, "dwell": dwell, "value": value}
        self._clicks.append(
            {
                "impression_id": impression_id,
                "timestamp": timestamp or datetime.now(UTC),
                "action": action,
                **{field: value for field, value in event.items() if value is not None},
            }
        )

    def close(self) -> None:
        """Close both files."""
        self._impressions.close()
        self._clicks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Stream:
    """Numbered files of one kind of line, opened at the first line."""

    def __init__(self, kind: str, folder: Path, name: str, most_bytes: int, most_rows: int | None, sync: bool) -> None:
        self.kind, self.folder, self.name = kind, folder, name
        self.most_bytes, self.most_rows, self.sync = most_bytes, most_rows, sync
        self._lock = threading.Lock()
        self._file: int | None = None
        self._bytes = self._rows = 0
        present = sorted(folder.glob(f"{kind}-{name}-[0-9]*.jsonl"))
        self._number = int(present[-1].stem.rpartition("-")[2]) if present else 1
        if present:
            self._bytes, self._rows = _recover(present[-1])

    def append(self, fields: Mapping[str, Any]) -> None:
        line = json_line(fields)
        with self._lock:
            full = self._bytes + len(line) > self.most_bytes or self._rows == self.most_rows
            if full and self._bytes:
                self._close()
                self._number += 1
                self._bytes = self._rows = 0
            if self._file is None:
                path = self.folder / f"{self.kind}-{self.name}-{self._number:06d}.jsonl"
                self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            written = 0
            while written < len(line):
                written += os.write(self._file, line[written:])
            if self.sync:
                os.fsync(self._file)
            self._bytes += len(line)
            self._rows += 1

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _recover(path: Path) -> tuple[int, int]:
    """Move a truncated last line to another file; return the bytes and lines that are left."""
    size = whole = rows = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            rows += block.count(b"\n")
            end = block.rfind(b"\n")
            whole = size + end + 1 if end >= 0 else whole
            size += len(block)
        if whole == size:
            return size, rows
        file.seek(whole)
        rest = file.read()
    try:
        json.loads(rest)
    except ValueError:
        aside = path.with_name(path.name + ".cut")
        with aside.open("ab") as file:
            file.write(rest + b"\n")
        os.truncate(path, whole)
        warnings.warn(
            f"The last line of {path.name} was truncated after {len(rest)} bytes; it was moved to {aside.name}.",
            MultileaveWarning,
            stacklevel=4,
        )
        return whole, rows
    with path.open("ab") as file:  # only the newline was missing
        file.write(b"\n")
    return size + 1, rows + 1


def parquet_writer(path: str | os.PathLike[str], schema: pa.Schema) -> pq.ParquetWriter:
    """Return a Parquet writer whose files are small and fast to read with these schemas."""
    return pq.ParquetWriter(path, schema, compression="zstd", write_statistics=False)


def write_parquet(path: str | os.PathLike[str], rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> int:
    """Write rows, such as `to_row` returns, into a Parquet file; return how many.

    >>> import tempfile
    >>> from multileave.log.schema import CLICKS
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_parquet(f"{folder}/clicks.parquet", [{"impression_id": "i1", "position": 0}], CLICKS)
    1
    """
    count, left = 0, iter(rows)
    with parquet_writer(path, schema) as writer:
        while block := list(islice(left, ROW_GROUP)):
            writer.write_table(pa.Table.from_pylist(block, schema=schema))
            count += len(block)
    return count
