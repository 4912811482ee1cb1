"""The store: a database, and the two ways to use it, reading and writing.

No call waits for the database longer than the store's deadline. What the driver reports then, or when the disk is full
or the server gone, is raised as `Unavailable`: one line in the log, and 503 for clients. Tables, migrations and all
other SQL are the same for all backends.
"""

import contextlib
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, NotSupportedError, ProgrammingError, SQLAlchemyError

from multileave.live.errors import Contended, Invalid, Unavailable
from multileave.live.store.addresses import reason_of, safe_address
from multileave.live.store.circuit_breaker import CircuitBreaker
from multileave.live.store.engines import Connection, open_engine
from multileave.live.store.sqlite_files import file_of

__all__ = ["Connection", "Store"]

SECONDS = 4.0
SLOW_SECONDS = 60.0
MIGRATION_SECONDS = 600.0
LOCKS = {"migrations": 84210, "groups": 84211, "secrets": 84212}
OURS = (IntegrityError, ProgrammingError, DataError, NotSupportedError)  # errors of our SQL, not of the database
STALLED = "The database does not answer. Try again in a few seconds; sending the same request again is safe."
UNUSABLE = "The database cannot do this now. Try again in a few seconds; sending the same request again is safe."
BUSY = "The database is busy. Try again in a few seconds; sending the same request again is safe."
log = logging.getLogger("multileave.live")


class Store:
    """A database with the service's tables, migrated when it is opened.

    With a single writer, processes wait for each other in the database, and the threads of one process for a lock
    here, which is fair and does not poll.

    seconds: how long a call waits for the database before it raises `Unavailable`.
    """

    def __init__(self, address: str, *, durable: bool = True, seconds: float = SECONDS) -> None:
        self._address, self._seconds = address, seconds
        opened, self._dialect = open_engine(address, durable, seconds)
        self.engine, self._patience = opened.engine, opened.patience
        self.insert = self._dialect.insert
        self.file = file_of(self.engine.url)  # None if the database is not one
        self._lock = threading.Lock() if self._dialect.lock is None else None
        self._writing = CircuitBreaker(lambda: self._probe(writes=True), self._recovered)
        # A database with a single writer can be read while somebody holds its lock.
        self._reading = (
            self._writing if self._lock is None else CircuitBreaker(lambda: self._probe(writes=False), self._recovered)
        )
        try:
            self._migrate()
        except BaseException as error:
            self.close()
            if isinstance(error, Unavailable | SQLAlchemyError | OSError | ValueError | TypeError):
                reason = error.reason if isinstance(error, Unavailable) else reason_of(error, address)
                raise Invalid(f"The database {safe_address(address)} cannot be used: {reason}.") from None
            raise

    @contextlib.contextmanager
    def read(self, *, slow: bool = False) -> Iterator[Connection]:
        """Yield a connection that sees one state of the database throughout. slow: its statements may take a minute."""
        with (
            self._reporting(self._reading),
            self._connected() as connection,
            connection.begin(),
            self._waiting_for(connection, SLOW_SECONDS) if slow else contextlib.nullcontext(),
        ):
            yield connection

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield a connection for one transaction, committed at the end and rolled back on an error."""
        with (
            self._reporting(self._writing),
            self._alone(),
            self._connected(writes=True) as connection,
            connection.begin(),
        ):
            yield connection

    def lock(self, connection: Connection, purpose: str) -> None:
        """Wait until no other writer holds the lock for a purpose, and hold it until the transaction ends."""
        if self._dialect.lock is not None:
            connection.execute(sa.select(self._dialect.lock(LOCKS[purpose])))

    def check(self) -> None:
        """Raise `Unavailable` if the database does not answer."""
        with self.read() as connection:
            connection.execute(sa.select(sa.literal(1)))

    def close(self) -> None:
        """Close all connections."""
        self._writing.end()
        self._reading.end()
        self.engine.dispose()

    # Inside

    def _connected(self, **options: Any) -> Connection:
        with self._patience(self._seconds / 2):  # for each step: a test of the connection, and a new one if it is lost
            connection = self.engine.connect()
        return connection.execution_options(**options)

    @contextlib.contextmanager
    def _waiting_for(self, connection: Connection, seconds: float) -> Iterator[None]:
        """Wait longer than usual for the statements of a transaction."""
        if self._lock is None:
            for name in ("statement_timeout", "lock_timeout"):
                connection.execute(sa.text(f"SET LOCAL {name} = {round(1000 * seconds)}"))
        with self._patience(seconds):
            yield

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the process's lock, if the database has a single writer."""
        if self._lock is None:
            yield
            return
        if not self._lock.acquire(timeout=self._seconds):
            raise Unavailable(BUSY)
        try:
            yield
        finally:
            self._lock.release()

    @contextlib.contextmanager
    def _reporting(self, breaker: CircuitBreaker) -> Iterator[None]:
        """Refuse at once while the breaker is open; raise `Unavailable` for what is wrong with the database."""
        breaker.check()
        try:
            yield
        except (DBAPIError, sa.exc.TimeoutError) as error:
            if isinstance(error, OURS):
                raise
            raise self._unavailable(error, breaker) from None

    def _unavailable(self, error: DBAPIError | sa.exc.TimeoutError, breaker: CircuitBreaker) -> Unavailable:
        driver = getattr(error, "orig", None)
        reason = reason_of(error, self._address)
        if (getattr(driver, "sqlstate", None) or "").startswith("40"):
            return Contended(BUSY, reason)
        log.warning("database unavailable", extra={"fields": {"error": type(driver or error).__name__, "says": reason}})
        if isinstance(error, sa.exc.TimeoutError):
            return Unavailable(BUSY, reason)
        if not self._dialect.has_stalled(driver):
            return Unavailable(UNUSABLE, reason)
        breaker.open(STALLED)
        return Unavailable(STALLED, reason)

    def _probe(self, *, writes: bool) -> None:
        with self._connected(writes=writes) as connection, connection.begin() as transaction:
            connection.execute(sa.select(sa.literal(1)))
            transaction.rollback()

    def _recovered(self) -> None:
        log.warning("database available again")

    def _migrate(self) -> None:
        from alembic import command
        from alembic.config import Config
        from alembic.migration import MigrationContext
        from alembic.script import ScriptDirectory

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
        script = ScriptDirectory.from_config(config)
        with self.read() as connection:
            found = MigrationContext.configure(connection).get_current_heads()
        known = {revision.revision for revision in script.walk_revisions()}
        if set(found) - known:
            raise Invalid(
                f"The database {safe_address(self._address)} was written by a newer version of multileave (schema "
                f"{', '.join(found)}; this version knows up to {script.get_current_head()}). Update multileave."
            )
        if set(found) == {script.get_current_head()}:
            return
        with self.write() as connection, self._waiting_for(connection, MIGRATION_SECONDS):
            self.lock(connection, "migrations")  # workers may start at the same time
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
