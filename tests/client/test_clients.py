"""Clients of a service: what they show and send, and that a search never fails because of them."""

import asyncio
import json
import subprocess
import sys
import threading
import time

import pytest
from client_service import DEFINITION, Api, closed_port, misbehaving, reply

from multileave.client import AsyncClient, Client, Page
from multileave.errors import DataError

RANKINGS = {"bm25": ["a", "b", "c", "d", "e"], "dense": ["e", "d", "c", "b", "a"], "ltr": ["c", "a", "e", "b", "d"]}
FIRST = ("a", "b", "c", "d")  # of the control
PATIENT = {"control": "bm25", "k": 4, "deadline": 10.0}


def test_pages_are_drawn_and_clicks_arrive(shared):
    before = Api(shared).traffic()
    with Client(shared, 1, **PATIENT) as client:
        pages = [client.interleave(RANKINGS, f"asking {user}", "shoes") for user in range(20)]
        for page in pages:
            assert len(page.shown) == 4
            assert page.impression
            assert not page.fallback
            client.click(page.impression, page.shown[1])
            client.click(page.impression, position=0, dwell=31.5)
        assert client.flush()
        assert (client.stats.sent, client.stats.accepted, client.stats.fallbacks) == (40, 40, 0)
    assert len({page.shown for page in pages}) > 1
    after = Api(shared).traffic()
    assert after["impressions"] - before["impressions"] == 20
    assert after["events"]["click"] - before["events"]["click"] == 40


def test_the_same_search_is_the_same_page_and_a_salt_another_draw(shared):
    with Client(shared, 1, **PATIENT) as client:
        page = client.interleave(RANKINGS, "again", "shoes", pinned={0: "ad"})
        assert page == client.interleave(RANKINGS, "again", "shoes", pinned={0: "ad"})
        assert page.shown[0] == "ad"
        salted = {client.interleave(RANKINGS, "again", "shoes", salt=str(n)).shown for n in range(10)}
        assert len(salted) > 1


def test_a_unit_in_an_arm_gets_its_rankers_own_page_like_any_other(shared):
    made = Api(shared)("/experiments", {**DEFINITION, "arms": {"ltr": 0.999}})["number"]
    Api(shared)(f"/experiments/{made}/start")
    with Client(shared, made, **PATIENT) as client:
        page = client.interleave(RANKINGS, "u", "shoes")
        assert (page.shown, page.fallback) == (("c", "a", "e", "b"), False)
        client.click(page.impression, "a", value=19.5)
        assert client.interleave({**RANKINGS, "ltr": None}, "u", "shoes").shown == FIRST
        assert client.interleave({}, "u", "nothing").shown == ()
        assert client.interleave(RANKINGS, "v", "shoes").impression
        assert client.flush()
        assert (client.stats.accepted, client.stats.fallbacks) == (1, 0)
    [arm] = Api(shared).get(f"/experiments/{made}/arms")["verdict"]["sizes"]
    assert arm == {"arm": "ltr", "impressions": 4, "units": 2, "active_units": 1, "missing": 2}


def test_the_async_client_does_as_the_other(shared):
    async def search():
        async with AsyncClient(shared, 1, **PATIENT) as client:
            asked = [client.interleave(RANKINGS, f"async {user}", "hats") for user in range(20)]
            pages = await asyncio.gather(*asked)
            for page in pages:
                await client.click(page.impression, page.shown[0])
            assert await client.flush()
            return pages, client.stats

    pages, stats = asyncio.run(search())
    assert (stats.sent, stats.accepted, stats.fallbacks) == (20, 20, 0)
    with Client(shared, 1, **PATIENT) as client:
        assert client.interleave(RANKINGS, "async 3", "hats") == pages[3]


