"""The files of an SQLite database: where they are, and that only their owner can read them."""

import contextlib
import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sqlalchemy.engine import URL

JOURNALS = ("", "-wal", "-shm", "-journal")


def file_of(url: URL) -> Path | None:
    """Return the file of a database; None if it is not an SQLite database in a file.

    >>> from sqlalchemy.engine import make_url
    >>> print(file_of(make_url("sqlite:///a.db")), file_of(make_url("sqlite:////tmp/a.db")))
    a.db /tmp/a.db
    >>> print(file_of(make_url("sqlite:///file:/tmp/a.db?mode=rwc&uri=true")), file_of(make_url("postgresql://db/a")))
    /tmp/a.db None
    """
    if url.get_backend_name() != "sqlite" or url.query.get("mode") == "memory" or not url.database:
        return None
    uri = url.database.startswith("file:") and url.query.get("uri") is not None
    path = unquote(urlsplit(url.database).path) if uri else url.database
    return None if path in ("", ":memory:") else Path(path)


def create_private(path: Path | None) -> None:
    """Create the file of a new database for its owner alone; SQLite gives its journals the same mode."""
    if path is None:
        return
    with contextlib.suppress(OSError):  # it exists, or SQLite will say why it cannot be created
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def readable_by_others(path: Path) -> list[Path]:
    """Return those files of a database that its owner's group or all users can read or write."""
    found = [path.with_name(path.name + ending) for ending in JOURNALS]
    return [one for one in found if one.exists() and one.stat().st_mode & 0o066]
