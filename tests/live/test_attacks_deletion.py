"""Attacks on deletion: units with very many impressions, interruptions, and chains that outlive their retention."""

import asyncio
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from multileave.live.definition import Definition
from multileave.live.errors import NotFound
from multileave.live.records import Event, ShowRequest
from multileave.live.service import Service
from multileave.live.settings import Settings
from multileave.live.store.impressions import ImpressionWriter
from multileave.live.store.tables import events, impressions, ledgers, units
from multileave.live.verdicts import aggregation
from multileave.replay import replay

RANKINGS = {"bm25": ["a", "b", "c", "d"], "dense": ["d", "c", "b", "a"]}
SETTINGS = {"secret": "s" * 32}
SECOND = 10**6
DAY = 86_400
BEGIN = 10**15  # the first moment of the tests with a clock of their own


@pytest.fixture
def service(address):
    found = Service(Settings(database=address, **SETTINGS))
    yield found
    found.close()


def running(service, **changes):
    definition = {"name": "attacked", "rankers": ("bm25", "dense"), "k": 3, **changes}
    return service.start(service.create(Definition(**definition)).number).number


def show(service, number, unit="u", query="q"):
    return asyncio.run(service.show(number, ShowRequest(RANKINGS, unit, query)))


def click(service, shown, position=0):
    (receipt,) = asyncio.run(service.record([Event("e", shown.impression, position=position)]))
    return receipt.accepted


def rows_of(service, table):
    with service._store.read() as connection:
        return connection.execute(sa.select(table)).all()


# Units


def copy_impression(service, count):
    """Store copies of the one impression, each with one event, as fast as the database allows."""
    (row,) = rows_of(service, impressions)
    copies = [{**row._mapping, "id": b"%016d" % n} for n in range(count)]
    clicks = [
        {"impression": copy["id"], "position": n % 3, "action": "click", "timestamp": row.created, "dwell": None}
        for n, copy in enumerate(copies)
    ]
    with service._store.write() as connection:
        connection.execute(sa.insert(impressions), copies)
        connection.execute(sa.insert(events), clicks)


@pytest.mark.acceptance
def test_a_unit_with_more_impressions_than_a_statement_has_parameters_is_deleted(service):
    number = running(service)
    show(service, number)
    copy_impression(service, 70_000)
    for other in ("x", "y"):
        click(service, show(service, number, other))
    alone = running(service)
    for other in ("x", "y"):
        click(service, show(service, alone, other))
    longest, searching, over = [0.0], [], threading.Event()

    def search():
        import time

        while not over.is_set():
            began = time.monotonic()
            searching.append(show(service, alone, f"z{len(searching)}"))
            longest[0] = max(longest[0], time.monotonic() - began)
            time.sleep(0.01)

    thread = threading.Thread(target=search)
    thread.start()
    try:
        assert service.delete_unit("u") == 70_001
    finally:
        over.set()
        thread.join()
    assert len(searching) > 20
    assert longest[0] < 5.0  # searches go on
    assert len(rows_of(service, events)) == 4
    assert service.report(number).traffic.impressions == 2
    assert service.report(number).verdict.units == 2
    assert service.delete_unit("u") == 0


def test_an_interrupted_deletion_leaves_tallies_right_and_finishes_when_repeated(service, monkeypatch, tmp_path):
    monkeypatch.setattr(aggregation, "BATCH", 3)
    rng = random.Random(5)
    number = running(service)
    for n in range(11):
        for user in "uvwxyz":
            click(service, show(service, number, user, f"q{n}"), rng.randrange(3))
        if n == 6:
            service.fold()
    service.fold()
    real = aggregation.delete
    for survived in (0, 1, 2):
        calls = []

        def failing(connection, keys, calls=calls, survived=survived):
            calls.append(keys)
            if len(calls) > survived:
                raise RuntimeError("interrupted")
            real(connection, keys)

        monkeypatch.setattr(aggregation, "delete", failing)
        with pytest.raises(RuntimeError):
            service.delete_unit("u")
        rows = {row.unit: row.impressions for row in rows_of(service, units) if row.experiment == number}
        left = [row for row in rows_of(service, impressions) if row.experiment == number]
        assert sum(rows.values()) == len(left)
        assert service.report(number).traffic.impressions == len(left)
        assert service.report(number).traffic.units == 6
    monkeypatch.setattr(aggregation, "delete", real)
    assert service.delete_unit("u") == 11 - 3 * 3
    service.export(number, tmp_path / "log.parquet")
    (pair,), (expected,) = (
        verdict.pairs
        for verdict in (
            service.report(number).verdict,
            replay(tmp_path / "log.parquet").tally().verdict(interval="anytime"),
        )
    )
    assert (pair.preference, pair.low, pair.high) == pytest.approx((expected.preference, expected.low, expected.high))
    assert service.report(number).traffic.units == 5


