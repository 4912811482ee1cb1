"""The store: a database, and the two ways to use it, reading and writing.

A backend is a `Dialect`: how to open the engine, its insert-on-conflict, and how processes lock each other out.
Tables, migrations and all other SQL are the same for all backends.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError

from multileave.live.errors import Invalid
from multileave.live.store.sqlite_files import create_private, file_of

Connection: TypeAlias = sa.engine.Connection
BUSY_SECONDS = 30
CACHE_KILOBYTES = 4096  # per connection; the operating system caches the file anyway
LOCKS = {"migrations": 84210, "groups": 84211, "secrets": 84212}


@dataclass(frozen=True)
class Dialect:
    """A kind of database.

    open: returns the engine for an address, durable or not. insert: with on_conflict_do_nothing and
    on_conflict_do_update. lock: an expression that holds the lock with a number until the transaction ends; None if the
    database has a single writer, which excludes all others.
    """

    open: Callable[[URL, bool], Engine]
    insert: Callable[[sa.Table], Any]
    lock: Callable[[int], Any] | None


def _open_postgres(url: URL, durable: bool) -> Engine:
    return sa.create_engine(
        url.set(drivername="postgresql+psycopg"), pool_size=8, max_overflow=8, pool_pre_ping=True
    )  # fmt: skip


def _open_sqlite(url: URL, durable: bool) -> Engine:
    if url.database in (None, "", ":memory:"):
        raise Invalid("An SQLite database in memory cannot be shared by workers; expected sqlite:///FILE.")
    create_private(file_of(url))
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False}, pool_size=8)

    @sa.event.listens_for(engine, "connect")
    def _connected(raw: Any, _: Any) -> None:
        raw.isolation_level = None  # transactions begin below and nowhere else
        for pragma in (
            "journal_mode=WAL",
            f"synchronous={'FULL' if durable else 'NORMAL'}",
            "foreign_keys=ON",
            f"cache_size=-{CACHE_KILOBYTES}",
        ):
            raw.execute(f"PRAGMA {pragma}")

    @sa.event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


DIALECTS = {
    "sqlite": Dialect(_open_sqlite, sqlite.insert, lock=None),
    "postgresql": Dialect(_open_postgres, postgresql.insert, lock=sa.func.pg_advisory_xact_lock),
}


class Store:
    """A database with the service's tables, migrated when it is opened.

    With a single writer, processes wait for each other in the database, and the threads of one process for a lock
    here, which is fair and does not poll.
    """

    def __init__(self, address: str, *, durable: bool = False) -> None:
        self.engine, self._dialect = _open(address, durable)
        self.insert = self._dialect.insert
        self.file = file_of(self.engine.url)  # None if the database is not one
        self._lock: contextlib.AbstractContextManager[Any] = (
            threading.Lock() if self._dialect.lock is None else contextlib.nullcontext()
        )
        try:
            self._migrate()
        except DatabaseError as error:
            self.engine.dispose()
            raise Invalid(f"The database {safe_address(address)} cannot be used: {error.orig}.") from error

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection that sees one state of the database throughout."""
        with self.engine.connect() as connection, connection.begin():
            yield connection

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield a connection for one transaction, committed at the end and rolled back on an error."""
        with self._lock, self.engine.connect().execution_options(writes=True) as connection, connection.begin():
            yield connection

    def lock(self, connection: Connection, purpose: str) -> None:
        """Wait until no other writer holds the lock for a purpose, and hold it until the transaction ends."""
        if self._dialect.lock is not None:
            connection.execute(sa.select(self._dialect.lock(LOCKS[purpose])))

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def _migrate(self) -> None:
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
        with self.write() as connection:
            self.lock(connection, "migrations")  # workers may start at the same time
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


def _open(address: str, durable: bool) -> tuple[Engine, Dialect]:
    expected = "expected sqlite:///FILE or postgresql://USER@HOST/NAME."
    try:
        url = make_url(address.replace("postgres://", "postgresql://", 1))
        dialect = DIALECTS[url.get_backend_name()]
    except ArgumentError:
        raise Invalid(f"{safe_address(address)!r} is not the address of a database; {expected}") from None
    except KeyError:
        raise Invalid(f"The database {safe_address(address)!r} is not supported; {expected}") from None
    return dialect.open(url, durable), dialect


def safe_address(address: str) -> str:
    """Return the address of a database without its password."""
    try:
        return make_url(address).render_as_string(hide_password=True)
    except ArgumentError:
        return address.rsplit("@", maxsplit=1)[-1]
