"""The cache of parsed data: arrays that are mapped into memory, so that reading them again is instant.

An entry is a folder ``data/KEY`` in the directory of `multileave.kernels.cache_directory`. It is written under another
name and renamed, so that a reader finds all of it or nothing. It is valid for the sizes and modification times of its
files: an entry of changed files is replaced.
"""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from multileave.data.letor import Letor
from multileave.errors import MultileaveWarning
from multileave.kernels import cache_directory

ABANDONED = 3600.0  # seconds after which an unfinished entry is deleted


@dataclass(frozen=True, slots=True)
class Key:
    """What the result depends on: the files, what to keep of them, and the version of the reader.

    stamps: the size and the modification time of each file.
    """

    paths: tuple[str, ...]
    stamps: tuple[tuple[int, int], ...]
    features: tuple[int, ...] | None
    grades: int | None
    version: int

    def entry(self) -> str:
        """Return the entry's name, which does not depend on the contents of the files."""
        named = repr([list(self.paths), self.features, self.grades])
        return hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def contents(self) -> list[int]:
        """Return what must be the same for an entry to be valid."""
        return [self.version, *(number for stamp in self.stamps for number in stamp)]


def load(key: Key) -> tuple[Letor, tuple[int, ...]] | None:
    """Return what is cached for a key, with arrays mapped into memory, or None."""
    base = cache_directory()
    return None if base is None else _load(base / "data" / key.entry(), key)


def _load(entry: Path, key: Key) -> tuple[Letor, tuple[int, ...]] | None:
    try:
        about = json.loads((entry / "about.json").read_text(encoding="ascii"))
        if about["contents"] != key.contents():
            return None
        # copy on write: kernels are compiled for writable arrays, and the file does not change
        arrays = {name: np.asarray(np.load(entry / f"{name}.npy", mmap_mode="c")) for name in ("labels", "features")}
        offsets = np.load(entry / "offsets.npy")
        letor = Letor(about["grades"], offsets, **arrays, numbers=tuple(about["numbers"]), qids=tuple(about["qids"]))
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return None  # missing or broken: read the files
    return letor, tuple(about["ends"])


def store(key: Key, letor: Letor, ends: tuple[int, ...]) -> tuple[Letor, tuple[int, ...]]:
    """Cache parsed data; return it as it will be loaded, or as it is if it cannot be cached."""
    base = cache_directory()
    if base is None:
        return letor, ends
    entry = base / "data" / key.entry()
    aside = None
    try:
        entry.parent.mkdir(exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f"{entry.name}-", dir=entry.parent))
        for name in ("offsets", "labels", "features"):
            np.save(aside / f"{name}.npy", getattr(letor, name))
        about = {
            "contents": key.contents(),
            "files": list(key.paths),
            "grades": letor.grades,
            "numbers": letor.numbers,
            "qids": letor.qids,
            "ends": ends,
        }
        (aside / "about.json").write_text(json.dumps(about), encoding="ascii")
        _replace(entry, aside)
    except OSError as error:
        if aside is not None:
            shutil.rmtree(aside, ignore_errors=True)
        warnings.warn(
            f"Parsed data cannot be cached in {str(entry.parent)!r} ({error}), so they will be parsed again. Set "
            "MULTILEAVE_CACHE_DIR to a directory with enough space.",
            MultileaveWarning,
            stacklevel=3,
        )
        return letor, ends
    return _load(entry, key) or (letor, ends)


def _replace(entry: Path, aside: Path) -> None:
    """Move a finished entry into place, unless another process was faster."""
    old = Path(tempfile.mkdtemp(prefix=f"{entry.name}-", dir=entry.parent))
    with contextlib.suppress(FileNotFoundError):
        os.rename(entry, old / "old")
    for left in entry.parent.glob(f"{entry.name}-*"):  # this one, and leftovers of killed processes
        if left == old or _age(left) > ABANDONED:
            shutil.rmtree(left, ignore_errors=True)
    try:
        os.rename(aside, entry)
    except OSError:
        if not entry.exists():
            raise
        shutil.rmtree(aside, ignore_errors=True)


def _age(folder: Path) -> float:
    try:
        return time.time() - folder.stat().st_mtime
    except OSError:
        return 0.0
