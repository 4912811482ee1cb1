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
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NoReturn

import numpy as np

from multileave.data import parsing
from multileave.data.cache import cached
from multileave.data.letor import Letor, spans
from multileave.data.parsing import MOST_FEATURES, MOST_NUMBER
from multileave.data.queries import Labels, check_features, check_grades
from multileave.errors import DataError
from multileave.outcome import Floats

READER_VERSION = 1  # to be raised when the same text gives another result

CHUNK = 1 << 20
LONGEST_LINE = 1 << 26
ROWS = 8192  # by which arrays grow, at least
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
TOKEN = re.compile(rb"[^ \t\r\n#]{0,60}")  # or the beginning of a long one

COMPLAINTS = {
    parsing.BAD_LABEL: "the label is {token!r}; expected an integer from 0 to {most}",
    parsing.NO_QUERY: "after the label is {token!r}; expected the query, such as 'qid:10'",
    parsing.BAD_FEATURE: "{token!r} is not a feature; expected number:value, such as '7:0.25'",
    parsing.BAD_NUMBER: f"there is a feature number {{number}}; features are numbered from 1 to {MOST_NUMBER - 1}",
    parsing.TOO_WIDE: f"there is a feature {{number}}; at most {MOST_FEATURES} can be read. Choose some of them",
    parsing.NOT_RISING: "feature {number} follows one that is not lower; expected increasing numbers",
    parsing.BAD_VALUE: "feature {number} is {value!r}; expected a finite number",
}

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
    check_features(wanted, "Features")
    check_grades(grades)
    places = [Path(path) for path in paths]
    contents = [READER_VERSION, *(number for place in places for number in _stamp(place))]

    def parse() -> tuple[Letor, tuple[int, ...]]:
        reader = _Reader(wanted, grades)
        for place in places:
            reader.read(place)
        return reader.result(places)

    key = [str(place.resolve()) for place in places], wanted, grades
    return cached(key, contents, parse) if cache else parse()


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
        self.columns = np.full(max(wanted or (0,)) + 1, -1, dtype=np.int32)
        self.columns[list(wanted or ())] = np.arange(len(wanted or ()))
        self.features: Floats = np.zeros((0, len(wanted or ())))
        self.labels: Labels = np.zeros(0, dtype=np.uint8)
        self.rows = 0
        self.highest = 0
        self.starts: list[int] = []  # the row where documents of another query begin
        self.queries: list[int] = []  # and which query it is, in the order of first appearance
        self.known: dict[tuple[int, bytes], int] = {}  # queries by file and id
        self.ends: list[int] = []  # the number of queries after each file

    def read(self, path: Path) -> None:
        """Read a file, in chunks of whole lines."""
        self.path, self.line = path, 0
        rows = self.rows
        try:
            with open(path, "rb") as stored, _plain(stored) as stream:
                text = stream.read(CHUNK).removeprefix(BYTE_ORDER_MARK)
                while text:
                    rest = stream.readline(LONGEST_LINE)
                    text += rest
                    if len(rest) == LONGEST_LINE:
                        complaint = f"the line is longer than {LONGEST_LINE >> 20} MB, so this is not SVMlight text"
                        self._fail(text.count(b"\n"), complaint)
                    self._parse(text if text.endswith(b"\n") else text + b"\n")
                    text = stream.read(CHUNK)
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            _fail_to_read(path, error)
        if self.rows == rows:
            raise DataError(f"{str(path)!r} holds no documents; expected lines such as '2 qid:10 1:0.5 2:0.25'.")
        self.ends.append(len(self.known))

    def _parse(self, text: bytes) -> None:
        """Parse whole lines, making room for their rows and features."""
        # As many as the text can hold: a line takes 8 bytes or more, a number that is left to Python more than 4.
        runs = np.empty((len(text) // 8 + 1, 3), dtype=np.int64)
        hard = np.empty((len(text) // 4 + 1, 5), dtype=np.int64)
        widest = MOST_FEATURES if self.wanted is None else MOST_NUMBER
        most = 255 if self.grades is None else self.grades - 1
        while True:  # from the start of the text, as it is short
            status, at, lines, rows, of_runs, of_hard, highest = parsing.parse_lines(
                np.frombuffer(text, dtype=np.uint8), self.columns, widest, most,
                self.features[self.rows :], self.labels[self.rows :], runs, hard,
            )  # fmt: skip
            if status == parsing.ROWS_FULL:
                self._resize(max(len(self.labels) + ROWS, len(self.labels) * 9 // 8))
            elif self.wanted is None and highest >= len(self.columns):
                self._widen(highest)
            else:
                break
        for row, column, start, end, line in hard[:of_hard].tolist():
            value = float(text[start:end].partition(b":")[2])
            if not math.isfinite(value):
                self._complain(parsing.BAD_VALUE, line, text[start:end], most)
            if column >= 0:
                self.features[self.rows + row, column] = value
        if status != parsing.DONE:
            token = TOKEN.match(text, at)
            self._complain(status, lines, token[0] if token else b"", most)
        for row, start, end in runs[:of_runs].tolist():
            self.starts.append(self.rows + row)
            self.queries.append(self.known.setdefault((len(self.ends), text[start:end]), len(self.known)))
        self.rows += rows
        self.line += lines
        self.highest = max(self.highest, highest)

    def _resize(self, rows: int) -> None:
        # in place if possible, as a copy would take twice the memory
        self.features.resize((rows, self.features.shape[1]), refcheck=False)
        self.labels.resize(rows, refcheck=False)

    def _widen(self, width: int) -> None:
        wider = np.zeros((len(self.labels), width))
        wider[: self.rows, : self.features.shape[1]] = self.features[: self.rows]
        self.features = wider
        self.columns = np.arange(-1, width, dtype=np.int32)

    def _complain(self, status: int, line: int, token: bytes, most: int) -> NoReturn:
        text = token.decode("utf-8", "replace")
        number, _, value = text.partition(":")
        self._fail(line, COMPLAINTS[status].format(token=text, number=number, value=value, most=most))

    def _fail(self, line: int, complaint: str) -> NoReturn:
        """Raise an error about a line, counted from 0 after those already read."""
        raise DataError(f"{str(self.path)!r}, line {self.line + line + 1}: {complaint}.")

    def result(self, paths: Sequence[Path]) -> tuple[Letor, tuple[int, ...]]:
        """Return what was read, with the documents of every query together."""
        if self.wanted is not None and max(self.wanted) > self.highest:
            missing = spans([number for number in self.wanted if number > self.highest])
            raise DataError(
                f"Features {missing} are not in {', '.join(repr(str(path)) for path in paths)}, where the highest "
                f"feature number is {self.highest}. Choose other features or data."
            )
        if self.wanted is None and self.highest == 0:
            raise DataError(f"No document in {', '.join(repr(str(path)) for path in paths)} has any feature.")
        self._resize(self.rows)
        features, labels = self.features, self.labels
        of_row = np.repeat(self.queries, np.diff([*self.starts, self.rows]))
        if (np.diff(of_row) < 0).any():
            together = np.argsort(of_row, kind="stable")
            features, labels = features[together], labels[together]
        offsets = np.concatenate([[0], np.cumsum(np.bincount(of_row, minlength=len(self.known)))])
        letor = Letor(
            max(2, int(labels.max()) + 1) if self.grades is None else self.grades,
            offsets.astype(np.int64),
            labels,
            features,
            self.wanted or tuple(range(1, self.highest + 1)),
            tuple(qid.decode("utf-8", "surrogateescape") for _, qid in self.known),
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
