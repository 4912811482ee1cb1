"""Impressions and their events in the store."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from multileave.live.store.database import Store
from multileave.live.store.tables import events, impressions

BATCH = 1000
Row = Any  # a row of the table, by the names of its columns


class ImpressionWriter:
    """Inserts impressions and events. Its statements are built once, since every search waits for them."""

    def __init__(self, store: Store) -> None:
        self._insert = store.insert(impressions).on_conflict_do_nothing().returning(impressions.c.id)
        self._insert_events = (
            store.insert(events).on_conflict_do_nothing().returning(events.c.impression, events.c.id)
        )  # fmt: skip

    def insert(
        self,
        connection: Connection,
        rows: Sequence[tuple[dict[str, Any], int]],
        repetition: Callable[[bytes, int], bytes],
    ) -> list[tuple[bytes, int]]:
        """Insert impressions, each with its window in microseconds; return each one's key and when it was created.

        repetition: the key of an impression's n-th repetition.
        """
        new = set(connection.execute(self._insert, [row for row, _ in rows]).scalars())
        found = []
        for row, window in rows:
            if row["id"] in new:
                new.discard(row["id"])  # the same request again in this batch is a repeat
                found.append((row["id"], row["created"]))
            else:
                found.append(self._repeat(connection, row, window, repetition))
        return found

    def _repeat(
        self, connection: Connection, row: dict[str, Any], window: int, repetition: Callable[[bytes, int], bytes]
    ) -> tuple[bytes, int]:
        """Find the impression that a request repeats, or insert a new one if that is older than the window."""
        columns = sa.select(impressions.c.created, impressions.c.delivered, impressions.c.latest)
        first = connection.execute(columns.where(impressions.c.id == row["id"])).one()
        key, current = row["id"], first
        if first.latest:
            key = repetition(row["id"], first.latest)
            current = connection.execute(columns.where(impressions.c.id == key)).one_or_none() or first
        if row["created"] - current.created > window:
            latest = first.latest + 1
            key = repetition(row["id"], latest)
            connection.execute(self._insert, [{**row, "id": key}])
            connection.execute(
                sa.update(impressions)
                .where(impressions.c.id == row["id"], impressions.c.latest < latest)
                .values(latest=latest)
            )
            current = connection.execute(columns.where(impressions.c.id == key)).one()
        if row["delivered"] > current.delivered:
            connection.execute(
                sa.update(impressions)
                .where(impressions.c.id == key, impressions.c.delivered < row["delivered"])
                .values(delivered=row["delivered"], dirty=True)
            )
        return key, current.created

    def find(self, connection: Connection, keys: set[bytes]) -> dict[bytes, Row]:
        """Return the impressions that events refer to, by key."""
        if not keys:
            return {}
        query = sa.select(
            impressions.c.id, impressions.c.experiment, impressions.c.payload, impressions.c.delivered
        ).where(impressions.c.id.in_(sorted(keys)))
        return {bytes(row.id): row for row in connection.execute(query)}

    def insert_events(
        self, connection: Connection, rows: Mapping[tuple[bytes, str], dict[str, Any]]
    ) -> set[tuple[bytes, str]]:
        """Insert events by impression and id; return those that were not there before."""
        if not rows:
            return set()
        ordered = [rows[key] for key in sorted(rows)]  # in one order, so that workers do not deadlock
        new = {(bytes(row.impression), row.id) for row in connection.execute(self._insert_events, ordered)}
        if new:
            changed = sorted({key for key, _ in new})
            connection.execute(sa.update(impressions).where(impressions.c.id.in_(changed)).values(dirty=True))
        return new


def events_of(connection: Connection, keys: Sequence[bytes]) -> dict[bytes, list[Row]]:
    """Return the events of some impressions."""
    found: dict[bytes, list[Row]] = {}
    for event in connection.execute(sa.select(events).where(events.c.impression.in_(keys))):
        found.setdefault(bytes(event.impression), []).append(event)
    return found


def load_recent(connection: Connection, experiment: int, limit: int) -> Sequence[Row]:
    """Return the newest impressions, each with the number of its events as `clicks`."""
    clicks = sa.select(sa.func.count()).where(events.c.impression == impressions.c.id).scalar_subquery()
    query = sa.select(impressions, clicks.label("clicks")).where(impressions.c.experiment == experiment)
    return connection.execute(query.order_by(impressions.c.created.desc()).limit(limit)).all()


def load_one(connection: Connection, experiment: int, key: bytes) -> Row | None:
    """Return an impression."""
    query = sa.select(impressions).where(impressions.c.id == key, impressions.c.experiment == experiment)
    return connection.execute(query).one_or_none()


def load_unit(connection: Connection, experiment: int, unit: str) -> Sequence[Row]:
    """Return all impressions of a unit."""
    query = sa.select(impressions).where(impressions.c.experiment == experiment, impressions.c.unit == unit)
    return connection.execute(query).all()


def load_new(connection: Connection, experiment: int, limit: int, *, lock: bool = False) -> Sequence[Row]:
    """Return impressions that changed since they were last counted; lock: those that no other process holds."""
    query = sa.select(impressions).where(impressions.c.experiment == experiment, impressions.c.dirty).limit(limit)
    return connection.execute(query.with_for_update(skip_locked=True) if lock else query).all()


def oldest_uncounted(connection: Connection, experiment: int) -> int | None:
    """Return when the oldest impression was created that changed since it was last counted; None if there is none."""
    query = sa.select(sa.func.min(impressions.c.created)).where(
        impressions.c.experiment == experiment, impressions.c.dirty
    )
    found: int | None = connection.execute(query).scalar_one()
    return found


def load_expired(connection: Connection, experiment: int, before: int, limit: int) -> Sequence[bytes]:
    """Return keys of impressions that were created before a time and are counted."""
    old = sa.and_(impressions.c.experiment == experiment, impressions.c.created < before, sa.not_(impressions.c.dirty))
    return connection.execute(sa.select(impressions.c.id).where(old).limit(limit)).scalars().all()


def load_batches(store: Store, experiment: int) -> Iterator[tuple[Row, list[Row]]]:
    """Yield all impressions with their events, a batch of them read at a time."""
    last, rows = b"", None
    while rows is None or len(rows) == BATCH:
        query = sa.select(impressions).where(impressions.c.experiment == experiment, impressions.c.id > last)
        with store.read(slow=True) as connection:
            rows = connection.execute(query.order_by(impressions.c.id).limit(BATCH)).all()
            found = events_of(connection, [row.id for row in rows])
        for row in rows:
            yield row, found.get(bytes(row.id), [])
        last = rows[-1].id if rows else b""


def delete(connection: Connection, keys: Sequence[bytes]) -> None:
    """Delete impressions and their events."""
    connection.execute(sa.delete(events).where(events.c.impression.in_(keys)))
    connection.execute(sa.delete(impressions).where(impressions.c.id.in_(keys)))
