"""Impressions and their events in the store."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from multileave.live.store.database import Store
from multileave.live.store.tables import DIRTY, events, impressions

BATCH = 1000
MOST_KEYS = 500  # in one statement; databases limit its parameters
Row = Any  # a row of the table, by the names of its columns
EventKey = tuple[bytes, int, str]  # impression, position and action
KEPT = impressions.c.unit != ""  # not emptied by `delete_expired`
COUNTED = sa.and_(  # in the tallies, and kept
    impressions.c.counted_delivered > 0, impressions.c.payload != "", impressions.c.arm.is_(None)
)


class _Current(NamedTuple):
    """The impression that a request is now, the `number`-th repetition of the first."""

    key: bytes
    created: int
    delivered: int
    number: int


class ImpressionWriter:
    """Inserts impressions and events. Its statements are built once, since every search waits for them."""

    def __init__(self, store: Store) -> None:
        self._insert = store.insert(impressions).on_conflict_do_nothing().returning(impressions.c.id)
        self._state = sa.select(impressions.c.created, impressions.c.delivered, impressions.c.latest)
        key = events.c.impression, events.c.position, events.c.action
        insert = store.insert(events)
        self._insert_events = insert.on_conflict_do_nothing().returning(*key)
        sent, longer = insert.excluded, insert.excluded.dwell > sa.func.coalesce(events.c.dwell, -1.0)
        earlier = sent.timestamp < events.c.timestamp
        larger = sa.and_(sent.value.is_not(None), sa.or_(events.c.value.is_(None), sent.value > events.c.value))
        self._merge_events = insert.on_conflict_do_update(
            index_elements=key,
            set_={
                "timestamp": sa.case((earlier, sent.timestamp), else_=events.c.timestamp),
                "dwell": sa.case((longer, sent.dwell), else_=events.c.dwell),
                "value": sa.case((larger, sent.value), else_=events.c.value),
            },
            where=longer | earlier | larger,
        ).returning(*key)

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
        current = self._current(connection, row["id"], repetition)
        if current is None or row["created"] - current.created > window:
            current = self._renew(connection, row, window, repetition)
        if row["delivered"] > current.delivered:
            connection.execute(
                sa.update(impressions)
                .where(impressions.c.id == current.key, impressions.c.delivered < row["delivered"])
                .values(delivered=row["delivered"], dirty=True)
            )
        return current.key, current.created

    def _current(
        self, connection: Connection, first_key: bytes, repetition: Callable[[bytes, int], bytes], *, lock: bool = False
    ) -> _Current | None:
        """Return the latest repetition of an impression; lock: the first one, which knows it."""
        query = self._state.where(impressions.c.id == first_key)
        first = connection.execute(query.with_for_update() if lock else query).one_or_none()
        if first is None or not first.latest:
            return None if first is None else _Current(first_key, first.created, first.delivered, 0)
        key = repetition(first_key, first.latest)
        latest = connection.execute(self._state.where(impressions.c.id == key)).one_or_none() or first
        return _Current(key, latest.created, latest.delivered, first.latest)

    def _renew(
        self, connection: Connection, row: dict[str, Any], window: int, repetition: Callable[[bytes, int], bytes]
    ) -> _Current:
        """Insert the next repetition, unless another process has done so meanwhile."""
        current = self._current(connection, row["id"], repetition, lock=True)
        if current is None:  # deleted since it was found
            connection.execute(self._insert, [row])
            current = self._current(connection, row["id"], repetition, lock=True)
            assert current is not None
        before = current.number
        while row["created"] - current.created > window:
            number = current.number + 1
            key = repetition(row["id"], number)
            connection.execute(self._insert, [{**row, "id": key}])
            stored = connection.execute(self._state.where(impressions.c.id == key)).one()
            current = _Current(key, stored.created, stored.delivered, number)
        if current.number > before:
            connection.execute(
                sa.update(impressions)
                .where(impressions.c.id == row["id"])
                .values(latest=current.number, renewed=current.created)
            )
        return current

    def find(self, connection: Connection, keys: set[bytes]) -> dict[bytes, Row]:
        """Return the impressions that events refer to, by key; none is deleted until the transaction ends."""
        columns = impressions.c.id, impressions.c.created, impressions.c.payload, impressions.c.delivered
        query = sa.select(*columns).with_for_update(read=True, key_share=True)
        found: dict[bytes, Row] = {}
        for some in _batches(sorted(keys)):
            for row in connection.execute(query.where(impressions.c.id.in_(some))):
                found[bytes(row.id)] = row
        return found

    def insert_events(self, connection: Connection, rows: Mapping[EventKey, dict[str, Any]]) -> set[EventKey]:
        """Insert events, or merge them with what is there, as `Event` says. Return the new ones.

        The result does not depend on the order of events, nor on how often each is sent.
        """
        ordered = sorted(rows)  # in one order, so that workers do not deadlock
        new = self._store_events(connection, self._insert_events, [rows[key] for key in ordered])
        known = [rows[key] for key in ordered if key not in new]
        changed = new | self._store_events(connection, self._merge_events, known)
        for some in _batches(sorted({key for key, _, _ in changed})):
            connection.execute(sa.update(impressions).where(impressions.c.id.in_(some)).values(dirty=True))
        return new

    def _store_events(self, connection: Connection, statement: Any, rows: list[dict[str, Any]]) -> set[EventKey]:
        if not rows:
            return set()
        return {(bytes(row.impression), row.position, row.action) for row in connection.execute(statement, rows)}


def _batches(keys: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Yield keys, as many at a time as one statement may have."""
    for start in range(0, len(keys), MOST_KEYS):
        yield keys[start : start + MOST_KEYS]


