"""Repeated impressions: rows whose id another row of the log has, found in bounded memory.

The keys of all rows (`inferring.row_keys`) are collected, 32 bytes each. Beyond a million they go to disk, into files
by the first bits of their hashes, of which one at a time is then sorted.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np

from multileave.replay.inferring.row_keys import CONTENT, ID, IDENTITY, ROW

FILES = 256
MOST_HELD = 1 << 20  # keys in memory


class Repeats:
    """The keys of a log's rows; the first row of an id counts, and others repeat it."""

    def __init__(self) -> None:
        self._held: list[Any] = []
        self._rows = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._starts = [0]  # of the parts, and the end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, keys: list[Any], span: int) -> None:
        """Add the keys of the next part; their row numbers are below `span`."""
        for some in keys:
            some[:, ROW] += np.uint64(self._starts[-1])
        self._starts.append(self._starts[-1] + span)
        self._held.extend(keys)
        self._rows += sum(map(len, keys))
        if self._rows > MOST_HELD:
            self._write()

    def find(self) -> tuple[list[Any], int]:
        """Return for each part which row numbers repeat an earlier row, bool (span,), and how many in conflict.

        In conflict are rows whose content is not that of the first; the list is empty if nothing is repeated.
        """
        repeated: Any = None
        conflicts = 0
        for keys in self._together():
            hashes = np.sort(keys[:, IDENTITY])
            twice = hashes[1:][hashes[1:] == hashes[:-1]]
            if not len(twice):
                continue
            keys = np.take(keys, np.flatnonzero(np.isin(keys[:, IDENTITY], twice)), axis=0)
            # Keys are in the order of their rows, and stay so.
            keys = np.take(keys, np.argsort(keys[:, IDENTITY], kind="stable"), axis=0)
            again, differs = repeats_of(keys)
            if repeated is None:
                repeated = np.zeros(self._starts[-1], dtype=bool)
            repeated[keys[again, ROW].astype(np.int64)] = True
            conflicts += differs
        if repeated is None or not repeated.any():
            return [], 0
        return [repeated[first:last] for first, last in zip(self._starts, self._starts[1:], strict=False)], conflicts

    def _together(self) -> Iterator[Any]:
        """Yield all keys in blocks, those of an impression in the same."""
        if self._folder is None:
            yield self._take()
            return
        self._write()
        for path in sorted(Path(self._folder.name).iterdir()):
            yield np.fromfile(path, dtype=np.uint64).reshape(-1, 4)

    def _take(self) -> Any:
        keys = np.concatenate([np.zeros((0, 4), dtype=np.uint64), *self._held])
        self._held, self._rows = [], 0
        return keys

    def _write(self) -> None:
        keys = self._take()
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="multileave-")
        files = (keys[:, IDENTITY] >> np.uint64(56)).astype(np.uint8)
        keys = np.take(keys, np.argsort(files, kind="stable"), axis=0)
        ends = np.cumsum(np.bincount(files, minlength=FILES)).tolist()
        for number, (first, last) in enumerate(zip([0, *ends], ends, strict=False)):
            with (Path(self._folder.name) / f"{number:03d}").open("ab") as file:
                file.write(keys[first:last].data)


def repeats_of(keys: Any) -> tuple[Any, int]:
    """Return which keys repeat an earlier one, bool (n,), and how many in conflict; those to compare are adjacent."""
    again = np.zeros(len(keys), dtype=bool)
    again[1:] = (keys[1:, : ID + 1] == keys[:-1, : ID + 1]).all(axis=1)
    first = np.maximum.accumulate(np.where(again, 0, np.arange(len(keys))))
    return again, int((keys[:, CONTENT] != keys[first, CONTENT]).sum())
