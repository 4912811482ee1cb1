"""A database that stops answering: searches are refused within seconds, nothing else waits, and all recovers."""

import asyncio
import json
import time

import httpx
import pytest
from served_process import API, Process
from stalling import locked, stopped

from multileave.live.errors import Unavailable
from multileave.live.store.database import Store
from multileave.live.store.group_commit import Writer

DEFINITION = {"name": "stall", "rankers": ["bm25", "dense"], "control": "bm25", "k": 3}
RANKINGS = {"bm25": ["a", "b", "c", "d"], "dense": ["d", "c", "b", "a"]}
TOGETHER = 100
ANSWERED = 20.0  # seconds, against hangs
ALIVE = 2.0


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.acceptance)])
def database(request):
    """The address of a database, and how to make it not answer."""
    address = request.getfixturevalue(f"{request.param}_address")
    return address, locked if request.param == "sqlite" else stopped


@pytest.fixture
def process(database, tmp_path):
    found = Process(database[0], tmp_path / "log", database_seconds=2)
    try:
        found.post("/experiments", DEFINITION)
        found.post("/experiments/1/start")
        yield found
    finally:
        found.stop()


def body(unit):
    return {"rankings": RANKINGS, "unit": f"u{unit}"}


async def ask_together(address, requests):
    """Send requests at the same time; return the answers, and how long each look at /healthz took."""
    took, over = [], False
    limits = httpx.Limits(max_connections=TOGETHER + 5)

    async def live(http):
        while not over:
            began = time.monotonic()
            assert (await http.get("/healthz")).status_code == 200
            took.append(time.monotonic() - began)
            await asyncio.sleep(0.05)

    async with (
        httpx.AsyncClient(base_url=address, timeout=ANSWERED, limits=limits) as http,
        httpx.AsyncClient(base_url=address, timeout=ALIVE) as other,
    ):
        alive = asyncio.create_task(live(other))
        answers = await asyncio.gather(
            *(http.request(method, path, json=sent) for method, path, sent in requests), return_exceptions=True
        )
        over = True
        await alive
    failed = [repr(answer) for answer in answers if isinstance(answer, Exception)]
    assert not failed, failed[0]
    return answers, took


def check_unavailable(answer):
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["retry-after"]) >= 1
    if answer.headers["content-type"] == "application/json":
        assert answer.json()["error"]["code"] == "unavailable"


