"""The reader of LETOR and SVMlight files, plain or compressed by gzip or xz.

    label qid:ID number:value number:value ... # comment

A label is a non-negative integer; an ID is any text without blanks; features are numbered from 1, in increasing order,
and are 0 if left out. Documents of one query are grouped where it first appears. Empty lines and comments are skipped.
A file is read in chunks, and every value equals `float` of its text.
"""

import gzip
import lzma
import math
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NoReturn

import numpy as np

from multileave.data import cache as parsed
from multileave.data import parsing
from multileave.data.letor import Letor, spans
from multileave.data.queries import Labels, Longs
from multileave.errors import DataError
from multileave.outcome import Floats

READER_VERSION = 1  # to be raised when the same text gives another result

CHUNK = 1 << 20
LONGEST_LINE = 1 << 26
MOST_FEATURES = 100_000  # the table has a column for each
BREAKS = b" \t\r\n#"

StrPath = str | os.PathLike[str]


def read(
    path: StrPath, *, features: Sequence[int] | None = None, grades: int | None = None, cache: bool = False
) -> Letor:
    """Read a LETOR or SVMlight file.

    features: numbers of the features to keep, from 1, in this order; all if None.
    grades: labels are 0 to grades - 1; None to derive it from the highest label.
    cache: keep the parsed data on disk, so that the next read is instant.

    >>> path = getfixture("tmp_path") / "train.txt"
    >>> _ = path.write_text("2 qid:7 1:0.5 3:4 # document 1" + chr(10) + "0 qid:7 1:25e-2" + chr(10))
    >>> data = read(path)
    >>> data.features
    array([[0.5 , 0.  , 4.  ],
           [0.25, 0.  , 0.  ]])
    >>> data.qids, data.grades, data.labels.tolist()
    (('7',), 3, [2, 0])
    """
    return read_files([path], features=features, grades=grades, cache=cache)[0]


def read_files(
    paths: Sequence[StrPath],
    *,
    features: Sequence[int] | None = None,
    grades: int | None = None,
    cache: bool = False,
) -> tuple[Letor, tuple[int, ...]]:
    """Read several files one after another; return all queries and, for each file, the end of its queries.

    An id in two files denotes two queries.
    """
    wanted = None if features is None else tuple(features)
    if wanted is not None and (not wanted or min(wanted) < 1 or len(set(wanted)) < len(wanted)):
        raise DataError(f"Features are {list(wanted)}; expected distinct feature numbers from 1, or None for all.")
    if grades is not None and not 2 <= grades <= 256:
        raise DataError(f"The number of grades is {grades}; expected 2 to 256.")
    places = [Path(path) for path in paths]
    stamps = tuple(map(_stamp, places))
    key = parsed.Key(tuple(str(place.resolve()) for place in places), stamps, wanted, grades, READER_VERSION)
    if cache:
        kept = parsed.load(key)
        if kept is not None:
            return kept
    reader = _Reader(wanted, grades)
    for place in places:
        reader.read(place)
    result = reader.result(places)
    if cache:
        return parsed.store(key, *result)
    return result


def _stamp(path: Path) -> tuple[int, int]:
    """Return a file's size and modification time."""
    try:
        found = path.stat()
    except OSError as error:
        _fail_to_read(path, error)
    return found.st_size, found.st_mtime_ns


def _fail_to_read(path: Path, error: Exception) -> NoReturn:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
    raise DataError(f"{str(path)!r} cannot be read: {reason}.") from None


