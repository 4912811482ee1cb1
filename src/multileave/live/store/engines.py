"""Engines: how each kind of database is opened, and how long calls wait for it.

A backend is a `Dialect`: how to open the engine, its insert-on-conflict, and how processes lock each other out.
"""

import contextlib
import math
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, Engine
from sqlalchemy.exc import ArgumentError

from multileave.live.errors import Invalid
from multileave.live.store.addresses import EXPECTED, read_address, reason_of, safe_address
from multileave.live.store.sqlite_files import create_private, file_of

Connection: TypeAlias = sa.engine.Connection
Patience: TypeAlias = Callable[[float], contextlib.AbstractContextManager[None]]
CACHE_KILOBYTES = 4096  # per connection; the operating system caches the file anyway
SHORTEST_CONNECT = 2  # seconds; libpq waits for no less
LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


@dataclass(frozen=True)
class Opened:
    """An open engine. patience: a context in which this thread waits for other seconds than usual."""

    engine: Engine
    patience: Patience


@dataclass(frozen=True)
class Dialect:
    """A kind of database.

    open: returns the engine for an address, durable or not, whose calls wait for at most some seconds.
    insert: with on_conflict_do_nothing and on_conflict_do_update. lock: an expression that holds the lock with a number
    until the transaction ends; None if the database has a single writer, which excludes all others.
    has_stalled: whether a driver's error means that a call has waited for all of its seconds.
    """

    open: Callable[[URL, bool, float], Opened]
    insert: Callable[[sa.Table], Any]
    lock: Callable[[int], Any] | None
    has_stalled: Callable[[BaseException | None], bool]


def _open_postgres(url: URL, durable: bool, seconds: float) -> Opened:
    from multileave.live.store.deadlines import Patience, PatientConnection

    usual = {
        "connect_timeout": max(math.ceil(seconds / 2), SHORTEST_CONNECT),
        "keepalives_idle": 30,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": round(4000 * seconds),
    }
    engine = sa.create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args={name: value for name, value in usual.items() if name not in url.query},
        pool_size=8,
        max_overflow=8,
        pool_timeout=seconds / 2,
        pool_pre_ping=True,
    )
    patience = Patience(seconds + 0.5)  # the server's own timeout, which keeps the connection, comes first

    @sa.event.listens_for(engine, "do_connect")
    def _connect(_: Any, __: Any, arguments: list[Any], options: dict[str, Any]) -> Any:
        raw = PatientConnection.connect(*arguments, **options)
        raw.patience = patience
        raw.autocommit = True
        for name in ("statement_timeout", "lock_timeout"):
            raw.execute(f"SET {name} = {round(1000 * seconds)}")
        raw.autocommit = False
        return raw

    return Opened(engine, patience.of)


def _postgres_has_stalled(error: BaseException | None) -> bool:
    from psycopg.errors import ConnectionTimeout

    from multileave.live.store.deadlines import Stalled

    return isinstance(error, Stalled | ConnectionTimeout)


def _open_sqlite(url: URL, durable: bool, seconds: float) -> Opened:
    if url.database in (None, "", ":memory:"):
        raise Invalid("An SQLite database in memory cannot be shared by workers; expected sqlite:///FILE.")
    create_private(file_of(url))
    options = {"timeout": seconds, "check_same_thread": False}
    engine = sa.create_engine(
        url.set(drivername="sqlite"), connect_args=options, pool_size=8, max_overflow=8, pool_timeout=seconds / 2
    )

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

    return Opened(engine, lambda _: contextlib.nullcontext())


def _sqlite_has_stalled(error: BaseException | None) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in LOCKED


DIALECTS = {
    "sqlite": Dialect(_open_sqlite, sqlite.insert, lock=None, has_stalled=_sqlite_has_stalled),
    "postgresql": Dialect(
        _open_postgres, postgresql.insert, lock=sa.func.pg_advisory_xact_lock, has_stalled=_postgres_has_stalled
    ),
}


def supported_address(address: str) -> tuple[URL, Dialect]:
    """Return the address of a database that can be used, and its dialect."""
    try:
        url = read_address(address)
        return url, DIALECTS[url.get_backend_name()]
    except ArgumentError:
        raise Invalid(f"{safe_address(address)!r} is not the address of a database; {EXPECTED}") from None
    except KeyError:
        raise Invalid(f"The database {safe_address(address)!r} is not supported; {EXPECTED}") from None


def open_engine(address: str, durable: bool, seconds: float) -> tuple[Opened, Dialect]:
    """Return the engine of a database, which connects when it is first used, and its dialect."""
    url, dialect = supported_address(address)
    try:
        return dialect.open(url, durable, seconds), dialect
    except (sa.exc.SQLAlchemyError, ValueError, TypeError) as error:
        reason = reason_of(error, address)
        raise Invalid(f"The address {safe_address(address)!r} cannot be read: {reason}; {EXPECTED}") from None
