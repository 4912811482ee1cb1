"""Attacks on keys and sessions: other people's, expired, revoked, limited, or none at all but very many."""

import asyncio
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import httpx
import pytest
import sqlalchemy as sa
from http_service import API, RANKINGS, check_refusal, serving
from starlette.testclient import TestClient

from multileave.live.access import keys as access_module
from multileave.live.errors import Invalid
from multileave.live.http import auth
from multileave.live.http.app import create_app
from multileave.live.settings import Settings
from multileave.live.store import keys as stored_keys
from multileave.live.store import sessions as stored_sessions
from multileave.live.store import times
from multileave.live.store.tables import sessions

SESSION = "multileave_session"


@pytest.fixture
def served(sqlite_address):
    with serving(sqlite_address) as found:
        yield found


def access_of(served):
    return served.app.state.service.access


def bearer(text):
    return {"Authorization": f"Bearer {text}"}


def page_status(served, path, cookie):
    """The status that a browser with a session's cookie gets."""
    client = TestClient(served.app, base_url="http://127.0.0.1:8421", follow_redirects=False)
    client.cookies.set(SESSION, cookie)
    return client.get(path).status_code


@contextmanager
def clock_ahead(monkeypatch, **ahead):
    """Let the service believe that time has passed."""
    real = times.now
    with monkeypatch.context() as patch:
        for module in (times, access_module, stored_keys, stored_sessions):
            patch.setattr(module, "now", lambda: real() + timedelta(**ahead) // timedelta(microseconds=1))
        yield


# Sessions


def test_two_workers_agree_about_sessions_at_once(address):
    with serving(address, secret="a secret of both workers") as one, serving(
        address, secret="a secret of both workers"
    ) as other:  # fmt: skip
        key = access_of(one).authenticate(one.keys["read"])
        first, second = access_of(one).open_session(key), access_of(one).open_session(key)
        assert len({first, second}) == 2
        assert min(len(first), len(second)) >= 43
        assert [page_status(other, "/", cookie) for cookie in (first, second)] == [200, 200]
        access_of(one).close_session(first)
        assert [page_status(other, "/", cookie) for cookie in (first, second)] == [303, 200]
        access_of(one).revoke_key(key.number)
        assert [page_status(other, "/", cookie) for cookie in (first, second)] == [303, 303]
        with other.app.state.service._store.read() as connection:
            assert connection.execute(sa.select(sa.func.count()).select_from(sessions)).scalar_one() == 0


def test_logging_out_ends_the_session_for_whoever_copied_its_cookie(served):
    access = access_of(served)
    cookie = access.open_session(access.authenticate(served.keys["admin"]))
    client = TestClient(served.app, base_url="http://127.0.0.1:8421", follow_redirects=False)
    client.cookies.set(SESSION, cookie)
    assert client.post("/logout", data={"csrf": access.csrf(cookie)}).status_code == 303
    assert page_status(served, "/", cookie) == 303


def test_sessions_end_with_their_time_and_with_their_keys_and_are_swept(served, monkeypatch):
    access, service = access_of(served), served.app.state.service
    short, _ = access.create_key("short", "read", expires=datetime.now(UTC) + timedelta(hours=1))
    long = access.authenticate(served.keys["read"])
    cookies = [access.open_session(short), access.open_session(long)]
    assert [access.session(cookie) is not None for cookie in cookies] == [True, True]
    with clock_ahead(monkeypatch, hours=2):
        assert [access.session(cookie) is not None for cookie in cookies] == [False, True]
        service.sweep()
    assert [access.session(cookie) is not None for cookie in cookies] == [False, True]
    with clock_ahead(monkeypatch, hours=13):
        assert access.session(cookies[1]) is None
        service.sweep()
    assert access.session(cookies[1]) is None


def test_a_key_has_a_bounded_number_of_sessions(served):
    access = access_of(served)
    key = access.authenticate(served.keys["read"])
    cookies = [access.open_session(key) for _ in range(stored_sessions.MOST_OF_A_KEY + 3)]
    found = [access.session(cookie) is not None for cookie in cookies]
    assert found == [False] * 3 + [True] * stored_sessions.MOST_OF_A_KEY


def test_an_ingest_key_opens_no_page_even_with_a_session(served):
    access = access_of(served)
    cookie = access.open_session(access.authenticate(served.keys["ingest"]))
    assert page_status(served, "/", cookie) == 303


@pytest.mark.parametrize("cookie", ["", "x", "1.99999999999999999.n.00", "a.b.c.d", "é", "x" * 4000, "1" * 64])
def test_a_cookie_that_was_never_given_out_opens_nothing(served, cookie):
    assert access_of(served).session(cookie) is None
    client = TestClient(served.app, base_url="http://127.0.0.1:8421", follow_redirects=False)
    answer = client.get("/", headers={"Cookie": f"{SESSION}={cookie}".encode("latin-1")})
    assert answer.status_code == 303


# Expiry and last use


def test_an_expired_key_is_refused_also_from_memory(served, monkeypatch):
    soon = datetime.now(UTC) + timedelta(hours=1)
    made = [
        served.send("POST", f"{API}/keys", json={"name": role, "role": role, "expires": soon.isoformat()}).json()
        for role in ("ingest", "read", "admin")
    ]
    assert [one["expires"] for one in made] == [soon.isoformat().replace("+00:00", "Z")] * 3
    number = served.running()
    sent = {"json": {"rankings": RANKINGS, "unit": "u"}}
    ingest = lambda: served.client.post(  # noqa: E731
        f"{API}/experiments/{number}/impressions", headers=bearer(made[0]["key"]), **sent
    )
    assert ingest().status_code == 200
    with clock_ahead(monkeypatch, hours=2):
        check_refusal(ingest(), 401)
        for one in made[1:]:
            check_refusal(served.client.get(f"{API}/experiments", headers=bearer(one["key"])), 401)
    assert served.client.get(f"{API}/experiments", headers=bearer(made[1]["key"])).status_code == 200


@pytest.mark.parametrize(
    "wrong",
    [{"expires": "2020-01-01T00:00:00Z"}, {"expires": "2099-01-01T00:00:00"}, {"expires": 5}, {"experiments": []},
     {"experiments": [0]}, {"experiments": ["3"]}, {"experiments": 3}, {"experiments": [2**31]}, {"used": None}],
)  # fmt: skip
def test_limits_that_make_no_sense_are_refused(served, wrong):
    check_refusal(served.send("POST", f"{API}/keys", json={"name": "x", "role": "read", **wrong}), 422)


def test_an_expired_key_does_not_count_as_a_key(tmp_path, monkeypatch):
    from multileave.live.service import Service

    service = Service(Settings(database=f"sqlite:///{tmp_path}/a.db"))
    service.access.create_key("x", "admin", expires=datetime.now(UTC) + timedelta(minutes=1))
    assert service.access.has_keys()
    with clock_ahead(monkeypatch, hours=1):
        assert not service.access.has_keys()
    with pytest.raises(Invalid, match="has passed"):
        service.access.create_key("x", "admin", expires=datetime(2020, 1, 1, tzinfo=UTC))
    service.close()


def test_the_last_use_of_a_key_is_listed_and_stored_apart_from_requests(served, monkeypatch):
    listed = {key["name"]: key["used"] for key in served.send("GET", f"{API}/keys").json()["keys"]}
    assert listed["of admin"] is not None
    assert listed["of read"] is listed["of ingest"] is None
    writes = []
    monkeypatch.setattr(stored_keys, "save_use", lambda connection, used: writes.append(used))
    for _ in range(20):
        assert served.send("GET", f"{API}/experiments", "read").status_code == 200
    assert writes == []
    access_of(served).save()
    assert [len(used) for used in writes] == [1]


# No database on the event loop


def test_authentication_never_asks_the_database_on_the_event_loop(served, monkeypatch):
    on_loop = []

    def watched(find):
        def found(*arguments):
            try:
                asyncio.get_running_loop()
                on_loop.append(find.__name__)
            except RuntimeError:
                pass
            return find(*arguments)

        return found

    monkeypatch.setattr(stored_keys, "find_hash", watched(stored_keys.find_hash))
    monkeypatch.setattr(stored_sessions, "find", watched(stored_sessions.find))
    number = served.running()
    cookie = access_of(served).open_session(access_of(served).authenticate(served.keys["admin"]))
    on_loop.clear()
    for role in ("ingest", "read", "admin"):
        served.send("POST", f"{API}/experiments/{number}/impressions", role, json={"rankings": RANKINGS, "unit": "u"})
        served.send("POST", f"{API}/events", role, json=[])
        served.send("GET", f"{API}/keys", role)
        served.send("GET", "/metrics", role)
    for path in ("/", "/keys", "/audit", "/experiments/99", "/static/none", "/login", "/nowhere"):
        page_status(served, path, cookie)
    assert on_loop == []


def test_an_ingest_key_is_looked_up_once_a_second_and_others_each_time(served, monkeypatch):
    found = []
    real = stored_keys.find_hash
    monkeypatch.setattr(stored_keys, "find_hash", lambda *given: found.append(given[1]) or real(*given))
    monkeypatch.setattr(access_module, "FRESH", 1000.0)
    for role, lookups in (("ingest", 1), ("read", 5), ("admin", 5)):
        found.clear()
        for _ in range(5):
            served.send("POST", f"{API}/events", role, json=[])
        assert len(found) == lookups, role
    monkeypatch.setattr(access_module, "FRESH", -1.0)
    found.clear()
    served.send("POST", f"{API}/events", "ingest", json=[])
    assert len(found) == 1


def test_a_revoked_ingest_key_is_refused_at_once_in_this_worker_and_a_second_later_in_others(address):
    with serving(address, secret="a secret of both workers") as one, serving(
        address, secret="a secret of both workers"
    ) as other:  # fmt: skip
        send = [
            lambda s=s: s.client.post(f"{API}/events", json=[], headers=bearer(one.keys["ingest"]))
            for s in (one, other)
        ]
        assert [call().status_code for call in send] == [200, 200]
        access_of(one).revoke_key(access_of(one).authenticate(one.keys["ingest"]).number)
        assert send[0]().status_code == 401
        ends = time.monotonic() + 10
        while send[1]().status_code == 200 and time.monotonic() < ends:
            time.sleep(0.05)
        assert send[1]().status_code == 401


def test_unknown_keys_fill_neither_memory_nor_threads_nor_the_queue(served, monkeypatch):
    free, running, most = threading.Event(), [], [0]
    real = stored_keys.find_hash

    def slow(*given):
        running.append(1)
        most[0] = max(most[0], len(running))
        free.wait(60)
        running.pop()
        return real(*given)

    access = access_of(served)
    headers = bearer(served.keys["ingest"])

    async def attack():
        transport = httpx.ASGITransport(app=served.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8421", timeout=60) as client:
            monkeypatch.setattr(access_module, "FRESH", 1000.0)
            assert (await client.post(f"{API}/events", json=[], headers=headers)).status_code == 200
            monkeypatch.setattr(stored_keys, "find_hash", slow)
            wanted = auth.MOST_LOOKUPS + 50
            sent = [
                asyncio.create_task(client.get(f"{API}/experiments", headers=bearer(f"mlv_{n:043d}")))
                for n in range(wanted)
            ]
            ends = time.monotonic() + 30
            while sum(task.done() for task in sent) < 50 and time.monotonic() < ends:
                await asyncio.sleep(0.05)
            busy = [task.result() for task in sent if task.done()]
            assert len(busy) == 50
            for answer in busy:
                check_refusal(answer, 503, "unavailable")
            assert (await client.get("/healthz")).status_code == 200
            assert (await client.post(f"{API}/events", json=[], headers=headers)).status_code == 200
            free.set()
            rest = [answer.status_code for answer in await asyncio.gather(*sent)]
            assert sorted(rest) == [401] * (wanted - 50) + [503] * 50

    try:
        asyncio.run(attack())
    finally:
        free.set()
    assert most[0] <= auth.LOOKUP_THREADS
    assert len(access._recent) == 1


def test_what_cannot_be_a_key_is_not_looked_up(served, monkeypatch):
    monkeypatch.setattr(stored_keys, "find_hash", lambda *_: pytest.fail("looked up"))
    for text in ("", "wrong", "x" * 50_000, "mlv_" + "x" * 50_000):
        assert access_of(served).authenticate(text) is None


# Metrics


def test_metrics_require_a_key_from_this_machine_too_since_a_proxy_may_run_there(tmp_path):
    app = create_app(Settings(database=f"sqlite:///{tmp_path}/live.db"))
    for forwarded in ({}, {"X-Forwarded-For": "127.0.0.1"}, {"Forwarded": "for=127.0.0.1"}):
        for address in ("127.0.0.1", "::1", "192.0.2.7"):
            with TestClient(app, client=(address, 5)) as client:
                check_refusal(client.get("/metrics", headers=forwarded), 401)
                assert client.get("/healthz").status_code == 200


def test_metrics_are_open_if_the_settings_say_so(tmp_path):
    app = create_app(Settings(database=f"sqlite:///{tmp_path}/live.db", open_metrics=True))
    with TestClient(app, client=("192.0.2.7", 5)) as client:
        assert client.get("/metrics").status_code == 200
        check_refusal(client.get(f"{API}/experiments"), 401)
    with TestClient(create_app(Settings(database=f"sqlite:///{tmp_path}/live.db", open=True))) as client:
        assert client.get("/metrics", headers={"Host": "localhost"}).status_code == 200
