"""Databases of earlier versions: events are merged without a change of verdicts, and can be read again."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext

from multileave.live.definition import Definition
from multileave.live.records import Event, ShowRequest
from multileave.live.service import Service
from multileave.live.settings import Settings
from multileave.live.store import database
from multileave.live.store.database import Store
from multileave.live.store.engines import open_engine
from multileave.live.store.tables import events, impressions, metadata

RANKINGS = {"bm25": ["a", "b", "c", "d"], "dense": ["d", "c", "b", "a"]}
TOO_EARLY = -62_135_647_200_000_000  # the year 0
BEFORE = sa.table("events", *map(sa.column, ("impression", "id", "position", "action", "timestamp", "dwell")))


def migrate(address, revision, direction=command.upgrade):
    store = Store(address)
    config = Config()
    config.set_main_option("script_location", f"{database.__file__.rpartition('/')[0]}/migrations")
    with store.write() as connection:
        config.attributes["connection"] = connection
        direction(config, revision)
    store.close()


def opened(address):
    return Service(Settings(database=address, secret="s" * 32, events_per_impression=0))


@pytest.fixture
def attacked(address):
    """A database of the first version, folded, with 5,000 events of one impression and an impossible time."""
    service = opened(address)
    definition = Definition(name="x", rankers=("bm25", "dense"), k=3, actions=("click", "satisfied"), window=3600.0)
    number = service.start(service.create(definition).number).number
    for n in range(6):
        shown = asyncio.run(service.show(number, ShowRequest(RANKINGS, f"u{n}")))
        asyncio.run(service.record([Event("e", shown.impression, position=n % 3, dwell=50.0 if n % 2 else None)]))
    service.fold()
    verdict = service.report(number).verdict
    service.close()
    store = Store(address)
    with store.read() as connection:
        last = connection.execute(sa.select(events).order_by(events.c.dwell.desc().nulls_last())).first()
        created = connection.execute(sa.select(impressions.c.created)).scalars().first()
    store.close()
    migrate(address, "0001", command.downgrade)
    engine = open_engine(address, durable=False, seconds=4.0)[0].engine
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        rows = [
            {
                "impression": last.impression, "id": f'"e{n}"', "position": last.position, "action": "click",
                "timestamp": TOO_EARLY if n == 7 else created + n, "dwell": n % 50 if n % 2 else None,
            }
            for n in range(5000)
        ]  # fmt: skip
        connection.execute(sa.insert(BEFORE), rows)
        connection.execute(
            sa.text("UPDATE impressions SET latest = 3 WHERE unit = (SELECT min(unit) FROM impressions)")
        )
    engine.dispose()
    return address, number, verdict


def test_events_of_one_action_become_one_and_the_verdict_stays(attacked, tmp_path):
    address, number, verdict = attacked
    service = opened(address)
    assert service.fold() == 0  # nothing that was counted has changed
    assert service.report(number).verdict == verdict
    assert service.report(number).traffic.events == {"click": 6, "satisfied": 3}
    assert service.export(number, tmp_path / "log.parquet") == 6
    clicks = pq.read_table(tmp_path / "log.parquet")["clicks"].to_pylist()
    assert sorted(len(found) for found in clicks) == [1] * 6
    assert sorted(found[0]["dwell"] or 0.0 for found in clicks) == [0.0] * 3 + [50.0] * 3
    for recent in service.recent(number):
        assert len(service.impression(number, recent.key).events) == 1
    with service._store.read() as connection:
        rows = connection.execute(sa.select(impressions.c.latest, impressions.c.renewed)).all()
    assert sorted((row.latest, row.renewed is not None) for row in rows) == [(0, False)] * 5 + [(3, True)]
    service.close()


def test_the_migrations_make_the_tables_that_the_service_uses(address):
    for _ in range(2):
        store = Store(address)
        with store.read() as connection:
            found = compare_metadata(MigrationContext.configure(connection), metadata)
            keys = sa.inspect(connection).get_pk_constraint("events")
        store.close()
        assert found == []
        assert keys["constrained_columns"] == ["impression", "position", "action"]
        assert keys["name"] == "pk_events"
        migrate(address, "0001", command.downgrade)


def test_workers_that_start_at_once_migrate_an_empty_database_once(empty_address):
    with ThreadPoolExecutor() as threads:
        stores = list(threads.map(lambda _: Store(empty_address), range(4)))
    for store in stores:
        with store.read() as connection:
            assert MigrationContext.configure(connection).get_current_heads()
            assert not compare_metadata(MigrationContext.configure(connection), metadata)
        store.close()
