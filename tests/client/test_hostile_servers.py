"""Whatever a server sends, or does not send, searches get the control's list and closing takes no longer than asked."""

import asyncio
import json
import subprocess
import sys
import time

import pytest
from client_service import misbehaving, reply

from multileave.client import AsyncClient, Client, LocalClient

RANKINGS = {"bm25": ["a", "b", "c"], "dense": ["c", "b", "a"]}
FIRST = ("a", "b")  # of the control
SETTINGS = {"control": "bm25", "k": 2}
DEEP = 100_000

BODIES = {
    "deep list": b"[" * DEEP,
    "deep object": b'{"a":' * DEEP,
    "deep page": b'{"impression": null, "shown": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "not UTF-8": b'{"shown": ["\xff\xfe"], "impression": null}',
    "UTF-16": '{"shown": [[]], "impression": null}'.encode("utf-16"),
    "NaN": b'{"shown": [NaN], "impression": null}',
    "infinity": b'{"shown": [1e999], "impression": null}',
    "long integer": b'{"shown": [' + b"9" * 10_000 + b'], "impression": null}',
    "wrong types": b'{"shown": {"a": 1}, "impression": ["i"]}',
    "booleans": b'{"shown": [true], "impression": null}',
    "a number": b"7",
    "truncated": b'{"shown": ["a", "b"], "impressi',
    "empty": b"",
}


def send_head(handler, *more):
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    for name, value in more:
        handler.send_header(name, value)
    handler.end_headers()


def cut(handler, _):
    """Promise more than is sent."""
    send_head(handler, ("Content-Length", "1000"))
    handler.wfile.write(b'{"shown": ["a"]')
    handler.close_connection = True


def packed(handler, _):
    """Label as compressed what is not."""
    send_head(handler, ("Content-Encoding", "gzip"), ("Content-Length", "4"))
    handler.wfile.write(b"what")


def redirect(handler, _):
    """Redirect to the same address, for ever."""
    handler.send_response(307)
    handler.send_header("Location", handler.path)
    handler.send_header("Content-Length", "0")
    handler.end_headers()


def garble(handler, _):
    handler.wfile.write(b"HTTP/9.9 what\r\n\x00\xff\r\n\r\n")
    handler.close_connection = True


def endless(handler, _):
    """Send a body without end, as fast as it is read."""
    send_head(handler, ("Transfer-Encoding", "chunked"))
    block = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    while True:
        handler.wfile.write(block)
        endless.sent += len(block)


def trickle(part):
    """Send a byte every 50 ms, of the head or of the body, for a minute."""

    def answer(handler, _):
        if part == "body":
            send_head(handler, ("Content-Length", "1000000"))
        else:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
        for _ in range(1200):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.05)

    return answer


def search(kind, address, deadline=10.0):
    """Return the page that a client of this kind shows."""
    if kind == "sync":
        with Client(address, 1, deadline=deadline, **SETTINGS) as client:
            return client.interleave(RANKINGS, "u")

    async def search_async():
        async with AsyncClient(address, 1, deadline=deadline, **SETTINGS) as client:
            return await client.interleave(RANKINGS, "u")

    return asyncio.run(search_async())


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("status", [200, 500])
def test_any_body_falls_back(kind, body, status):
    with misbehaving(lambda handler, _: reply(handler, status, BODIES[body])) as (address, _):
        page = search(kind, address)
    assert (page.shown, page.impression, page.fallback) == (FIRST, None, True)
    assert page.reason


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("answer", [cut, packed, redirect, garble])
def test_any_response_falls_back(kind, answer):
    with misbehaving(answer) as (address, bodies):
        page = search(kind, address)
    assert (page.shown, page.fallback) == (FIRST, True)
    assert len(bodies) <= 2


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_response_without_end_is_not_read_to_the_deadline(kind):
    endless.sent = 0
    with misbehaving(endless) as (address, _):
        began = time.monotonic()
        page = search(kind, address, deadline=60.0)
        assert time.monotonic() - began < 30.0
    assert (page.shown, page.fallback) == (FIRST, True)
    assert "larger than" in page.reason
    assert endless.sent < 1 << 27


EVENT_ANSWERS = [
    b'{"accepted": Infinity}', b'{"accepted": NaN}', b'{"accepted": "1"}', b'{"accepted": true}', b'{"accepted": -1}',
    b'{"accepted": 9}', b"[1]", b"[" * DEEP, b"\xff", b"", b'{"accepted": 0, "receipts": "no"}',
    b'{"accepted": 0, "receipts": [3]}', b'{"accepted": 0, "receipts": 5}',
]  # fmt: skip


