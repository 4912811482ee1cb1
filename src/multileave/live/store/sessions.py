"""Sessions in the store, as hashes of their cookies."""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from multileave.live.records import Key
from multileave.live.store.keys import is_valid, key_of
from multileave.live.store.tables import api_keys, sessions
from multileave.live.store.times import now

MOST_OF_A_KEY = 100  # the oldest are ended first


def insert(connection: Connection, hashed: bytes, key: int, expires: int) -> None:
    """Store a new session of a key."""
    row = {"hash": hashed, "key": key, "created": now(), "expires": expires}
    connection.execute(sa.insert(sessions), row)
    newest = sa.select(sessions.c.hash).where(sessions.c.key == key)
    newest = newest.order_by(sessions.c.created.desc()).limit(MOST_OF_A_KEY)
    connection.execute(sa.delete(sessions).where(sessions.c.key == key, sessions.c.hash.not_in(newest)))


def find(connection: Connection, hashed: bytes) -> Key | None:
    """Return the key of a session that has not expired, if the key is still valid."""
    at = now()
    joined = sa.select(api_keys).join(sessions, sessions.c.key == api_keys.c.number)
    row = connection.execute(
        joined.where(sessions.c.hash == hashed, sessions.c.expires > at, is_valid(at))
    ).one_or_none()
    return None if row is None else key_of(row)


def delete(connection: Connection, hashed: bytes) -> bool:
    """End a session; return whether there was one."""
    return bool(connection.execute(sa.delete(sessions).where(sessions.c.hash == hashed)).rowcount)


def delete_all(connection: Connection) -> None:
    """End all sessions."""
    connection.execute(sa.delete(sessions))


def delete_of_key(connection: Connection, key: int) -> None:
    """End all sessions of a key."""
    connection.execute(sa.delete(sessions).where(sessions.c.key == key))


def delete_expired(connection: Connection) -> None:
    """Delete the sessions that have expired, or whose key has."""
    at = now()
    ended = sa.select(api_keys.c.number).where(sa.not_(is_valid(at)))
    connection.execute(sa.delete(sessions).where(sa.or_(sessions.c.expires <= at, sessions.c.key.in_(ended))))
