"""Backups: the whole database in one file, taken while the service runs, and put back into an empty database.

SQLite copies itself with its backup API. Postgres is copied by pg_dump and pg_restore, which must be on the path.
Both give one state of the database, as of one moment.
"""

import contextlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import URL

from multileave.live.errors import Invalid
from multileave.live.store import audit, sessions
from multileave.live.store.addresses import reason_of, safe_address, without_secrets
from multileave.live.store.database import Store
from multileave.live.store.engines import supported_address
from multileave.live.store.tables import metadata

SQLITE, POSTGRES = b"SQLite format 3\0", b"PGDMP"  # how the files begin


def back_up(address: str, target: Path) -> int:
    """Write a copy of a database to a new file that only its owner can read; return its size in bytes."""
    url, _ = supported_address(address)
    if target.exists():
        raise Invalid(f"{target} exists already; a backup does not overwrite it. Choose another file.")
    with _new_file(target) as partial:
        if url.get_backend_name() == "sqlite":
            _copy_sqlite(Path(url.database or ""), partial)
        else:
            _run_postgres("pg_dump", address, "--format=custom", "--no-owner", "--no-privileges", f"--file={partial}")
    return target.stat().st_size


def restore(source: Path, address: str) -> None:
    """Put a backup into a database that has no tables of the service yet, and migrate it."""
    url, _ = supported_address(address)
    kind = _kind_of(source)
    if kind != url.get_backend_name():
        raise Invalid(f"{source} is a backup of {kind}; it cannot be restored into {safe_address(address)}.")
    if kind == "sqlite":
        target = Path(url.database or "")
        if target.exists():
            raise Invalid(f"The database {target} exists already; restoring does not overwrite it. Move it away first.")
        with _new_file(target) as partial:
            _copy_sqlite(source, partial)
    else:
        _check_empty(url, address)
        _run_postgres(
            "pg_restore",
            address,
            "--exit-on-error",
            "--single-transaction",
            "--no-owner",
            "--no-privileges",
            str(source),
        )
    with contextlib.closing(Store(address)) as store, store.write() as connection:
        sessions.delete_all(connection)
        audit.record(connection, "restored")


def _kind_of(source: Path) -> str:
    try:
        with source.open("rb") as stream:
            start = stream.read(len(SQLITE))
    except OSError as error:
        raise Invalid(f"The backup {source} cannot be read: {error.strerror}.") from None
    if start == SQLITE:
        return "sqlite"
    if start.startswith(POSTGRES):
        return "postgresql"
    raise Invalid(f"{source} is not a backup; expected a file that `multileave backup` wrote.")


@contextlib.contextmanager
def _new_file(target: Path) -> Iterator[Path]:
    """Yield an empty file that only its owner can read; it gets its name when it is complete."""
    partial = target.with_name(target.name + ".partial")
    try:
        partial.unlink(missing_ok=True)
        partial.touch(mode=0o600)
        yield partial
        partial.rename(target)
    except OSError as error:
        raise Invalid(f"{target} cannot be written: {error.strerror}. Choose another file.") from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def _copy_sqlite(source: Path, target: Path) -> None:
    """Copy a database of the service in one step, so that its writers neither wait nor make the copy begin again."""
    if not source.is_file():
        raise Invalid(f"There is no database {source}.")
    try:
        with _sqlite(source, "?mode=ro") as reading, _sqlite(target) as writing:
            if not reading.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone():
                raise Invalid(f"{source} is not a database of the service.")
            reading.backup(writing)
            writing.execute("PRAGMA journal_mode=DELETE")  # one file, without a -wal beside it
            found = writing.execute("PRAGMA integrity_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        raise Invalid(f"The database {source} cannot be copied: {error}.") from None
    if found != "ok":
        raise Invalid(f"The database {source} is damaged: {found}. Take an earlier backup.")


@contextlib.contextmanager
def _sqlite(path: Path, options: str = "") -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path.absolute().as_uri() + options, uri=True)
    try:
        yield connection
    finally:
        connection.close()


def _check_empty(url: URL, address: str) -> None:
    engine = sa.create_engine(url.set(drivername="postgresql+psycopg"), connect_args={"connect_timeout": 10})
    try:
        there = set(sa.inspect(engine).get_table_names()) & set(metadata.tables)
    except sa.exc.DatabaseError as error:
        raise Invalid(f"The database {safe_address(address)} cannot be used: {reason_of(error, address)}.") from None
    finally:
        engine.dispose()
    if there:
        raise Invalid(
            f"The database {safe_address(address)} has the service's tables already; restoring does not overwrite "
            "them. Create an empty database and restore into that."
        )


def _run_postgres(program: str, address: str, *options: str) -> None:
    """Run a program of Postgres; the password goes through the environment, where other users cannot see it."""
    if shutil.which(program) is None:
        raise Invalid(f"{program} is not on the path. Install Postgres's client programs, such as postgresql-client.")
    url, _ = supported_address(address)
    plain = url.set(drivername="postgresql", password=None).render_as_string(hide_password=False)
    environment = dict(os.environ) if url.password is None else {**os.environ, "PGPASSWORD": str(url.password)}
    done = subprocess.run([program, f"--dbname={plain}", *options], env=environment, capture_output=True, text=True)
    if done.returncode:
        problem = " ".join(without_secrets(done.stderr, address).split()) or f"exit code {done.returncode}"
        raise Invalid(f"{program} failed: {problem.removeprefix(program + ': ').rstrip('.')}.")