class _Reader:
    """What has been read so far, in arrays that grow."""

    def __init__(self, wanted: tuple[int, ...] | None, grades: int | None) -> None:
        self.wanted, self.grades = wanted, grades
        self.width = 0 if wanted is None else len(wanted)
        self.columns = np.full(1 if wanted is None else max(wanted) + 1, -1, dtype=np.int32)
        if wanted is not None:
            self.columns[list(wanted)] = np.arange(len(wanted))
        self.features: Floats = np.zeros((1024, self.width))
        self.labels: Labels = np.zeros(1024, dtype=np.uint8)
        self.state: Longs = np.zeros(7, dtype=np.int64)
        self.starts: list[int] = []  # the row where documents of another query begin
        self.queries: list[int] = []  # and which query it is, in the order of first appearance
        self.qids: list[bytes] = []
        self.ends: list[int] = []  # the number of queries after each file

    def read(self, path: Path) -> None:
        """Read a file."""
        self.known: dict[bytes, int] = {}
        self.state[parsing.LINE] = 0
        rows = int(self.state[parsing.ROW])
        try:
            with open(path, "rb") as stored, _plain(stored) as stream:
                self._read_stream(path, stream)
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            _fail_to_read(path, error)
        if self.state[parsing.ROW] == rows:
            raise DataError(f"{str(path)!r} holds no documents; expected lines such as '2 qid:10 1:0.5 2:0.25'.")
        self.ends.append(len(self.qids))

    def _read_stream(self, path: Path, stream: IO[bytes]) -> None:
        """Read a file in chunks; what follows the last newline of one is moved to the start of the next."""
        buffer = bytearray(CHUNK)
        kept, begin = 0, True
        while True:
            with memoryview(buffer) as view:
                count = stream.readinto(view[kept : len(buffer) - 1])  # type: ignore[attr-defined]
            filled = kept + count
            if begin and filled >= 3:
                begin = False
                if buffer.startswith(b"\xef\xbb\xbf"):
                    buffer[:3] = b"   "  # a byte order mark
            if not count:
                buffer[filled] = parsing.NEWLINE
                filled += 1
            end = buffer.rfind(b"\n", kept, filled) + 1
            if end:
                self._parse(path, buffer, end)
                buffer[: filled - end] = buffer[end:filled]
                kept = filled - end
            else:
                kept = filled
            if not count:
                return
            if kept > LONGEST_LINE:
                self._fail(path, f"the line is longer than {LONGEST_LINE >> 20} MB, so this is not SVMlight text")
            if kept > len(buffer) // 2:
                buffer += bytes(len(buffer))

    def _parse(self, path: Path, buffer: bytearray, end: int) -> None:
        """Parse whole lines, making room for rows and features where needed."""
        text = np.frombuffer(buffer, dtype=np.uint8)
        # As many as the text can hold: a line takes 8 bytes or more, a number that is left to Python more than 4.
        runs, hard = np.empty((end // 8 + 1, 3), dtype=np.int64), np.empty((end // 4 + 1, 5), dtype=np.int64)
        most = 255 if self.grades is None else self.grades - 1
        state = self.state
        state[parsing.AT] = 0
        while True:
            whole = self.wanted is None
            status = parsing.parse_lines(
                text, end, self.columns, whole, most, self.features, self.labels, runs, hard, state
            )  # fmt: skip
            self._take_runs(buffer, runs)
            self._take_hard(path, buffer, hard)
            if status == parsing.DONE:
                return
            if status == parsing.ROWS_FULL:
                self._resize(max(len(self.labels) + 1024, len(self.labels) * 9 // 8))
            elif status == parsing.WIDER:
                self._widen(path)
            else:
                self._fail(path, _complaint(status, _token(buffer, int(state[parsing.TOKEN])), most))

    def _take_runs(self, buffer: bytearray, runs: Longs) -> None:
        for row, start, end in runs[: self.state[parsing.RUNS]].tolist():
            qid = bytes(buffer[start:end])
            query = self.known.get(qid)
            if query is None:
                query = self.known[qid] = len(self.qids)
                self.qids.append(qid)
            self.starts.append(row)
            self.queries.append(query)

    def _take_hard(self, path: Path, buffer: bytearray, hard: Longs) -> None:
        """Read the numbers that the kernel left to Python."""
        for row, column, start, end, line in hard[: self.state[parsing.HARD]].tolist():
            token = bytes(buffer[start:end])
            value = float(token.partition(b":")[2])
            if not math.isfinite(value):
                self.state[parsing.LINE] = line
                self._fail(path, _complaint(parsing.BAD_VALUE, token.decode(), 0))
            if column >= 0:
                self.features[row, column] = value

    def _resize(self, rows: int) -> None:
        # in place if possible, as a copy would take twice the memory
        self.features.resize((rows, self.width), refcheck=False)
        self.labels.resize(rows, refcheck=False)

    def _widen(self, path: Path) -> None:
        """Make room for the highest feature so far; late in a file for more, as that moves many rows."""
        rows, needed = int(self.state[parsing.ROW]), int(self.state[parsing.HIGHEST])
        if needed > MOST_FEATURES:
            self._fail(
                path,
                f"there is a feature {needed}; at most {MOST_FEATURES} features can be read. Choose some of them",
            )
        width = needed if rows < 1024 else max(needed, 2 * self.width)
        wider = np.zeros((len(self.labels), width))
        wider[:rows, : self.width] = self.features[:rows]
        self.features, self.width = wider, width
        self.columns = np.arange(-1, width, dtype=np.int32)

    def _fail(self, path: Path, complaint: str) -> NoReturn:
        raise DataError(f"{str(path)!r}, line {int(self.state[parsing.LINE]) + 1}: {complaint}.")

    def result(self, paths: Sequence[Path]) -> tuple[Letor, tuple[int, ...]]:
        """Return what was read, with the documents of every query together."""
        rows, highest = int(self.state[parsing.ROW]), int(self.state[parsing.HIGHEST])
        if self.wanted is not None and max(self.wanted) > highest:
            missing = spans([number for number in self.wanted if number > highest])
            raise DataError(
                f"Features {missing} are not in {', '.join(repr(str(path)) for path in paths)}, where the highest "
                f"feature number is {highest}. Choose other features or data."
            )
        if self.wanted is None and highest == 0:
            raise DataError(f"No document in {', '.join(repr(str(path)) for path in paths)} has any feature.")
        self._resize(rows)
        features, labels = self.features, self.labels
        if self.wanted is None and self.width > highest:
            features = np.ascontiguousarray(features[:, :highest])
        of_row = np.repeat(self.queries, np.diff(np.array([*self.starts, rows])))
        if (np.diff(of_row) < 0).any():
            together = np.argsort(of_row, kind="stable")
            features, labels = features[together], labels[together]
        offsets = np.concatenate([[0], np.cumsum(np.bincount(of_row, minlength=len(self.qids)))])
        letor = Letor(
            max(2, int(labels.max()) + 1) if self.grades is None else self.grades,
            offsets.astype(np.int64),
            labels,
            features,
            self.wanted or tuple(range(1, highest + 1)),
            tuple(qid.decode("utf-8", "surrogateescape") for qid in self.qids),
        )
        return letor, tuple(self.ends)


def _plain(stored: IO[bytes]) -> IO[bytes]:
    """Return the decompressed text of a file, judging by its first bytes rather than its name."""
    magic = stored.read(6)
    stored.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=stored)  # type: ignore[return-value]
    if magic == b"\xfd7zXZ\x00":
        return lzma.LZMAFile(stored)
    return stored


def _token(buffer: bytearray, start: int) -> str:
    """Return a token, or the beginning of a long one."""
    end = start
    while buffer[end] not in BREAKS and end < start + 60:
        end += 1
    return buffer[start:end].decode("utf-8", "replace")


def _complaint(status: int, token: str, most: int) -> str:
    """Return what is wrong with a token."""
    number, _, value = token.partition(":")
    if status == parsing.BAD_LABEL:
        return f"the label is {token!r}; expected an integer from 0 to {most}"
    if status == parsing.NO_QUERY:
        return f"after the label is {token!r}; expected the query, such as 'qid:10'"
    if status == parsing.BAD_FEATURE:
        return f"{token!r} is not a feature; expected number:value, such as '7:0.25'"
    if status == parsing.BAD_NUMBER:
        return f"there is a feature number {number}; features are numbered from 1 to {parsing.MOST_NUMBER - 1}"
    if status == parsing.NOT_RISING:
        return f"feature {number} follows one that is not lower; expected increasing numbers"
    return f"feature {number} is {value!r}; expected a finite number"