def test_a_deleted_unit_is_gone_from_the_verdict_also_after_its_rows_were_swept(service, monkeypatch):
    number = running(service, retention_days=1.0)
    for user in ("u", "v", "w"):
        click(service, show(service, number, user))
    service.fold()
    later(monkeypatch, service, real_now() + 3 * DAY * SECOND)
    assert service.sweep() == 3
    click(service, show(service, number, "u", "another"))
    service.fold()
    assert service.report(number).traffic.units == 3
    assert service.delete_unit("u") == 1
    assert service.report(number).traffic.units == 2
    assert "u" not in {row.unit for row in rows_of(service, units)}
    assert len(rows_of(service, units)) == 2
    show(service, number, "u", "again")
    assert service.report(number).traffic.units == 3


def test_deleting_a_unit_touches_no_draft(service):
    draft = service.create(Definition(name="draft", rankers=("a", "b")))
    assert service.delete_unit("nobody") == 0
    assert rows_of(service, ledgers) == []
    service.delete_draft(draft.number)


def test_workers_that_delete_fold_and_search_at_once_agree(address):
    workers = [Service(Settings(database=address, **SETTINGS)) for _ in range(3)]
    number = running(workers[0])
    for n in range(150):
        click(workers[0], show(workers[0], number, "u", f"q{n}"))
        show(workers[0], number, f"v{n % 5}", f"q{n}")

    def work(n):
        if n % 3 == 0:
            return workers[n % 3].delete_unit("u")
        if n % 3 == 1:
            return workers[n % 3].fold() * 0
        for m in range(20):
            show(workers[n % 3], number, f"v{m % 5}", f"more {m}")
        return 0

    with ThreadPoolExecutor(3) as pool:
        deleted = sum(pool.map(work, range(9)))
    assert deleted == 150
    workers[1].fold()
    assert workers[2].report(number).traffic.impressions == 150 + 20
    assert workers[2].report(number).traffic.units == 5
    for worker in workers:
        worker.close()


def test_an_event_that_is_stored_while_its_unit_is_deleted_is_deleted_too(address):
    service, other = (Service(Settings(database=address, **SETTINGS)) for _ in range(2))
    shown = show(service, running(service))
    (key,) = (row.id for row in rows_of(service, impressions))
    writer = ImpressionWriter(service._store)
    event = {"impression": key, "position": 0, "action": "click", "timestamp": 0, "dwell": None}
    with ThreadPoolExecutor(1) as pool:
        with service._store.write() as connection:
            assert writer.find(connection, {bytes(key)})
            deleting = pool.submit(other.delete_unit, "u")
            with pytest.raises(TimeoutError):
                deleting.result(0.3)  # it waits
            writer.insert_events(connection, {(bytes(key), 0, "click"): event})
        assert deleting.result(30) == 1
    assert rows_of(service, events) == rows_of(service, impressions) == []
    assert not click(service, shown)
    service.close()
    other.close()


# Retention


def real_now():
    from multileave.live.store.times import now

    return now()


def later(monkeypatch, service, micros):
    monkeypatch.setattr("multileave.live.intake.now", lambda: micros)
    monkeypatch.setattr("multileave.live.service.now", lambda: micros)


def chain_length(moments, window):
    """How many impressions requests at some seconds are: one that is older than the window is another."""
    count, began = 0, None
    for moment in moments:
        if began is None or moment - began > window:
            count, began = count + 1, moment
    return count


CHAINS = {
    "as found": [0, 30, 40, 80, 90, 100],
    "each within the retention of the last": list(range(0, 2000, 50)),
    "with a long pause": [0, 61, 122, 500, 561, 700, 5000, 5061, 5100],
    "close together": list(range(0, 400, 7)),
    "at random": sorted(random.Random(3).sample(range(4000), 60)),
}