@pytest.mark.acceptance
def test_a_stalled_database_refuses_searches_soon_keeps_the_process_alive_and_recovers(database, process, tmp_path):
    address, stall = database
    shown = [process.post("/experiments/1/impressions", body(unit)) for unit in range(5)]
    click = {"id": "before", "impression": shown[0]["impression"], "position": 0}
    assert process.post("/events", [click])["accepted"] == 1
    path = f"{API}/experiments/1/impressions"
    searches = [("POST", path, body(unit)) for unit in range(5, 5 + TOGETHER)]
    events = [("POST", f"{API}/events", [{**click, "id": f"e{n}"}]) for n in range(20)]
    with stall(address):
        time.sleep(1.2)  # what the process knows of the experiment is no longer fresh
        answers, took = asyncio.run(ask_together(process.address, searches + events))
        for answer in answers:
            check_unavailable(answer)
        assert max(took) < ALIVE
        if stall is stopped:  # an SQLite database can be read while its lock is held
            assert process.http.get("/readyz", timeout=5).status_code == 503
            pages = [("GET", "/", None), ("GET", "/experiments/1", None), ("GET", f"{API}/experiments/1/verdict", None)]
            answers, _ = asyncio.run(ask_together(process.address, pages * 30))
            for answer in answers:
                check_unavailable(answer)
        for name in ("style.css", "live.js"):
            assert process.http.get(f"/static/{name}", timeout=ALIVE).status_code == 200
    ends = time.monotonic() + 30
    while process.http.post(path, json=body(0)).status_code == 503 and time.monotonic() < ends:
        time.sleep(0.1)
    again, _ = asyncio.run(ask_together(process.address, searches + events))
    assert {answer.status_code for answer in again} == {200}
    assert process.http.get("/readyz").status_code == 200
    assert [process.post("/experiments/1/impressions", body(unit)) for unit in range(5)] == shown
    traffic = process.get("/experiments/1/verdict")["traffic"]
    assert traffic["impressions"] == 5 + TOGETHER
    assert process.get("/experiments/1/impressions?limit=500")["impressions"][-1]["clicks"] <= 21
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines() if line.startswith("{")]
    said = [line for line in lines if line["event"] == "database unavailable"]
    assert said
    assert all(line["says"] for line in said)
    assert not [line for line in lines if "where" in line]
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_a_full_queue_refuses_at_once_and_a_late_request_is_refused_though_the_writer_hangs(sqlite_address):
    store = Store(sqlite_address)
    writer = Writer(store, most_waiting=5, seconds=0.5)
    go = asyncio.Event()

    def hang(_, items):
        ends = time.monotonic() + 20
        while not go.is_set() and time.monotonic() < ends:
            time.sleep(0.01)
        return items

    async def ask():
        waiting = [writer.submit(hang, n) for n in range(5)]
        with pytest.raises(Unavailable, match="Too many"):
            writer.submit(hang, 6)
        answers = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)
        go.set()
        ends = time.monotonic() + 10
        while True:
            try:
                return answers, await writer.submit(lambda _, items: items, "later")
            except Unavailable:
                assert time.monotonic() < ends
                await asyncio.sleep(0.02)

    answers, later = asyncio.run(ask())
    writer.close()
    store.close()
    assert later == "later"
    assert all(isinstance(answer, Unavailable) for answer in answers)


def test_a_batch_that_finds_the_database_unavailable_is_not_tried_one_by_one(sqlite_address):
    store = Store(sqlite_address)
    writer = Writer(store)
    calls = []

    def refuse(_, items):
        calls.append(len(items))
        raise Unavailable("The database does not answer.")

    async def ask():
        return await asyncio.gather(*(writer.submit(refuse, n) for n in range(8)), return_exceptions=True)

    answers = asyncio.run(ask())
    writer.close()
    store.close()
    assert sum(calls) == len(answers) == 8
    assert all(isinstance(answer, Unavailable) for answer in answers)


@pytest.mark.acceptance
def test_after_one_wait_a_stalled_database_refuses_at_once_until_it_answers(postgres_address):
    store = Store(postgres_address, seconds=2.0)
    try:
        with stopped(postgres_address):
            with pytest.raises(Unavailable):
                store.check()
            for _ in range(200):  # each would wait for two seconds
                with pytest.raises(Unavailable):
                    store.check()
        ends = time.monotonic() + 20
        while True:
            try:
                store.check()
                break
            except Unavailable:
                assert time.monotonic() < ends
                time.sleep(0.05)
    finally:
        store.close()


@pytest.mark.acceptance
def test_a_statement_that_takes_too_long_is_ended_and_its_connection_kept(postgres_address):
    import sqlalchemy as sa

    store = Store(postgres_address, seconds=1.0)
    try:
        with pytest.raises(Unavailable) as raised, store.read() as connection:
            connection.execute(sa.text("SELECT pg_sleep(30)"))
        assert "statement timeout" in raised.value.reason
        with store.read(slow=True) as connection:  # as an export of a large database may take
            connection.execute(sa.text("SELECT pg_sleep(1.8)"))
        store.check()
    finally:
        store.close()


def test_a_reader_is_not_kept_waiting_by_the_lock_of_a_writer(sqlite_address):
    store = Store(sqlite_address, seconds=0.3)
    try:
        with locked(sqlite_address):
            with pytest.raises(Unavailable) as raised, store.write():
                pass
            assert "locked" in raised.value.reason
            store.check()
    finally:
        store.close()
