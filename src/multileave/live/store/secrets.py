"""Secrets in the store: the hashing keys, and the signing secret where it has no better place."""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from multileave.live.access.tokens import HASHING
from multileave.live.store.database import Store
from multileave.live.store.tables import experiments, secrets

SIGNING = "service"


def load_hashing_keys(connection: Connection) -> dict[str, bytes]:
    """Return the hashing keys by purpose; empty if they have not been made yet."""
    query = sa.select(secrets.c.name, secrets.c.value).where(secrets.c.name.in_(HASHING))
    return {row.name: bytes.fromhex(row.value) for row in connection.execute(query)}


def insert_hashing_keys(connection: Connection, keys: dict[str, bytes]) -> None:
    """Store the hashing keys, once and for all."""
    connection.execute(sa.insert(secrets), [{"name": name, "value": key.hex()} for name, key in keys.items()])


def load_signing_secret(connection: Connection) -> str | None:
    """Return the signing secret that is kept in the database, None if there is none."""
    return connection.execute(sa.select(secrets.c.value).where(secrets.c.name == SIGNING)).scalar_one_or_none()


def insert_signing_secret(connection: Connection, secret: str) -> None:
    """Keep the signing secret in the database."""
    connection.execute(sa.insert(secrets), {"name": SIGNING, "value": secret})


def delete_signing_secret(connection: Connection) -> None:
    """Delete the signing secret from an SQLite database, and overwrite it there."""
    connection.exec_driver_sql("PRAGMA secure_delete=ON")
    connection.execute(sa.delete(secrets).where(secrets.c.name == SIGNING))


def empty_journal(store: Store) -> bool:
    """Write the journal of an SQLite database into its file and empty it; return whether nobody was in the way."""
    raw = store.engine.raw_connection()
    try:
        cursor = raw.cursor()
        cursor.execute("PRAGMA secure_delete=OFF")
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        row = cursor.fetchone()
        return row is not None and not row[0]
    finally:
        raw.close()


def is_new(connection: Connection) -> bool:
    """Whether no experiment has ever been created, so that nothing depends on any key."""
    return connection.execute(sa.select(experiments.c.number).limit(1)).first() is None
