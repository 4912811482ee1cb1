"""The writer of SVMlight files, the reader's counterpart: what it writes is read back equal.

Values of up to six decimals, which is what LETOR has, are written by a compiled kernel; a document with
other values is written by Python, each value as `repr` has it. Zeros are written, as LETOR does.
"""

import contextlib
import gzip
import lzma
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import numpy as np

from multileave.data.letor import Letor
from multileave.errors import DataError
from multileave.kernels import kernel

__all__ = ["write_svmlight"]

BLOCK = 4096  # documents that are formatted at a time
SCALE = 1_000_000
DIGITS = 6
LONGEST = 24  # bytes of a value with its sign, point and blank, and no more digits than 2^53 has

BLANK, MINUS, POINT, ZERO, COLON, NEWLINE = b" -.0:\n"


def write_svmlight(path: str | os.PathLike[str], data: Letor | Iterable[Letor]) -> int:
    """Write data as text, compressed if the path ends with .gz or .xz; return the number of bytes of text.

    data: or parts of it one after another, so that not all need be in memory.
    """
    parts = [data] if isinstance(data, Letor) else data
    place, written = Path(path), 0
    try:
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(_open(place))
            for part in parts:
                written += _write(file, part)
    except OSError as error:
        raise DataError(f"{str(place)!r} cannot be written: {error.strerror}.") from None
    return written


def _open(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return gzip.open(path, "wb", compresslevel=1)  # type: ignore[return-value]
    if path.suffix == ".xz":
        return lzma.open(path, "wb", preset=0)
    return open(path, "wb")


def _write(file: IO[bytes], data: Letor) -> int:
    """Write the documents in blocks."""
    if (np.diff(data.numbers) < 1).any():
        raise DataError("the features' numbers do not rise; a file's must.")
    heads = [f"qid:{qid}".encode("utf-8", "surrogateescape") for qid in data.qids]
    numbers = [f" {number}:".encode() for number in data.numbers]
    text = np.frombuffer(b"".join(heads), dtype=np.uint8)
    bounds = np.concatenate([[0], np.cumsum([len(head) for head in heads])])
    names = np.frombuffer(b"".join(numbers), dtype=np.uint8)
    name_bounds = np.concatenate([[0], np.cumsum([len(number) for number in numbers])])
    room = 8 + max(map(len, heads)) + len(names) + LONGEST * len(numbers)
    out = np.empty(room * min(BLOCK, len(data.labels)), dtype=np.uint8)
    of_query = np.repeat(np.arange(len(data)), data.sizes)
    begin, written = 0, 0
    while begin < len(data.labels):
        end = min(begin + BLOCK, len(data.labels))
        block = data.features[begin:end]
        done, size = format_rows(
            block, data.labels[begin:end], of_query[begin:end], text, bounds, names, name_bounds, out
        )
        written += file.write(out[:size].data)
        begin += done
        if begin < end:
            values = zip(numbers, data.features[begin].tolist(), strict=True)
            line = b"".join(number + repr(value).encode() for number, value in values)
            written += file.write(b"%d %s%s\n" % (data.labels[begin], heads[of_query[begin]], line))
            begin += 1
    return written


@kernel
def format_rows(features, labels, of_query, text, bounds, names, name_bounds, out):  # type: ignore[no-untyped-def]
    """Write rows until one has a value of more decimals; return how many were written, and how many bytes."""
    at = 0
    for row in range(len(features)):
        start = at
        at = _put_integer(np.int64(labels[row]), out, at)
        out[at] = BLANK
        at = _put(text, bounds[of_query[row]], bounds[of_query[row] + 1], out, at + 1)
        for column in range(features.shape[1]):
            value = features[row, column]
            scaled = np.rint(value * SCALE)
            if scaled / SCALE != value or abs(scaled) > 2**53:
                return row, start
            at = _put(names, name_bounds[column], name_bounds[column + 1], out, at)
            units = np.int64(scaled)
            if units < 0:
                out[at] = MINUS
                at += 1
                units = -units
            at = _put_integer(units // SCALE, out, at)
            units %= SCALE
            if units > 0:
                out[at] = POINT
                divisor = SCALE
                while units > 0:
                    divisor //= 10
                    at += 1
                    out[at] = ZERO + units // divisor
                    units %= divisor
                at += 1
        out[at] = NEWLINE
        at += 1
    return len(features), at


@kernel
def _put(text, start, end, out, at):  # type: ignore[no-untyped-def]
    for i in range(start, end):
        out[at] = text[i]
        at += 1
    return at


@kernel
def _put_integer(number, out, at):  # type: ignore[no-untyped-def]
    digits = 1
    rest = number // 10
    while rest > 0:
        digits += 1
        rest //= 10
    for place in range(at + digits - 1, at - 1, -1):
        out[place] = ZERO + number % 10
        number //= 10
    return at + digits
