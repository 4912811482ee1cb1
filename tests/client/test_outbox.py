"""Events on their way: batches, tries, the spill folder, and what is counted as lost."""

import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from client_service import Api, closed_port, misbehaving, reply, service

from multileave.client import Client
from multileave.client.spill import Spill

FLEET = {"control": "bm25", "k": 4, "flush_seconds": 0.05}
PATIENT = {**FLEET, "flush_seconds": 600.0}  # no batch goes that is not full, unless it is hurried


def unpack(bodies):
    """Return the events of all requests."""
    found = []
    for headers, body in bodies:
        if headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        found.extend(json.loads(line) for line in body.splitlines())
    return found


@contextlib.contextmanager
def accepting(failing=()):
    """Run a server that accepts all events, but answers those requests whose number is in `failing` with 503."""

    def answer(handler, number):
        if number in failing:
            reply(handler, 503, b"away")
        else:
            reply(handler, 200, json.dumps({"accepted": len(unpack(bodies[number - 1 : number]))}).encode())

    with misbehaving(answer) as (address, bodies):
        yield address, bodies


def wait_for(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def test_events_go_in_packed_batches_in_their_order():
    with accepting() as (address, bodies), Client(address, 1, batch=20, **PATIENT) as client:
        for n in range(100):
            client.click("i", f"d{n}")
        assert client.flush()
        assert client.stats.sent == client.stats.accepted == 100
    events = unpack(bodies)
    assert [event["document"] for event in events] == [f"d{n}" for n in range(100)]
    assert len({event["id"] for event in events}) == 100
    assert len(bodies) == 5
    assert bodies[0][0]["Content-Encoding"] == "gzip"


def test_a_few_events_are_sent_after_the_flush_time():
    with accepting() as (address, _), Client(address, 1, **FLEET) as client:
        client.click("i", "d", dwell=3)
        wait_for(lambda: client.stats.accepted == 1)


def test_a_batch_that_failed_is_sent_again_with_the_same_ids():
    with accepting(failing=(1, 2)) as (address, bodies), Client(address, 1, **PATIENT) as client:
        for n in range(3):
            client.click("i", position=n)
        assert client.flush()
        assert (client.stats.sent, client.stats.accepted, client.stats.dropped) == (3, 3, 0)
    assert len(bodies) == 3
    assert unpack(bodies[:1]) == unpack(bodies[1:2]) == unpack(bodies[2:])


def test_a_batch_that_is_too_large_is_halved_and_an_event_that_is_too_large_rejected():
    def answer(handler, _):
        events = unpack(bodies[-1:])
        if len(events) > 2 or any("too large" in event["impression"] for event in events):
            reply(handler, 413, b"no")
        else:
            reply(handler, 200, json.dumps({"accepted": len(events)}).encode())

    with misbehaving(answer) as (address, bodies), Client(address, 1, **FLEET) as client:
        for n in range(8):
            client.click("too large" if n == 5 else "i", position=n)
        assert client.flush()
        assert (client.stats.sent, client.stats.accepted, client.stats.rejected) == (8, 7, 1)


def test_what_is_refused_for_good_is_not_sent_again():
    refusing = misbehaving(lambda handler, _: reply(handler, 422, b"no"))
    with refusing as (address, bodies), Client(address, 1, **FLEET) as client:
        client.click("i", "d")
        assert client.flush()
        assert (client.stats.sent, client.stats.rejected) == (1, 1)
        assert len(bodies) == 1


def test_without_a_spill_folder_a_full_queue_drops_and_counts():
    with Client(f"http://127.0.0.1:{closed_port()}", 1, most_queued=10, batch=5, **FLEET) as client:
        for n in range(30):
            client.click("i", position=n)
        assert not client.flush(0.3)
        assert client.stats.dropped >= 10
        client.close(0.3)
        assert client.stats.dropped == 30


def test_a_queue_that_waited_is_sent_when_the_service_returns(tmp_path):
    port = closed_port()
    with Client(f"http://127.0.0.1:{port}", 1, deadline=10.0, **FLEET) as client:
        client.click("made up", "d")
        time.sleep(0.5)
        with service(tmp_path, port):
            wait_for(lambda: client.stats.rejected == 1, 30)
        assert client.stats.dropped == 0


@pytest.mark.acceptance
def test_events_that_were_spilled_are_sent_by_the_next_client(tmp_path):
    spill = tmp_path / "spill"
    with Client(f"http://127.0.0.1:{closed_port()}", 1, spill=spill, batch=50, **FLEET) as client:
        for n in range(120):
            client.click("i", position=n)
        client.close(1.0)
        assert (client.stats.spilled, client.stats.dropped, client.stats.sent) == (120, 0, 0)
    assert len(list(spill.iterdir())) == 1
    with accepting() as (address, bodies), Client(address, 1, spill=spill, batch=40, **FLEET) as client:
        wait_for(lambda: client.stats.accepted == 120)
        client.flush()
        assert not list(spill.iterdir())
    assert [event["position"] for event in unpack(bodies)] == list(range(120))


def test_events_of_an_outage_arrive_once(tmp_path):
    with service(tmp_path) as address:
        port = int(address.rpartition(":")[2])
        client = Client(address, 1, spill=tmp_path / "spill", deadline=10.0, **FLEET)
        rankings = {"bm25": list("abcd"), "dense": list("dcba"), "ltr": list("bdac")}
        pages = [client.interleave(rankings, f"u{n}", "q") for n in range(10)]
    for page in pages:
        client.click(page.impression, position=0)
    wait_for(lambda: client.stats.spilled == 10)
    with service(tmp_path, port) as address:
        assert client.flush(30.0)
        assert (client.stats.accepted, client.stats.rejected, client.stats.dropped) == (10, 0, 0)
        assert Api(address).traffic()["events"] == {"click": 10}
        assert client.interleave(rankings, "u3", "q") == pages[3]
        client.close()


CHILD = """
import sys, time
from multileave.client import Client
client = Client(sys.argv[1], 1, control="a", spill=sys.argv[2], flush_seconds=0.01)
for n in range(10**9):
    client.click("i", position=n % 1000, action=str(n))
    if n % 100 == 0:
        print(client.stats.spilled, flush=True)
        time.sleep(0.002)
"""


@pytest.mark.acceptance
def test_what_was_spilled_survives_a_kill(tmp_path):
    command = [sys.executable, "-c", CHILD, f"http://127.0.0.1:{closed_port()}", str(tmp_path)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    spilled = 0
    while spilled < 3000:
        spilled = int(child.stdout.readline())
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    rejecting = misbehaving(lambda handler, _: reply(handler, 200, b'{"accepted": 0}'))
    with rejecting as (address, bodies), Client(address, 1, spill=tmp_path, **FLEET) as client:
        assert client.flush(30.0)
    found = [int(event["action"]) for event in unpack(bodies)]
    assert len(found) >= spilled
    assert found == list(range(len(found)))


@pytest.mark.acceptance
def test_a_full_spill_folder_drops_and_counts(tmp_path):
    with Client(f"http://127.0.0.1:{closed_port()}", 1, spill=tmp_path, most_spilled=2000, **FLEET) as client:
        for n in range(100):
            client.click("i", position=n)
        client.close(1.0)
        assert client.stats.spilled + client.stats.dropped == 100
        assert client.stats.spilled in range(5, 20)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2000


def test_a_cut_line_is_left_out_and_files_that_others_write_are_left_alone(tmp_path):
    (tmp_path / "events-old.jsonl").write_bytes(b'{"id": 1}\n{"id"')
    writing = Spill(tmp_path, 10**6)
    assert writing.append([b"mine\n"]) == 1
    other = Spill(tmp_path, 10**6)
    sent = []
    assert other.send_file(lambda lines: sent.extend(lines) or True, 10) is True
    assert other.send_file(lambda lines: sent.extend(lines) or True, 10) is None
    assert sent == [b'{"id": 1}\n']
    writing.close()
    assert other.send_file(lambda lines: sent.extend(lines) or True, 10) is True
    assert sent[1:] == [b"mine\n"]
    assert not list(tmp_path.iterdir())


def test_a_file_that_could_not_be_sent_stays(tmp_path):
    spill = Spill(tmp_path, 10**6)
    spill.append([b"1\n", b"2\n", b"3\n"])
    assert spill.send_file(lambda lines: lines != [b"3\n"], 2) is False
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"1\n2\n3\n"]


@pytest.mark.parametrize("answer", [b"{}", b"[]", b'{"accepted": 5}', b'{"accepted": "x"}', b"<html>"])
def test_an_answer_that_makes_no_sense_is_no_receipt(answer, tmp_path):
    confused = misbehaving(lambda handler, _: reply(handler, 200, answer))
    with confused as (address, _), Client(address, 1, spill=tmp_path, **FLEET) as client:
        client.click("i", "d")
        assert not client.flush(2.0)
        assert (client.stats.sent, client.stats.spilled) == (0, 1)
