"""The cache of parsed data: arrays that are mapped into memory, so that reading them again is instant.

An entry is one file in the folder ``data`` of `multileave.kernels.cache_directory`: the features, which are mapped,
labels, offsets, and the rest as JSON. It is written under another name and renamed, so that a reader finds all of it
or nothing.
"""

import hashlib
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from multileave.data.letor import Letor
from multileave.errors import MultileaveWarning
from multileave.kernels import cache_directory

ABANDONED = 3600.0  # seconds after which an unfinished entry is deleted

Parsed = tuple[Letor, tuple[int, ...]]


def cached(key: object, contents: Sequence[int], parse: Callable[[], Parsed]) -> Parsed:
    """Return parsed data from the cache; if they are not there, parse and keep them.

    key: what identifies an entry, of which `repr` is used. contents: numbers that change if the files do; an entry
    with others is replaced.
    """
    base = cache_directory()
    if base is None:
        return parse()
    name = hashlib.sha256(repr(key).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    entry = base / "data" / f"{name}.npy"
    kept = _load(entry, contents)
    if kept is not None:
        return kept
    parsed = parse()
    try:
        _store(entry, contents, *parsed)
    except OSError as error:
        warnings.warn(
            f"Parsed data cannot be cached in {str(entry.parent)!r} ({error}), so they will be parsed again. Set "
            "MULTILEAVE_CACHE_DIR to a directory with enough space.",
            MultileaveWarning,
            stacklevel=3,
        )
    return _load(entry, contents) or parsed


def _load(entry: Path, contents: Sequence[int]) -> Parsed | None:
    try:
        # copy on write: kernels are compiled for writable arrays, and the file does not change
        features = np.load(entry, mmap_mode="c")
        with open(entry, "rb") as file:
            file.seek(features.offset + features.nbytes)
            labels, offsets = np.load(file), np.load(file)
            about = json.load(file)
        if about["contents"] != list(contents):
            return None
        numbers, qids = tuple(about["numbers"]), tuple(about["qids"])
        letor = Letor(about["grades"], offsets, labels, np.asarray(features), numbers, qids)
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError):
        return None  # missing or broken: read the files
    return letor, tuple(about["ends"])


def _store(entry: Path, contents: Sequence[int], letor: Letor, ends: tuple[int, ...]) -> None:
    about = {
        "contents": list(contents), "grades": letor.grades, "numbers": letor.numbers, "qids": letor.qids, "ends": ends,
    }  # fmt: skip
    entry.parent.mkdir(exist_ok=True)
    for left in entry.parent.glob("*.part"):  # by killed processes
        if time.time() - left.stat().st_mtime > ABANDONED:
            left.unlink(missing_ok=True)
    number, aside = tempfile.mkstemp(".part", dir=entry.parent)
    try:
        with open(number, "wb") as file:
            for array in (letor.features, letor.labels, letor.offsets):
                np.save(file, array)
            file.write(json.dumps(about).encode("ascii"))
        os.replace(aside, entry)
    finally:
        Path(aside).unlink(missing_ok=True)
