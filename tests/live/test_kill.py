"""What was acknowledged survives `kill -9` at any moment, and is counted once; two processes agree with one."""

import math
import random
import threading
import time

import httpx
import pytest
import sqlalchemy as sa
from served_process import API, SECRET, Process, free_port

from multileave.live.access.tokens import Signer
from multileave.live.store.database import Store
from multileave.live.store.tables import events, impressions
from multileave.replay import replay

pytestmark = pytest.mark.acceptance

RANKERS = ("bm25", "dense", "ltr")
DEFINITION = {"name": "kill", "rankers": list(RANKERS), "control": "bm25", "k": 4}
SEARCHERS = 5


def rankings(rng, documents=10):
    return {name: rng.sample([f"d{n}" for n in range(documents)], documents) for name in RANKERS}


class Searchers:
    """Threads that search and click, and remember what the service acknowledged."""

    def __init__(self, address, patience=20.0):
        self.address, self.patience = address, patience
        self.impressions: list[str] = []
        self.events: list[dict] = []
        self.unsure: list[dict] = []  # sent, without an answer
        self.refused: list[int] = []  # status codes of answers other than 200
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._search, args=(n,)) for n in range(SEARCHERS)]
        for thread in self._threads:
            thread.start()

    def _search(self, number):
        rng = random.Random(f"{number} {time.monotonic_ns()}")
        with httpx.Client(base_url=self.address + API, timeout=self.patience) as http:
            while not self._over.is_set():
                sent = []
                try:
                    body = {
                        "rankings": rankings(rng),
                        "unit": f"u{rng.getrandbits(16)}",
                        "salt": f"{rng.getrandbits(60)}",
                    }
                    shown = http.post("/experiments/1/impressions", json=body)
                    if shown.status_code != 200:
                        self.refused.append(shown.status_code)
                        time.sleep(0.02)
                        continue
                    impression = shown.json()["impression"]
                    if impression is None:  # the control's list while a new process loads the method
                        continue
                    self.impressions.append(impression)
                    places = rng.sample(range(4), rng.randrange(3))
                    sent = [{"id": f"{rng.getrandbits(60)}", "impression": impression, "position": n} for n in places]
                    if sent:
                        answer = http.post("/events", json=sent)
                        if answer.status_code != 200:
                            self.refused.append(answer.status_code)
                            self.unsure.extend(sent)
                            continue
                        assert answer.json()["accepted"] == len(sent)
                        self.events.extend(sent)
                except httpx.HTTPError:
                    self.unsure.extend(sent)
                    time.sleep(0.02)

    def stop(self):
        self._over.set()
        for thread in self._threads:
            thread.join()


def survive(database, folder, moments, seed, workers=1):
    """Kill and restart a service under load; then compare what is there with what was acknowledged."""
    rng = random.Random(seed)
    port = free_port()
    process = Process(database, folder / "log", port, workers)
    process.post("/experiments", DEFINITION)
    process.post("/experiments/1/start")
    searchers = Searchers(process.address)
    try:
        for _ in range(moments):
            seen = len(searchers.impressions)
            while len(searchers.impressions) < seen + 5:
                time.sleep(0.01)
            time.sleep(rng.uniform(0.0, 0.8))
            process.kill()
            process = Process(database, folder / "log", port, workers)
        time.sleep(0.3)
    finally:
        searchers.stop()
        process.kill()
    check(database, folder, searchers)


def key_of(signer, event):
    """Return what an event is stored under."""
    return signer.read_impression(event["impression"]).key, event["position"], "click"


def check(database, folder, searchers):
    signer = Signer([SECRET], {})
    shown = [signer.read_impression(text).key for text in searchers.impressions]
    assert len(set(shown)) == len(shown) > 10
    told = {key_of(signer, event) for event in searchers.events}
    assert len(told) == len(searchers.events) > 5
    store = Store(database)
    with store.read() as connection:
        kept = [bytes(key) for key in connection.execute(sa.select(impressions.c.id)).scalars()]
        heard = [(bytes(row.impression), row.position, row.action) for row in connection.execute(sa.select(events))]
    store.close()
    assert set(shown) <= set(kept)
    assert len(set(kept)) == len(kept)
    assert told <= set(heard)
    assert len(set(heard)) == len(heard)
    process = Process(database, folder / "log")
    try:
        before = process.get("/experiments/1/verdict")
        assert before["traffic"]["impressions"] == len(kept)
        again = searchers.events[-500:]
        answer = process.post("/events", again)
        assert (answer["accepted"], answer["duplicates"]) == (len(again), len(again))
        unsure = searchers.unsure[:500]
        if unsure:
            assert process.post("/events", unsure)["accepted"] == len(unsure)
            assert process.post("/events", unsure)["duplicates"] == len(unsure)
            known = set(heard) | {key_of(signer, event) for event in unsure}
            assert process.get("/experiments/1/verdict")["traffic"]["events"]["click"] == len(known)
        else:
            assert process.get("/experiments/1/verdict") == before
        exported = folder / "export.parquet"
        exported.write_bytes(process.http.get(f"{API}/experiments/1/export").content)
        verdict = process.get("/experiments/1/verdict")["verdict"]
    finally:
        process.stop()
    agree(verdict, replay([exported]).tally())


def agree(verdict, tally):
    """Check that the service says what replay of its export says."""
    found = tally.verdict()
    assert verdict["impressions"] == found.impressions
    assert verdict["units"] == found.units
    for pair in verdict["pairs"]:
        assert math.isclose(pair["preference"], found.pair(*pair["rankers"]).preference, abs_tol=1e-9)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_two_kills_under_load_lose_and_double_nothing(kind, request, tmp_path):
    survive(request.getfixturevalue(f"{kind}_address"), tmp_path, moments=2, seed=7)


def traffic(processes, searches=150):
    """Send one traffic to processes in turn, events to another than drew the list; return their verdicts."""
    processes[0].post("/experiments", DEFINITION)
    processes[0].post("/experiments/1/start")
    rng = random.Random(3)
    for n in range(searches):
        body = {"rankings": rankings(rng), "unit": f"u{n % 40}", "query": f"q{n}"}
        shown = processes[n % len(processes)].post("/experiments/1/impressions", body)
        places = rng.sample(range(4), rng.randrange(3))
        sent = [{"id": f"e{n}-{place}", "impression": shown["impression"], "position": place} for place in places]
        if sent:
            processes[(n + 1) % len(processes)].post("/events", sent)
    return [process.get("/experiments/1/verdict") for process in processes]


def test_two_processes_give_the_verdict_of_one(postgres_address, sqlite_address, tmp_path):
    one = Process(sqlite_address, tmp_path / "log")
    try:
        (alone,) = traffic([one])
    finally:
        one.stop()
    two = [Process(postgres_address, tmp_path / "log") for _ in range(2)]
    try:
        both = traffic(two)
    finally:
        for process in two:
            process.stop()
    for found in both:
        assert found["traffic"] == alone["traffic"]
        assert found["verdict"]["winner"] == alone["verdict"]["winner"]
        for mine, other in zip(found["verdict"]["pairs"], alone["verdict"]["pairs"], strict=True):
            for figure in ("preference", "low", "high"):
                assert math.isclose(mine[figure], other[figure], rel_tol=1e-9, abs_tol=1e-9)