def test_threads_share_a_client(shared):
    with Client(shared, 1, **PATIENT) as client:

        def search(thread):
            for n in range(10):
                page = client.interleave(RANKINGS, f"thread {thread}", f"query {n}")
                client.click(page.impression, page.shown[0])

        threads = [threading.Thread(target=search, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.flush()
        assert client.stats.accepted == client.stats.sent == 60
        assert client.stats.fallbacks == 0


def test_what_the_service_refuses_falls_back_and_says_why(shared):
    with Client(shared, 1, **PATIENT) as client:
        page = client.interleave({"bm25": ["a", "b"], "dnse": ["b", "a"]}, "u")
        assert page.shown == ("a", "b")
        assert "Did you mean 'dense'?" in page.reason
        client.click(page.impression, "a")
        assert client.stats.ignored == 1
    with Client(shared, 99, **PATIENT) as client:
        assert "no experiment 99" in client.interleave(RANKINGS, "u").reason
        client.click("made up", "a")
        assert client.flush()
        assert (client.stats.sent, client.stats.rejected) == (1, 1)


SHAPES = [b"<html>hello</html>", b"[]", b"{}", b'{"shown": "abc", "impression": null}', b'{"shown": [[]]}', b"",
          b'{"shown": [1], "impression": 7}', b'{"shown": null, "impression": null}', b"\xff\xfe"]  # fmt: skip


def test_bad_answers_fall_back():
    def answer(handler, number):
        reply(handler, 200, SHAPES[number - 1])

    with misbehaving(answer) as (address, bodies), Client(address, 1, **PATIENT) as client:
        for _ in SHAPES:
            page = client.interleave(RANKINGS, "u")
            assert page == Page(FIRST, None, fallback=True, reason=page.reason)
            assert "not a page" in page.reason
        assert client.stats.fallbacks == len(bodies) == len(SHAPES)


@pytest.mark.parametrize("status", [301, 401, 404, 429, 500, 503])
def test_other_statuses_fall_back(status):
    refusing = misbehaving(lambda handler, _: reply(handler, status, b"no"))
    with refusing as (address, _), Client(address, 1, **PATIENT) as client:
        assert client.interleave(RANKINGS, "u").shown == FIRST
        assert str(status) in client.interleave(RANKINGS, "u").reason


def test_a_connection_that_is_cut_is_asked_again_once():
    def answer(handler, number):
        if number == 1:
            handler.close_connection = True
            handler.connection.close()
        else:
            reply(handler, 200, b'{"shown": ["z"], "impression": "i"}')

    with misbehaving(answer) as (address, bodies), Client(address, 1, **PATIENT) as client:
        assert client.interleave(RANKINGS, "u") == Page(("z",), "i")
        assert len(bodies) == 2


def test_no_service_falls_back_at_once_and_keeps_the_pins():
    with Client(f"http://127.0.0.1:{closed_port()}", 1, **PATIENT) as client:
        began = time.monotonic()
        page = client.interleave(RANKINGS, "u", pinned={1: "ad", 4: "b"})
        assert time.monotonic() - began < 2.0
        assert page.shown == ("a", "ad", "c", "d")
        assert client.interleave(RANKINGS, "u", pinned={1: "ad", 4: "b"}, page=2).shown == ("b", "e")
        assert client.interleave({"bm25": None, "dense": ["x", "y"]}, "u").shown == ("x", "y")
        assert client.interleave({"bm25": None}, "u").shown == ()
        assert client.interleave({}, "u").fallback


def slow(handler, _):
    time.sleep(1.0)
    reply(handler, 200, b'{"shown": [], "impression": null}')


def test_a_service_that_hangs_costs_the_deadline_and_is_then_left_alone():
    with misbehaving(slow) as (address, bodies), Client(address, 1, control="bm25", k=4, deadline=0.1) as client:
        began = time.monotonic()
        pages = [client.interleave(RANKINGS, f"u{n}") for n in range(200)]
        assert time.monotonic() - began < 5.0  # not 20 seconds
        assert {page.shown for page in pages} == {FIRST}
        assert "100 ms" in pages[0].reason
        assert "asked again in a second" in pages[-1].reason
        assert len(bodies) < 20


def test_an_async_search_keeps_the_deadline_too():
    async def search(address):
        async with AsyncClient(address, 1, control="bm25", k=4, deadline=0.1) as client:
            began = time.monotonic()
            pages = await asyncio.gather(*(client.interleave(RANKINGS, f"u{n}") for n in range(20)))
            return pages, time.monotonic() - began

    with misbehaving(slow) as (address, _):
        pages, seconds = asyncio.run(search(address))
    assert {page.shown for page in pages} == {FIRST}
    assert seconds < 0.9


def test_what_a_programmer_gets_wrong_raises(shared):
    for settings in ({"control": ""}, {"control": "bm25", "k": 0}, {"control": "bm25", "deadline": 0}):
        with pytest.raises(DataError, match="expected"):
            Client(shared, 1, **settings)
    for address, experiment in (("127.0.0.1:8421", 1), (shared, "1"), (shared, 0)):
        with pytest.raises(DataError, match="expected"):
            Client(address, experiment, control="bm25")
    with pytest.raises(TypeError):
        Client(shared, 1, control="bm25", tempo=3)
    with Client(shared, 1, **PATIENT) as client:
        for arguments in (
            {"rankings": [["a"], ["b"]]},
            {"rankings": {"bm25": [1.5]}},
            {"rankings": {"bm25": [True]}},
            {"rankings": {"bm25": 3}},
            {"rankings": {3: ["a"]}},
            {"unit": 17},
            {"unit": ""},
            {"query": None},
            {"page": 0},
            {"page": "2"},
            {"pinned": ["ad"]},
            {"pinned": {-1: "ad"}},
        ):
            with pytest.raises(DataError, match="expected"):
                client.interleave(**{"rankings": RANKINGS, "unit": "u", **arguments})
        with pytest.raises(TypeError):
            client.interleave(RANKINGS, "u", color="red")
        for arguments in (
            {},
            {"document": 1.5},
            {"position": -1},
            {"position": True},
            {"document": "a", "dwell": -1.0},
            {"document": "a", "dwell": float("nan")},
            {"document": "a", "action": ""},
        ):
            for impression in ("i", None):
                with pytest.raises(DataError, match=r"expected|Pass one"):
                    client.click(impression, **arguments)
        with pytest.raises(DataError, match="impression is 17"):
            client.click(17, "a")


def test_integers_of_numpy_are_documents(shared):
    import numpy as np

    rankings = {"bm25": np.arange(5), "dense": np.arange(5)[::-1], "ltr": [np.int64(3), np.str_("x")]}
    with Client(shared, 1, **PATIENT) as client:
        page = client.interleave(rankings, "numpy", "q")
        assert not page.fallback
        assert all(type(document) in (int, str) for document in page.shown)


def test_where_httpx_is_absent_the_install_line_is_told():
    code = (
        "import sys; sys.modules['httpx'] = None; import multileave.client as c; c.Client('http://h', 1, control='a')"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "pip install 'multileave[client]'" in found.stderr.splitlines()[-1]


def test_the_key_is_sent_and_the_body_is_what_was_asked():
    empty = misbehaving(lambda handler, _: reply(handler, 200, b'{"shown": [], "impression": null}'))
    with empty as (address, bodies), Client(address, 7, key="mlv_secret", **PATIENT) as client:
        client.interleave({"bm25": ["a"], "dense": None}, "u", "q", page=2, pinned={3: 5}, salt="s")
    ((headers, body),) = bodies
    assert headers["Authorization"] == "Bearer mlv_secret"
    asked = {"rankings": {"bm25": ["a"], "dense": None}, "unit": "u", "query": "q", "page": 2, "pinned": {"3": 5}}
    assert json.loads(body) == {**asked, "salt": "s"}