@pytest.mark.parametrize("answer", EVENT_ANSWERS)
def test_events_outlive_any_answer(answer):
    """The first answer is wrong; the event is then sent again, or counted as rejected."""

    def respond(handler, number):
        reply(handler, 200, answer if number == 1 else b'{"accepted": 1}')

    with misbehaving(respond) as (address, bodies), Client(address, 1, flush_seconds=0.05, **SETTINGS) as client:
        client.click("i", "a")
        assert client.flush(10.0)
        assert client.stats.sent == 1
        client.click("i", "b")
        assert client.flush(10.0)
        assert client.stats.sent == 2
        assert len(bodies) in (2, 3)


def spilled(folder):
    """Return the documents of all events in a spill folder."""
    lines = [line for path in folder.glob("events-*.jsonl") for line in path.read_bytes().splitlines()]
    return {json.loads(line)["document"] for line in lines}


@pytest.mark.acceptance
@pytest.mark.parametrize("part", ["head", "body"])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_closing_keeps_its_deadline_and_the_events(tmp_path, kind, part):
    clicked = {f"d{n}" for n in range(30)}
    settings = {**SETTINGS, "spill": tmp_path, "batch": 10, "flush_seconds": 0.05, "deadline": 0.2}
    with misbehaving(trickle(part)) as (address, _):
        if kind == "sync":
            client = Client(address, 1, **settings)
            assert client.interleave(RANKINGS, "u").shown == FIRST
            for document in clicked:
                client.click("i", document)
            began = time.monotonic()
            client.close(1.0)
            taken = time.monotonic() - began
        else:

            async def run():
                client = AsyncClient(address, 1, **settings)
                assert (await client.interleave(RANKINGS, "u")).shown == FIRST
                for document in clicked:
                    await client.click("i", document)
                began = time.monotonic()
                await client.close(1.0)
                return time.monotonic() - began, client

            taken, client = asyncio.run(run())
    assert taken < 4.0  # a busy machine included; it was 12
    assert spilled(tmp_path) == clicked
    assert (client.stats.spilled, client.stats.dropped, client.stats.sent) == (30, 0, 0)


@pytest.mark.acceptance
def test_closing_keeps_what_an_earlier_process_spilled(tmp_path):
    line = b'{"id": "x", "impression": "i", "document": "old", "action": "click"}\n'
    (tmp_path / "events-0.jsonl").write_bytes(line)
    with misbehaving(trickle("body")) as (address, bodies):
        client = Client(address, 1, spill=tmp_path, flush_seconds=0.05, **SETTINGS)
        client.flush(0.5)
        client.close(0.5)
        assert bodies
    assert (tmp_path / "events-0.jsonl").read_bytes() == line


def test_without_a_spill_folder_what_closing_cannot_send_is_counted_as_dropped():
    with misbehaving(trickle("head")) as (address, _):
        client = Client(address, 1, flush_seconds=0.05, **SETTINGS)
        for n in range(5):
            client.click("i", position=n)
        client.close(0.5)
        assert (client.stats.dropped, client.stats.sent) == (5, 0)


@pytest.mark.acceptance
def test_a_closed_client_falls_back_and_keeps_events(tmp_path):
    def fine(handler, _):
        reply(handler, 200, b'{"shown": ["z"], "impression": "i"}')

    with misbehaving(fine) as (address, _):
        client = Client(address, 1, spill=tmp_path, deadline=10.0, **SETTINGS)
        assert client.interleave(RANKINGS, "u").shown == ("z",)
        client.close()
        client.close()
        page = client.interleave(RANKINGS, "u")
        assert (page.shown, page.fallback) == (FIRST, True)
        assert "closed" in page.reason
        client.click("i", "late")
        assert spilled(tmp_path) == {"late"}


def test_a_search_under_way_falls_back_when_the_client_is_closed():
    async def run(address):
        client = AsyncClient(address, 1, deadline=30.0, **SETTINGS)
        searching = asyncio.create_task(client.interleave(RANKINGS, "u"))
        await asyncio.sleep(0.5)
        await client.close(0.5)
        return await asyncio.wait_for(searching, 5.0)

    with misbehaving(trickle("body")) as (address, _):
        page = asyncio.run(run(address))
    assert (page.shown, page.fallback) == (FIRST, True)


@pytest.mark.acceptance
def test_a_process_ends_while_a_server_trickles(tmp_path):
    code = (
        "import sys; from multileave.client import Client; "
        "client = Client(sys.argv[1], 1, control='bm25', k=2, spill=sys.argv[2], deadline=0.2); "
        "client.interleave({'bm25': ['a']}, 'u'); client.click('i', 'a')"
    )
    with misbehaving(trickle("head")) as (address, _):
        subprocess.run([sys.executable, "-c", code, address, tmp_path], check=True, timeout=40)
    assert spilled(tmp_path) == {"a"}


def test_the_local_client_falls_back_for_what_it_cannot_log(tmp_path):
    huge = 10**5000  # more digits than Python writes
    with LocalClient("ppm", folder=tmp_path, **SETTINGS) as client:
        page = client.interleave({"bm25": [huge, "b"], "dense": ["b", huge]}, "u")
    assert (page.shown, page.fallback) == ((huge, "b"), True)