@pytest.mark.parametrize("moments", CHAINS.values(), ids=CHAINS)
@pytest.mark.parametrize(
    ("window", "retention"),
    [
        (60.0, 70.0),
        *(pytest.param(*both, marks=pytest.mark.acceptance) for both in [(60.0, 0.0), (10.0, 45.0), (300.0, 20.0)]),
    ],
)
def test_a_chain_of_requests_is_counted_the_same_with_any_retention(service, monkeypatch, moments, window, retention):
    number = running(service, window=window, retention_days=retention / DAY)
    for moment in moments:
        later(monkeypatch, service, BEGIN + moment * SECOND)
        for user in ("u", "v"):
            shown = show(service, number, user)
            assert user == "v" or click(service, shown)
        service.sweep()
        swept_before = BEGIN + (moment - max(window, retention)) * SECOND
        kept = [row for row in rows_of(service, impressions) if row.unit]
        assert all(row.created >= swept_before for row in kept)  # what is past its retention is gone
        emptied = [row for row in rows_of(service, impressions) if not row.unit]
        assert all((row.payload, row.query, row.missing, row.counted) == ("", None, None, None) for row in emptied)
        assert {bytes(row.impression) for row in rows_of(service, events)} <= {bytes(row.id) for row in kept}
    expected = 2 * chain_length(moments, window)
    assert service.report(number).traffic.impressions == expected
    later(monkeypatch, service, BEGIN + (moments[-1] + 10_000) * SECOND)
    service.sweep()
    assert rows_of(service, impressions) == []
    assert rows_of(service, events) == []
    assert service.report(number).traffic.impressions == expected


def test_what_was_emptied_is_not_shown_listed_or_exported(service, monkeypatch, tmp_path):
    number = running(service, window=60.0, retention_days=60.0 / DAY)
    for moment in (0, 61, 122):
        later(monkeypatch, service, BEGIN + moment * SECOND)
        show(service, number)
    assert service.sweep() == 2
    assert service.sweep() == 0
    (head,) = [row for row in rows_of(service, impressions) if not row.unit]
    assert len(service.recent(number)) == service.export(number, tmp_path / "log.parquet") == 1
    with pytest.raises(NotFound):
        service.impression(number, bytes(head.id).hex())
    assert service.delete_unit("u") == 1
    assert show(service, number).recorded
    assert service.report(number).traffic.impressions == 1


def test_workers_that_repeat_and_sweep_at_once_count_every_chain_once(address, monkeypatch):
    workers = [Service(Settings(database=address, **SETTINGS)) for _ in range(3)]
    number = running(workers[0], window=60.0, retention_days=70.0 / DAY)
    moments = [0, 30, 75, 100, 140, 150, 210, 290, 300, 600, 650, 661, 700]

    def work(n):
        if n % 4 == 3:
            return workers[n % 3].sweep()
        return [show(workers[n % 3], number, f"u{m}").impression for m in range(6)]

    with ThreadPoolExecutor(4) as pool:
        for moment in moments:
            later(monkeypatch, workers[0], BEGIN + moment * SECOND)
            answers = [found for found in pool.map(work, range(8)) if isinstance(found, list)]
            assert all(found == answers[0] for found in answers)
    for worker in workers:
        worker.fold()
    assert workers[0].report(number).traffic.impressions == 6 * chain_length(moments, 60.0)
    for worker in workers:
        worker.close()


def test_leftovers_of_an_interrupted_sweep_are_never_taken_for_new_impressions(service, monkeypatch):
    number = running(service, window=60.0)
    for moment in (0, 61, 122):
        later(monkeypatch, service, BEGIN + moment * SECOND)
        first = show(service, number)
    with service._store.write() as connection:  # the first is gone, its repetitions are not
        connection.execute(sa.delete(impressions).where(impressions.c.latest > 0))
    for moment in (1000, 1061, 1122):
        later(monkeypatch, service, BEGIN + moment * SECOND)
        assert click(service, show(service, number))
    assert first.shown == show(service, number).shown
    assert service.report(number).traffic.impressions == 2 + 3
