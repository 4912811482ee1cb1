"""The secret file: the secrets that sign impression ids, beside an SQLite database and out of it.

The first line signs; ids that the other lines signed stay valid. Only its owner may read the file.
"""

import contextlib
import errno
import os
import stat
from pathlib import Path

from multileave.live.access.tokens import new_secret
from multileave.live.errors import Invalid
from multileave.live.settings import MOST_SECRETS, SHORTEST_SECRET

MOST_BYTES = 65_536
ENDING = ".secret"


class SecretFile:
    """A file with a secret on each line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of_database(cls, database: Path) -> "SecretFile":
        """Return the secret file beside a database; the same one whatever links lead to the database."""
        real = database.resolve()
        return cls(real.with_name(real.name + ENDING))

    def read(self) -> tuple[str, ...]:
        """Return the secrets, the one that signs first; empty if there is no file. Refuse a file that is not safe."""
        try:
            # A pipe must not block, and a link may lead to a file that somebody else chose.
            handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return ()
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK):
                raise self._refused("is a symbolic link; expected a file", "Put the file itself there") from None
            raise self._refused(f"cannot be read: {error.strerror}", "Make it readable to the service") from None
        with open(handle, "rb") as file:
            self._check(os.fstat(file.fileno()))
            raw = file.read(MOST_BYTES + 1)
        try:
            lines = tuple(line for line in map(str.strip, raw.decode("utf-8").splitlines()) if line)
        except UnicodeDecodeError:
            lines = ()
        right = len(raw) <= MOST_BYTES and 1 <= len(lines) <= MOST_SECRETS
        if not right or min(map(len, lines)) < SHORTEST_SECRET:
            raise self._refused(
                f"is invalid; expected 1 to {MOST_SECRETS} lines of text, each with a secret of at least "
                f"{SHORTEST_SECRET} characters",
                "Correct it, or delete it to get a new secret",
            )
        return lines

    def write(self, secrets: tuple[str, ...]) -> None:
        """Replace the file, at once and for good."""
        aside = self.path.with_name(f"{self.path.name}.part-{new_secret()[:12]}")
        try:
            handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(handle, "w", encoding="utf-8") as file:
                file.write("".join(f"{secret}\n" for secret in secrets))
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, self.path)
            _sync_folder(self.path.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(aside)
            remedy = "Make its folder writable for the service, or set MULTILEAVE_SECRET"
            raise self._refused(f"cannot be written: {error.strerror}", remedy) from None

    def rotate(self, *, keep: int | None) -> int:
        """Put a new secret on the first line; return how many earlier ones are kept: all, or at most `keep`."""
        found = self.read()
        kept = found if keep is None else found[:keep]
        if len(kept) >= MOST_SECRETS:
            raise self._refused(
                f"has {len(kept)} secrets, and {MOST_SECRETS} are allowed", "Keep fewer: rotate with --keep 1"
            )
        self.write((new_secret(), *kept))
        return len(kept)

    def _check(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise self._refused("is not a regular file", "Move it away")
        if found.st_uid != os.geteuid():
            raise self._refused(
                "belongs to another user; expected the one who runs the service",
                "Find out who put it there; then chown it or delete it",
            )
        if found.st_mode & 0o077:
            raise self._refused(
                f"can be read or changed by other users (mode {stat.S_IMODE(found.st_mode):o}); expected mode 600",
                f"Run: chmod 600 '{self.path}'. If somebody may have read it: multileave keys rotate-secret --keep 0",
            )

    def _refused(self, what: str, remedy: str) -> Invalid:
        return Invalid(f"The secret file {self.path} {what}. {remedy}.")


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
