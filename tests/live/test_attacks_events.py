"""Attacks with events: impossible times, one action reported again and again, and floods."""

import asyncio
import io
import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from http_service import API, check_refusal, serving

from multileave.live.access.tokens import ImpressionToken
from multileave.live.definition import Definition
from multileave.live.records import Event, ShowRequest
from multileave.live.service import Service
from multileave.live.settings import Settings
from multileave.live.store.database import Store
from multileave.live.store.tables import events

EVENTS = f"{API}/events"
RANKINGS = {"bm25": ["a", "b", "c", "d"], "dense": ["d", "c", "b", "a"]}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(f"sqlite:///{tmp_path_factory.mktemp('attacks')}/live.db", events_per_minute=0) as served:
        yield served


@pytest.fixture
def service(address):
    found = Service(Settings(database=address, secret="s" * 32))
    yield found
    found.close()


def running(service, **changes):
    definition = {"name": "attacked", "rankers": ("bm25", "dense"), "k": 3, **changes}
    return service.start(service.create(Definition(**definition)).number).number


def show(service, number, unit="u", **fields):
    return asyncio.run(service.show(number, ShowRequest(RANKINGS, unit, **fields)))


def record(service, *batch):
    return asyncio.run(service.record(batch))


def stored(address):
    store = Store(address)
    with store.read() as connection:
        rows = connection.execute(sa.select(events).order_by(events.c.position, events.c.action)).all()
    store.close()
    return [(row.position, row.action, row.timestamp, row.dwell) for row in rows]


def readable(served, number):
    """Check that everything about an experiment can be read; return its exported clicks."""
    for path in ("verdict", "health", "history", "impressions"):
        assert served.send("GET", f"{API}/experiments/{number}/{path}", "read").status_code == 200
    for entry in served.send("GET", f"{API}/experiments/{number}/impressions", "read").json()["impressions"]:
        detail = served.send("GET", f"{API}/experiments/{number}/impressions/{entry['key']}", "read")
        assert detail.status_code == 200, detail.text
    exported = served.send("GET", f"{API}/experiments/{number}/export", "read")
    assert exported.status_code == 200, exported.text
    return [click for row in pq.read_table(io.BytesIO(exported.content)).to_pylist() for click in row["clicks"]]


# Times


IMPOSSIBLE = [
    "0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00Z", "0001-01-01T23:59:59+23:59", "1969-12-31T23:59:59Z",
    "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59.999999-23:59", "2000-01-01T00:00:00Z",
    "0000-01-01T00:00:00Z", "-0001-01-01T00:00:00Z", "10000-01-01T00:00:00Z", "2024-01-01T00:00:00", "2024-01-01",
    "now", "", "NaN", "1e400", "9" * 400, "-62135596800", "253402300799",
]  # fmt: skip


@pytest.mark.parametrize("timestamp", [*IMPOSSIBLE, 0, -1, 10**18, 1e300, True, [], {}], ids=lambda t: str(t)[:40])
def test_an_impossible_time_is_rejected_and_everything_stays_readable(served, timestamp):
    number = served.running()
    event = {"id": "e", "impression": served.show(number).json()["impression"], "position": 0}
    answer = served.send("POST", EVENTS, None, json=[{**event, "timestamp": timestamp}])
    assert answer.status_code == 200, answer.text
    (receipt,) = answer.json()["receipts"]
    assert not receipt["accepted"]
    assert receipt["code"] in ("before_impression", "in_the_future", "invalid")
    assert readable(served, number) == []


def test_a_time_within_the_window_and_the_skew_of_clocks_is_accepted(service):
    number = running(service, window=3600.0)
    shown = show(service, number)
    now = datetime.now(UTC)
    codes = {}
    for seconds in (-86_400, -310, -290, 0, 290, 310, 86_400):
        for hours in (0, 14, -12):
            local = (now + timedelta(seconds=seconds)).astimezone(timezone(timedelta(hours=hours)))
            codes[seconds, hours] = record(service, Event("e", shown.impression, position=0, timestamp=local))[0].code
    expected = {-86_400: "before_impression", -310: "before_impression", 310: "in_the_future", 86_400: "in_the_future"}
    assert codes == {(seconds, hours): expected.get(seconds) for seconds, hours in codes}