def events_of(connection: Connection, keys: Sequence[bytes]) -> dict[bytes, list[Row]]:
    """Return the events of some impressions."""
    found: dict[bytes, list[Row]] = {}
    for some in _batches(keys):
        for event in connection.execute(sa.select(events).where(events.c.impression.in_(some))):
            found.setdefault(bytes(event.impression), []).append(event)
    return found


def load_recent(connection: Connection, experiment: int, limit: int) -> Sequence[Row]:
    """Return the newest impressions, each with the number of its events as `clicks`."""
    clicks = sa.select(sa.func.count()).where(events.c.impression == impressions.c.id).scalar_subquery()
    query = sa.select(impressions, clicks.label("clicks")).where(impressions.c.experiment == experiment, KEPT)
    return connection.execute(query.order_by(impressions.c.created.desc()).limit(limit)).all()


def load_one(connection: Connection, experiment: int, key: bytes) -> Row | None:
    """Return an impression."""
    query = sa.select(impressions).where(impressions.c.id == key, impressions.c.experiment == experiment, KEPT)
    return connection.execute(query).one_or_none()


def load_unit(connection: Connection, experiment: int, unit: str, limit: int) -> Sequence[Row]:
    """Return impressions of a unit."""
    query = sa.select(impressions).where(impressions.c.experiment == experiment, impressions.c.unit == unit)
    return connection.execute(query.limit(limit)).all()


def load_new(connection: Connection, experiment: int, limit: int, *, lock: bool = False) -> Sequence[Row]:
    """Return impressions that changed since they were last counted; lock: those that no other process holds."""
    query = sa.select(impressions).where(impressions.c.experiment == experiment, DIRTY).limit(limit)
    return connection.execute(query.with_for_update(skip_locked=True) if lock else query).all()


def oldest_uncounted(connection: Connection, experiment: int) -> int | None:
    """Return when the oldest impression was created that changed since it was last counted; None if there is none."""
    # + 0: else SQLite looks for the first of them among all impressions, oldest first.
    query = sa.select(sa.func.min(impressions.c.created + 0)).where(impressions.c.experiment == experiment, DIRTY)
    found: int | None = connection.execute(query).scalar_one()
    return found


def delete_expired(connection: Connection, experiment: int, before: int, limit: int) -> tuple[int, bool]:
    """Delete counted impressions that were created before a time, up to a limit; return how many, and if that was all.

    The first of a chain of repetitions is emptied, and deleted with the latest one: it knows which that is, so that
    the next request is not taken for a new one.
    """
    over = sa.func.coalesce(impressions.c.renewed, impressions.c.created) < before
    old = sa.and_(impressions.c.experiment == experiment, impressions.c.created < before, sa.not_(impressions.c.dirty))
    query = sa.select(impressions.c.id, impressions.c.unit).where(old, over | KEPT).limit(limit)
    rows = connection.execute(query).all()
    empty: dict[str, Any] = {
        "unit": "", "query": None, "payload": "", "missing": None, "counted": None, "segment": None, "arm": None,
    }  # fmt: skip
    for some in _batches([row.id for row in rows]):
        # Again with the condition: another process may have repeated the impression since it was read.
        connection.execute(sa.delete(impressions).where(impressions.c.id.in_(some), over))
        connection.execute(sa.update(impressions).where(impressions.c.id.in_(some)).values(**empty))
        connection.execute(sa.delete(events).where(events.c.impression.in_(some)))
    return sum(bool(row.unit) for row in rows), len(rows) < limit


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


def segment_sizes(store: Store, experiment: int, limit: int) -> tuple[int, int, list[str | None]]:
    """Return how many counted impressions and segments there are, and the largest segments; None is one."""
    count = sa.func.count()
    columns = impressions.c.segment, sa.func.sum(count).over(), sa.func.count().over()
    query = sa.select(*columns).where(impressions.c.experiment == experiment, COUNTED).group_by(impressions.c.segment)
    with store.read(slow=True) as connection:
        rows = connection.execute(query.order_by(count.desc(), impressions.c.segment).limit(limit)).all()
    return (int(rows[0][1]), rows[0][2], [row[0] for row in rows]) if rows else (0, 0, [])


def load_counted(store: Store, experiment: int, *, payload: bool = False) -> Iterator[Sequence[Row]]:
    """Yield the segment, unit, contribution and, if wanted, payload of all counted impressions, a batch at a time."""
    columns = [impressions.c.segment, impressions.c.unit, impressions.c.counted]
    columns += [impressions.c.payload] if payload else []
    query = sa.select(*columns).where(impressions.c.experiment == experiment, COUNTED)
    with store.read(slow=True) as connection:
        yield from connection.execute(query, execution_options={"yield_per": BATCH}).partitions()


def delete(connection: Connection, keys: Sequence[bytes]) -> None:
    """Delete impressions and their events."""
    for some in _batches(keys):  # events last: their writers hold the impressions
        connection.execute(sa.delete(impressions).where(impressions.c.id.in_(some)))
        connection.execute(sa.delete(events).where(events.c.impression.in_(some)))
