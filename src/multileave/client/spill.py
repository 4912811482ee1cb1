"""The spill folder: events that cannot be sent now go to files, and are sent from there later.

Lines are appended to files of JSON lines, each in one write, and a file is deleted after all of it was sent. Whoever
writes or sends a file holds a lock on it that ends with the process, so processes can share a folder, and the files of
a killed process are sent by the next. A file may be sent twice, for instance if a process is killed between sending
and deleting; events carry ids and count once.
"""

import contextlib
import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from multileave.errors import DataError

FILE_BYTES = 1 << 20  # after which a new file is started


class Spill:
    """A folder of waiting events, of at most `most_bytes`."""

    def __init__(self, folder: str | os.PathLike[str], most_bytes: int) -> None:
        if sys.platform == "win32":
            raise DataError("A spill folder needs POSIX file locks, which Windows lacks. Leave out spill.")
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._file: int | None = None
        self._written = 0  # bytes of the current file
        self._waiting = sum(_size(path) for path in self._files())  # bytes of all others

    def append(self, lines: Sequence[bytes]) -> int:
        """Write lines; return how many were written, fewer if the folder or the disk is full."""
        with self._lock:
            for done, line in enumerate(lines):
                if self._waiting + self._written + len(line) > self._most_bytes:
                    return done
                try:
                    self._write(line)
                except OSError:
                    self._seal()
                    return done
            return len(lines)

    def send_file(self, send: Callable[[list[bytes]], bool], batch: int) -> bool | None:
        """Send a waiting file in batches and delete it; return whether all was sent, None if there is no file."""
        with self._lock:
            self._seal()
        for path in self._files():
            with self._held(path) as lines:
                if lines is None:
                    continue
                sent = all(send(lines[first : first + batch]) for first in range(0, len(lines), batch))
                if sent:
                    path.unlink(missing_ok=True)
                    with self._lock:
                        self._waiting = sum(_size(path) for path in self._files())
                return sent
        return None

    def close(self) -> None:
        """Release the files to other processes."""
        with self._lock:
            self._seal()

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("events-*.jsonl"))

    def _write(self, line: bytes) -> None:
        if self._file is not None and self._written + len(line) > FILE_BYTES:
            self._seal()
        if self._file is None:
            self._file = self._new_file()
        before = self._written
        done = 0
        try:
            while done < len(line):
                done += os.write(self._file, line[done:])
        except OSError:
            os.ftruncate(self._file, before)  # part of a line is not an event
            raise
        self._written = before + done

    def _new_file(self) -> int:
        while True:
            path = self.folder / f"events-{uuid.uuid4().hex}.jsonl"
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
            # In between, another process may have found the file empty and deleted it.
            if _lock(file) and os.fstat(file).st_nlink:
                return file
            os.close(file)

    def _seal(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
            self._waiting += self._written
            self._written = 0

    @contextlib.contextmanager
    def _held(self, path: Path) -> Iterator[list[bytes] | None]:
        """Yield the complete lines of a file; None if another process holds or has deleted it."""
        try:
            file = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            yield None
            return
        try:
            if not _lock(file) or not os.fstat(file).st_nlink:
                yield None
                return
            with open(file, "rb", closefd=False) as stream:
                lines = [line for line in stream if line.endswith(b"\n")]
            yield lines
        finally:
            os.close(file)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # sent by another process meanwhile
        return 0


def _lock(file: int) -> bool:
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
