"""Attacks with request bodies: small to send, large to read. What they cost is measured by benchmarks/attacks.py."""

import asyncio
import gzip
import json
import subprocess
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from http_service import API, RANKINGS, check_refusal, serving
from pydantic import TypeAdapter, ValidationError

from multileave.live.definition import Definition
from multileave.live.errors import TooLarge
from multileave.live.http.error_responses import Malformed
from multileave.live.http.event_batches import EventBatch, read_batch
from multileave.live.http.request_body import SMALL, Parts
from multileave.live.records import ShowRequest

pytestmark = pytest.mark.acceptance

HERE = Path(__file__).parent
BENCHMARKS = HERE.parents[1] / "benchmarks"
EVENTS, SHOW = f"{API}/events", f"{API}/experiments/1/impressions"
JSON = {"Content-Type": "application/json"}
MEGABYTES = 50

MEASURE = """
import json, re, resource, sys
sys.path[:0] = [{here!r}, {benchmarks!r}]
import attacks
from http_service import serving

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

found = {{}}
with serving("sqlite:///{folder}/live.db", open=True, events_per_minute=0, events_per_impression=0) as served:
    served.client.post(attacks.CREATE, json=attacks.DEFINITION)
    served.client.post(attacks.CREATE + "/1/start")
    token = served.show(1).json()["impression"]
    for name, (method, path, headers, body) in {{**attacks.legitimate(token), **attacks.hostile()}}.items():
        if headers is attacks.FORM:
            page = served.client.get("/experiments/new").text
            body = b"csrf=" + re.search(r'name="csrf" value="([^"]+)"', page)[1].encode() + b"&" + body
        before = peak()
        answer = served.client.request(method, path, headers=headers, content=body)
        found[name] = answer.status_code, peak() - before, len(answer.content)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def costs(tmp_path_factory):
    """The status, the growth of the process and the length of the answer for each body, in its own process."""
    folder = tmp_path_factory.mktemp("bodies")
    code = MEASURE.format(here=str(HERE), benchmarks=str(BENCHMARKS), folder=folder)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_legitimate_bodies_are_accepted_and_hostile_ones_take_no_memory_and_get_short_answers(costs):
    legitimate = {name: found for name, found in costs.items() if name.startswith("legitimate")}
    hostile = {name: found for name, found in costs.items() if name not in legitimate}
    assert len(legitimate) >= 4
    assert len(hostile) >= 40
    assert {name: found for name, found in legitimate.items() if found[0] != 200} == {}
    bad = {
        name: found
        for name, found in hostile.items()
        # 200 with receipts that reject its events
        if found[0] not in (200, 400, 413, 422) or found[1] >= MEGABYTES or found[2] >= 300_000
    }
    assert bad == {}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(f"sqlite:///{tmp_path_factory.mktemp('attacks')}/live.db", events_per_minute=0) as served:
        assert served.running() == 1
        yield served


MANY = {
    "objects": b"[" + b",".join([b"{}"] * 600_000) + b"]",
    "events": b'{"events":[' + b",".join([b"{}"] * 600_000) + b"]}",
    "lists": b"[" + b"[]," * 600_000 + b"[]]",
    "spaced": b"[ " + b"{ } , " * 300_000 + b"{}]",
    "strings": b"[" + b'"",' * 600_000 + b'""]',
    "commas": b"[" + b"," * 1_900_000,
    "quotes": b'["' + b'\\"' * 900_000 + b'",' + b"{}," * 40_000 + b"{}]",
    "backslashes": b"[" + b'"\\\\",' * 350_000 + b'""]',
    "keys": b"[{" + b",".join(b'"%x" : 1' % n for n in range(150_000)) + b"}]",
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("body", MANY.values(), ids=MANY)
def test_a_body_of_too_many_parts_is_too_large_on_every_route(served, body, packed):
    headers = {**JSON, **({"Content-Encoding": "gzip"} if packed else {})}
    content = gzip.compress(body, 1) if packed else body
    for path, role in ((EVENTS, None), (SHOW, "ingest"), (f"{API}/experiments", "admin"), (f"{API}/keys", "admin")):
        answer = served.send("POST", path, role, content=content, headers=headers)
        assert answer.status_code in (400, 413), answer.text
        check_refusal(answer, answer.status_code)


def test_large_bodies_within_the_limits_are_read_whatever_their_texts_contain(served):
    odd = ['{["a:1,b:2",]}\\"' * 30 + str(n) for n in range(300)]
    answer = served.show(1, rankings={"bm25": odd, "dense": odd[::-1]})
    assert answer.status_code == 200, answer.text
    assert set(answer.json()["shown"]) <= set(odd)
    token = answer.json()["impression"]
    batch = [{"id": f"{n}", "impression": token, "document": odd[n % 300]} for n in range(1000)]
    assert len(json.dumps(batch)) > SMALL
    said = served.send("POST", EVENTS, None, json=batch)
    assert said.status_code == 200, said.text
    assert said.json()["accepted"] == sum(odd[n % 300] in answer.json()["shown"] for n in range(1000))


def test_large_bodies_are_accepted_in_parts_and_packed(served):
    ids = [f"https://shop.example/{n:0>100}?a=1,2&b=3:4" for n in range(900)]
    body = json.dumps({"rankings": {"bm25": ids, "dense": ids[::-1]}, "unit": "u"}).encode()
    assert len(body) > SMALL
    whole = served.send("POST", SHOW, "ingest", content=body, headers=JSON).json()
    parts = (body[n : n + 1000] for n in range(0, len(body), 1000))
    assert served.send("POST", SHOW, "ingest", content=parts, headers=JSON).json() == whole
    packed = {**JSON, "Content-Encoding": "gzip"}
    assert served.send("POST", SHOW, "ingest", content=gzip.compress(body), headers=packed).json() == whole
    for size in (SMALL - 1, SMALL, SMALL + 1):
        padded = body[:-1] + b" " * (size - len(body)) + b"}" if size > len(body) else None
        small = json.dumps({"rankings": RANKINGS, "unit": f"u{size}"}).encode()
        small += b" " * (size - len(small))
        for content in filter(None, (padded, small)):
            answer = served.send("POST", SHOW, "ingest", content=gzip.compress(content), headers=packed)
            assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("size", [10, SMALL - 20, SMALL, SMALL + 1, 3 * SMALL])
def test_packed_bodies_of_any_size_must_be_complete(served, size):
    packed = {**JSON, "Content-Encoding": "gzip"}
    noise = zlib.compress(bytes(range(256)) * size, 0)[:size].hex().encode()
    body = gzip.compress(b'["' + noise + b'"]')
    assert served.send("POST", EVENTS, None, content=body, headers=packed).json()["rejected"] == 1
    for broken in (body[:-1], body[:-9], body + b"x", body + body):
        check_refusal(served.send("POST", EVENTS, None, content=broken, headers=packed), 400, "malformed")


def test_the_first_invalid_entry_of_a_list_is_enough():
    for adapter, body in (
        (TypeAdapter(ShowRequest), {"unit": "u", "rankings": {"bm25": [{}] * 1000}}),
        (TypeAdapter(Definition), {"name": "n", "rankers": [{}] * 1000}),
        (TypeAdapter(Definition), {"name": "n", "rankers": ["a", "b"], "actions": [7] * 1000}),
    ):
        with pytest.raises(ValidationError) as raised:
            adapter.validate_json(json.dumps(body))
        assert raised.value.error_count() <= 2


def test_parts_are_counted_outside_of_texts_only():
    most = Parts(nested=2, keys=2, commas=3)
    for fine in (b'["{{{{,,,,::::", "\\"[[,\\\\", 1]', b'{"a:a:a:a": "\\",,,,,\\"[[[[", "b" : 2}', b"[1, 2, 3, 4]"):
        most.check(fine)
    for large in (b"[[],[]]", b"[1,2,3,4,5]", b'{"a":1,"b":2,"c" : 3}'):
        with pytest.raises(TooLarge):
            most.check(large)
    for broken in (b"[" * 5000, b'{"a":' * 5000, b"[1,2,3,4,5,x"):
        with pytest.raises(Malformed):
            most.check(broken)


def test_lines_may_be_blank_but_not_endlessly():
    event = b'{"id": "e", "impression": "i"}'
    assert len(read_batch(b"\n\n".join([event] * 100) + b"\n", lines=True, most=100)) == 100
    for body in (b"\n" * 1000, b"7\n" * 101, b"\r\n" * 1000):
        with pytest.raises(TooLarge):
            read_batch(body, lines=True, most=100)


def test_searches_go_on_while_large_bodies_are_read(served):
    """Reading a large body happens in a thread: the loop turns meanwhile."""
    turned, done = [], []

    async def request():
        async def stream():
            yield b"[" + b",".join([b'"' + b"x" * 200 + b'"'] * 900) + b"]"

        async def turn():
            while not done:
                turned.append(1)
                await asyncio.sleep(0)

        turning = asyncio.create_task(turn())
        sent = SimpleNamespace(app=served.app, headers={"content-type": "application/json"}, client=None, stream=stream)
        batch = await EventBatch()(sent)
        done.append(1)
        await turning
        return batch

    assert len(asyncio.run(request())) == 900
    assert turned
