"""API keys in the store, as hashes."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from multileave.live.records import Key, Role
from multileave.live.store.tables import api_keys
from multileave.live.store.times import from_micros, now


def insert(connection: Connection, name: str, role: Role, hashed: bytes) -> Key:
    """Store a new key."""
    created = now()
    row = {"name": name, "role": role, "hash": hashed, "created": created}
    number = connection.execute(sa.insert(api_keys).returning(api_keys.c.number), [row]).scalar_one()
    return Key(number, name, role, from_micros(created))


def load_all(connection: Connection) -> list[Key]:
    """Return all keys, revoked ones included."""
    return [_key(row) for row in connection.execute(sa.select(api_keys).order_by(api_keys.c.number))]


def find_hash(connection: Connection, hashed: bytes) -> Key | None:
    """Return the valid key with a hash. The index may leak timing, but only about a hash of random bits."""
    return _find(connection, api_keys.c.hash == hashed)


def find_number(connection: Connection, number: int) -> Key | None:
    """Return the valid key with a number."""
    return _find(connection, api_keys.c.number == number)


def revoke(connection: Connection, number: int) -> bool:
    """Revoke a key; return whether it was valid."""
    valid = sa.and_(api_keys.c.number == number, api_keys.c.revoked.is_(None))
    return bool(connection.execute(sa.update(api_keys).where(valid).values(revoked=now())).rowcount)


def _find(connection: Connection, condition: sa.ColumnElement[bool]) -> Key | None:
    row = connection.execute(sa.select(api_keys).where(condition, api_keys.c.revoked.is_(None))).one_or_none()
    return None if row is None else _key(row)


def _key(row: Any) -> Key:
    revoked = None if row.revoked is None else from_micros(row.revoked)
    return Key(row.number, row.name, row.role, from_micros(row.created), revoked)
