"""The store: a database, SQLite or Postgres, and the two ways to use it, reading and writing."""

import contextlib
import secrets as random_secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError

from multileave.live.errors import Invalid
from multileave.live.store.tables import secrets

__all__ = ["Store"]

BUSY_SECONDS = 30
CACHE_KILOBYTES = 4096  # of each connection; the operating system keeps the file in memory anyway


class Store:
    """A database with the service's tables, brought up to date when it is opened.

    SQLite has one writer at a time: its own processes wait for each other in the database, and the threads
    of one process in a lock here, which is fair and does not poll.
    """

    def __init__(self, address: str, *, durable: bool = False) -> None:
        self.engine = _open(address, durable=durable)
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        self._lock: contextlib.AbstractContextManager[Any] = (
            threading.Lock() if self.is_sqlite else contextlib.nullcontext()
        )
        try:
            self._migrate()
        except DatabaseError as error:
            self.engine.dispose()
            raise Invalid(f"the database {safe_address(address)} cannot be used: {error.orig}.") from error

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection that sees one state of the database throughout."""
        with self.engine.connect() as connection, connection.begin():
            yield connection

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """Give a connection for one transaction, committed at the end; nothing is kept if it raises."""
        with self._lock, self.engine.connect().execution_options(writes=True) as connection, connection.begin():
            yield connection

    def insert(self, table: sa.Table) -> Any:
        """Return an insert that can say what to do about rows that are there already."""
        return sqlite.insert(table) if self.is_sqlite else postgresql.insert(table)

    def secret(self) -> str:
        """Return the secret kept in the database, made when first asked for."""
        with self.write() as connection:
            connection.execute(
                self.insert(secrets)
                .values(name="service", value=random_secrets.token_urlsafe(32))
                .on_conflict_do_nothing()
            )
            return str(connection.execute(sa.select(secrets.c.value).where(secrets.c.name == "service")).scalar_one())

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def _migrate(self) -> None:
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
        with self.write() as connection:
            if not self.is_sqlite:  # workers that start together
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(84210)"))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


def _open(address: str, *, durable: bool) -> Engine:
    try:
        url = make_url(address)
    except ArgumentError:
        raise Invalid(
            f"{safe_address(address)!r} is no address of a database; expected sqlite:///FILE or postgresql://..."
        ) from None
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() == "postgresql":
        return sa.create_engine(url, pool_size=8, max_overflow=8, pool_pre_ping=True)
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        raise Invalid(
            f"the database {safe_address(address)!r} is not one the service keeps its data in; expected "
            "sqlite:///FILE or postgresql://USER@HOST/NAME."
        )
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False}, pool_size=8)

    @sa.event.listens_for(engine, "connect")
    def _connected(raw: Any, _: Any) -> None:
        raw.isolation_level = None  # transactions are begun below, and by nobody else
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


def safe_address(address: str) -> str:
    """Return the address of a database without its password."""
    try:
        return make_url(address).render_as_string(hide_password=True)
    except ArgumentError:
        return address.rsplit("@", maxsplit=1)[-1]
