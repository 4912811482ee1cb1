"""API keys in the store, as hashes."""

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from multileave.live.records import Key, KeyRequest
from multileave.live.store.tables import api_keys
from multileave.live.store.times import from_micros, micros, now


def insert(connection: Connection, wanted: KeyRequest, hashed: bytes) -> Key:
    """Store a new key."""
    row = {
        "name": wanted.name,
        "role": wanted.role,
        "hash": hashed,
        "created": now(),
        "expires": None if wanted.expires is None else micros(wanted.expires),
        "experiments": None if wanted.experiments is None else json.dumps(sorted(set(wanted.experiments))),
    }
    return key_of(connection.execute(sa.insert(api_keys).returning(api_keys), [row]).one())


def load_all(connection: Connection) -> list[Key]:
    """Return all keys, revoked ones included."""
    return [key_of(row) for row in connection.execute(sa.select(api_keys).order_by(api_keys.c.number))]


def find_hash(connection: Connection, hashed: bytes) -> Key | None:
    """Return the valid key with a hash. The index may leak timing, but only about a hash of random bits."""
    row = connection.execute(sa.select(api_keys).where(api_keys.c.hash == hashed, is_valid(now()))).one_or_none()
    return None if row is None else key_of(row)


def revoke(connection: Connection, number: int) -> Key | None:
    """Revoke a key and return it; None if there is none that has not been revoked."""
    wanted = sa.and_(api_keys.c.number == number, api_keys.c.revoked.is_(None))
    row = connection.execute(
        sa.update(api_keys).where(wanted).values(revoked=now()).returning(api_keys)
    ).one_or_none()  # fmt: skip
    return None if row is None else key_of(row)


def save_use(connection: Connection, used: Mapping[int, int]) -> None:
    """Store when keys were last used, by their numbers."""
    statement = sa.update(api_keys).where(
        api_keys.c.number == sa.bindparam("key"),
        sa.or_(api_keys.c.used.is_(None), api_keys.c.used < sa.bindparam("at")),
    )
    rows = [{"key": number, "at": at} for number, at in sorted(used.items())]
    connection.execute(statement.values(used=sa.bindparam("at")), rows)


def is_valid(at: int) -> sa.ColumnElement[bool]:
    """Return the condition that a key is neither revoked nor expired."""
    return sa.and_(api_keys.c.revoked.is_(None), sa.or_(api_keys.c.expires.is_(None), api_keys.c.expires > at))


def key_of(row: Any) -> Key:
    """Return the key of a row."""
    times = {name: getattr(row, name) for name in ("created", "revoked", "expires", "used")}
    found = {name: None if time is None else from_micros(time) for name, time in times.items()}
    experiments = None if row.experiments is None else tuple(json.loads(row.experiments))
    return Key(number=row.number, name=row.name, role=row.role, experiments=experiments, **found)  # type: ignore[arg-type]