@pytest.mark.parametrize("written", ["-1", "1e308", "NaN", "Infinity", "1e400", "-1e-300", '"5"', "31622401"])
def test_an_impossible_dwell_is_refused(served, written):
    number = served.running()
    token = served.show(number).json()["impression"]
    body = f'[{{"id": "e", "impression": "{token}", "position": 0, "dwell": {written}}}]'
    answer = served.send("POST", EVENTS, None, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400 or not answer.json()["receipts"][0]["accepted"]
    assert readable(served, number) == []


@pytest.mark.parametrize("dwell", [0.0, 5e-324, 1e-300, 0.1, 31_622_400.0])
def test_an_unusual_dwell_is_stored_as_it_came(service, dwell, tmp_path):
    number = running(service, actions=("satisfied",))
    shown = show(service, number)
    assert record(service, Event("e", shown.impression, position=0, dwell=dwell))[0].accepted
    service.export(number, tmp_path / "log.parquet")
    ((click,),) = pq.read_table(tmp_path / "log.parquet")["clicks"].to_pylist()
    assert click["dwell"] == dwell
    assert service.report(number).traffic.events == {"satisfied": int(dwell >= 30.0)}


@pytest.mark.parametrize("at", [-62_135_647_200_000_000, -(2**63), 2**63 - 1, 253_402_350_000_000_000, -1])
def test_a_database_with_impossible_times_can_be_read_again(address, at):
    with serving(address) as served:
        number = served.running(window=60.0)
        event = {"id": "e", "impression": served.show(number).json()["impression"], "position": 0}
        assert served.send("POST", EVENTS, None, json=[event]).json()["accepted"] == 1
        with served.app.state.service._store.write() as connection:
            connection.execute(sa.update(events).values(timestamp=at))
        (click,) = readable(served, number)
        assert abs(click["timestamp"] - datetime.now(UTC)) < timedelta(minutes=10)
        assert served.client.get("/healthz").status_code == 200


# One event for each action


def test_one_action_reported_a_thousand_times_is_one_row(address):
    service = Service(Settings(database=address, secret="s" * 32, events_per_impression=0))
    number = running(service, actions=("click", "purchase"))
    shown = show(service, number)
    batch = [Event(f"e{n}", shown.impression, position=n % 2) for n in range(1000)]
    receipts = record(service, *batch, *batch[:10], Event("p", shown.impression, position=0, action="purchase"))
    assert all(receipt.accepted for receipt in receipts)
    assert [receipt.duplicate for receipt in receipts] == [False] * 2 + [True] * 1008 + [False]
    assert all(receipt.duplicate for receipt in record(service, *batch))
    assert service.report(number).traffic.events == {"click": 2, "purchase": 1}
    service.close()
    assert [row[:2] for row in stored(address)] == [(0, "click"), (0, "purchase"), (1, "click")]


def test_the_position_and_the_document_are_the_same_event(address):
    service = Service(Settings(database=address))
    number = running(service)
    shown = show(service, number)
    first = record(service, Event("a", shown.impression, position=1))
    second = record(service, Event("b", shown.impression, document=shown.shown[1]))
    assert [first[0].duplicate, second[0].duplicate] == [False, True]
    service.close()
    assert len(stored(address)) == 1


def reports(token, seed):
    """Reports of one action with different times and dwells, in some order, each sent once or more often."""
    rng = random.Random(seed)
    now = datetime.now(UTC).replace(microsecond=0)
    kinds = [(None, 0), (5.0, 1), (40.0, 2), (12.0, 0), (None, 3), (0.0, 4)]
    found = [
        Event(f"e{n}", token, position=0, dwell=dwell, timestamp=now + timedelta(seconds=s))
        for n, (dwell, s) in enumerate(kinds)
    ]
    sent = [event for event in found for _ in range(rng.randint(1, 3))]
    rng.shuffle(sent)
    return now, sent


@pytest.mark.parametrize("seed", range(4))
def test_the_outcome_depends_neither_on_the_order_nor_on_resending(address, seed):
    service = Service(Settings(database=address))
    number = running(service, actions=("click", "satisfied"))
    shown = show(service, number)
    now, sent = reports(shown.impression, seed)
    rng = random.Random(seed)
    while sent:
        size = rng.randint(1, 3)
        assert all(receipt.accepted for receipt in record(service, *sent[:size]))
        service.fold()
        sent = sent[size:]
    assert service.report(number).traffic.events == {"click": 1, "satisfied": 1}
    service.close()
    ((_, _, timestamp, dwell),) = stored(address)
    assert (timestamp, dwell) == (int(now.timestamp()) * 1_000_000, 40.0)


def test_a_longer_dwell_that_comes_late_is_counted_and_a_repeat_changes_nothing(service):
    number = running(service, actions=("click", "satisfied"))
    shown = show(service, number)
    show(service, number, "other")
    record(service, Event("a", shown.impression, position=0))
    assert service.report(number).traffic.events == {"click": 1, "satisfied": 0}
    record(service, Event("b", shown.impression, position=0, dwell=60.0))
    assert service.report(number).traffic.events == {"click": 1, "satisfied": 1}
    assert service.fold() == 0
    for again in (Event("b", shown.impression, position=0, dwell=60.0), Event("c", shown.impression, position=0)):
        record(service, again)
        assert service.fold() == 0
    assert service.report(number).traffic.events == {"click": 1, "satisfied": 1}


def test_workers_that_get_the_same_events_agree(address):
    settings = Settings(database=address, secret="s" * 32)
    workers = [Service(settings) for _ in range(3)]
    number = running(workers[0], actions=("click", "satisfied"), k=4)
    tokens = [show(workers[0], number, f"u{n}").impression for n in range(20)]
    batch = [Event(f"{n} {token}", token, position=n % 4, dwell=float(10 * n)) for n in range(8) for token in tokens]

    def send(n):
        mixed = random.Random(n).sample(batch, len(batch))
        return sum(not receipt.duplicate for receipt in record(workers[n % 3], *mixed))

    with ThreadPoolExecutor(3) as pool:
        new = sum(pool.map(send, range(6)))
    assert new == 80
    assert workers[1].report(number).traffic.events == {"click": 80, "satisfied": 20 * 4}
    for worker in workers:
        worker.close()
    assert [row[3] for row in stored(address)].count(70.0) == 20


def test_a_batch_may_name_more_impressions_than_a_statement_has_parameters(service, monkeypatch):
    monkeypatch.setattr(service._writer, "_seconds", 60.0)  # this is about the statement, not the deadline
    number = running(service)

    async def search():
        requests = [ShowRequest(RANKINGS, f"u{n}") for n in range(1500)]
        first = await asyncio.gather(*(service.show(number, request) for request in requests[:750]))
        return first + await asyncio.gather(*(service.show(number, request) for request in requests[750:]))

    shown = asyncio.run(search())
    assert all(receipt.accepted for receipt in record(service, *(Event("e", s.impression, position=0) for s in shown)))

    def made_up(n):
        token = service._signer.impression(ImpressionToken(b"%16d" % n, number, 2**62))
        return Event("e", token, position=0)

    async def report():  # batches that share a transaction, of 45 x 1,500 impressions
        batches = [[made_up(1500 * b + n) for n in range(1500)] for b in range(45)]
        return await asyncio.gather(*(service.record(batch) for batch in batches))

    for receipts in asyncio.run(report()):
        assert {receipt.code for receipt in receipts} == {"unknown_impression"}


# Floods


def flood(served, event, times, **more):
    return [served.send("POST", EVENTS, None, json=[event], **more) for _ in range(times)]


@pytest.fixture
def limited(tmp_path):
    with serving(f"sqlite:///{tmp_path}/live.db", events_per_minute=20, events_per_impression=0) as served:
        yield served


def event_of(served, unit="u"):
    return {"id": "e", "impression": served.show(served.running(), unit).json()["impression"], "position": 0}


def test_an_address_without_a_key_may_send_so_many_events_in_a_minute(limited):
    event = event_of(limited)
    answers = flood(limited, event, 25)
    assert [answer.status_code for answer in answers] == [200] * 20 + [429] * 5
    error = check_refusal(answers[-1], 429, "too_many")
    assert "20" in error["message"]
    assert 0 < int(answers[-1].headers["retry-after"]) <= 60
    counted = limited.send("GET", "/metrics").text
    assert 'multileave_requests_total{method="POST",route="/api/v1/events",status="429"} 5.0' in counted
    for role in ("ingest", "admin"):
        assert limited.send("POST", EVENTS, role, json=[event] * 50).status_code == 200
    assert limited.send("POST", EVENTS, None, json=[event], headers={"Authorization": "Bearer none"}).status_code == 401
    assert limited.show(1).status_code == 200


def test_events_are_counted_not_requests_and_a_large_batch_gets_through(limited):
    event = event_of(limited)
    assert limited.send("POST", EVENTS, None, json=[event] * 50).json()["accepted"] == 50
    check_refusal(limited.send("POST", EVENTS, None, json=[event]), 429, "too_many")


@pytest.mark.parametrize("body", [b"x" * 60_000, b"[" + b"{}," * 20_000 + b"{}]", b"\n" * 60_000])
def test_refused_bodies_are_counted_by_their_size(limited, body):
    kind = {"Content-Type": "application/x-ndjson" if body[:1] == b"\n" else "application/json"}
    statuses = [limited.send("POST", EVENTS, None, content=body, headers=kind).status_code for _ in range(3)]
    assert statuses[0] in (200, 400, 413)
    assert statuses[1:] == [429, 429]


def test_one_impression_gets_so_many_events_in_a_minute_with_or_without_a_key(tmp_path):
    with serving(f"sqlite:///{tmp_path}/live.db", events_per_impression=10) as served:
        event, other = event_of(served), event_of(served, "other")
        assert [answer.status_code for answer in flood(served, event, 12)] == [200] * 10 + [429] * 2
        check_refusal(served.send("POST", EVENTS, "ingest", json=[event, event]), 429, "too_many")
        mixed = served.send("POST", EVENTS, "ingest", json=[event, other]).json()
        assert [receipt["code"] for receipt in mixed["receipts"]] == ["too_many", None]
        assert 'multileave_events_total{code="too_many",result="rejected"}' in served.send("GET", "/metrics").text


def test_another_spelling_of_a_token_is_the_same_impression(tmp_path):
    with serving(f"sqlite:///{tmp_path}/live.db", events_per_impression=3) as served:
        event = event_of(served)
        token = event["impression"]
        alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
        spellings = [token, token + "=", *(token[:-1] + letter for letter in alphabet)]
        answers = [served.send("POST", EVENTS, None, json=[{**event, "impression": one}]) for one in spellings]
        accepted = [answer for answer in answers if answer.status_code == 200 and answer.json()["accepted"]]
        assert len(accepted) == 3


def test_this_machine_is_exempt_unless_a_setting_includes_it(tmp_path):
    from starlette.testclient import TestClient

    for include, statuses in ((False, [200] * 8), (True, [200] * 5 + [429] * 3)):
        database = f"sqlite:///{tmp_path}/{include}.db"
        with serving(database, events_per_minute=5, limit_loopback=include) as served:
            event = event_of(served)
            local = TestClient(served.app, base_url="http://127.0.0.1:8421", client=("127.0.0.1", 5000))
            assert [local.post(EVENTS, json=[event]).status_code for _ in range(8)] == statuses


def test_addresses_of_one_network_share_a_limit_and_others_do_not(limited):
    from starlette.testclient import TestClient

    event = event_of(limited)

    def post(host):
        client = TestClient(limited.app, base_url="http://127.0.0.1:8421", client=(host, 5000))
        return client.post(EVENTS, json=[event]).status_code

    network = [post(f"2001:db8:1:2::{n:x}") for n in range(1, 26)]
    assert network == [200] * 20 + [429] * 5
    assert post("2001:db8:1:3::1") == 200
    mapped = [post(host) for host, _ in zip(itertools.cycle(["::ffff:203.0.113.7", "203.0.113.7"]), range(22))]
    assert mapped == [200] * 20 + [429] * 2


@pytest.mark.acceptance
def test_a_million_addresses_need_no_more_memory_than_one():
    import tracemalloc

    from multileave.live.access.rate_limits import RateLimit

    clock = iter(itertools.count())
    limit = RateLimit(10, lambda: next(clock) / 20_000)  # 50 seconds
    limit.wait("first")
    tracemalloc.start()
    for n in range(1_000_000):
        limit.wait(f"2001:db8:{n:x}::")
    used, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
    assert used < 1_000_000


def test_a_minute_ends():
    from multileave.live.access.rate_limits import RateLimit

    now = [100.0]
    limit = RateLimit(2, lambda: now[0])
    assert [limit.wait("a"), limit.wait("a"), limit.wait("a"), limit.wait("b")] == [0.0, 0.0, 60.0, 0.0]
    now[0] = 130.0
    assert limit.wait("a") == 30.0
    now[0] = 160.0
    assert limit.wait("a", 5) == 0.0
    assert limit.wait("a") == 60.0
    assert RateLimit(0).wait("a", 10**9) == 0.0
