"""A method that is not compiled yet: no search waits for it on the event loop, and everybody can see that it is not."""

import asyncio
import json
import os
import random
import subprocess
import sys
import time

import httpx
import pytest
from http_service import API, DEFINITION, RANKINGS, serving
from served_process import Process

from multileave.live import compilation
from multileave.live.compilation import CompiledMethods, exercise, is_cached
from multileave.live.verdicts.tally_change import trusted
from multileave.methods import get_method, infer, methods
from multileave.methods._drawing import draw_list
from multileave.stats.tally.health_counts import HealthCounts

compiled_only = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="NUMBA_DISABLE_JIT")


def signatures(method):
    """Return with how many types of arguments each kernel of a method has been compiled in this process."""
    kernels = (draw_list.bind(draw=method.draw_kernel), method.credit_kernel, method.balance_kernel)
    return [None if kernel._compiled is None else len(kernel._compiled.signatures) for kernel in kernels]


@compiled_only
@pytest.mark.parametrize("name", methods())
def test_a_loaded_method_compiles_nothing_more_whatever_it_is_given(name):
    method = get_method(name)
    exercise(method)
    before = signatures(method)
    rng = random.Random(1)
    for _ in range(40):
        kind = rng.choice([str, int])
        rankers = 2 if method.most_rankers == 2 else rng.randrange(2, 6)
        depth = rng.randrange(1, 30)
        rankings = {f"r{n}": [kind(d) for d in rng.sample(range(30), depth)] for n in range(rankers)}
        if rng.random() < 0.3:
            rankings["absent"] = None
        pinned = {0: kind(77)} if rng.random() < 0.3 else None
        drawn = method.combine(rankings, rng.randrange(1, 12), seed=rng.getrandbits(30), pinned=pinned)
        for impression in (drawn, trusted(json.loads(json.dumps(drawn.to_dict())))):
            infer(impression, positions=range(len(impression.shown)))
            HealthCounts(len(impression.rankers)).add(impression, impression.rankers)
    assert signatures(method) == before


@pytest.fixture
def slow_compiler(monkeypatch):
    """Make a method count as not compiled, and its compilation wait for an event."""
    import threading

    go = threading.Event()
    monkeypatch.setattr(compilation, "is_cached", lambda method: method.name != "tdm" or go.is_set())
    monkeypatch.setattr(CompiledMethods, "_compile", lambda self, method: go.wait(30))
    yield go
    go.set()


def test_until_a_method_is_compiled_searches_get_the_controls_list_and_people_are_told(
    tmp_path, slow_compiler, monkeypatch
):
    monkeypatch.setattr("multileave.live.service.START_WAITS", 0.1)
    monkeypatch.setattr(compilation, "LOADS_WITHIN", 0.1)
    with serving(f"sqlite:///{tmp_path}/live.db", open=True, database_seconds=0.5) as served:
        number = served.running(method="tdm")
        other = served.running()
        told = "is being compiled"
        assert served.send("GET", f"{API}/experiments/{number}").json()["compiled"] is False
        assert told in served.client.get(f"/experiments/{number}").text
        shown = served.show(number).json()
        assert (shown["recorded"], shown["shown"]) == (False, RANKINGS["bm25"][: DEFINITION["k"]])
        assert served.client.get("/readyz").status_code == 200
        slow_compiler.set()
        ends = time.monotonic() + 30
        while not served.show(number).json()["recorded"] and time.monotonic() < ends:
            time.sleep(0.05)
        assert served.send("GET", f"{API}/experiments/{number}").json()["compiled"] is True
        assert told not in served.client.get(f"/experiments/{number}").text
        assert served.show(other).json()["recorded"]
        assert served.send("GET", f"{API}/experiments/{number}/verdict").json()["traffic"]["impressions"] == 1


def test_the_service_is_not_ready_while_the_method_of_a_running_experiment_is_missing(tmp_path, slow_compiler):
    database = f"sqlite:///{tmp_path}/live.db"
    slow_compiler.set()
    with serving(database, open=True) as served:
        served.running(method="tdm")
    slow_compiler.clear()
    with serving(database, open=True, ready=False) as served:
        assert served.client.get("/readyz").status_code == 503
        slow_compiler.set()
        served.wait_until_ready()
        assert served.client.get("/readyz").status_code == 200


def test_a_method_that_cannot_be_compiled_is_logged_and_not_tried_all_the_time(monkeypatch):
    calls = []

    def fail(method):
        calls.append(method)
        raise OSError("no")

    monkeypatch.setattr(compilation, "exercise", fail)
    methods_ = CompiledMethods()
    assert not methods_.wait("ppm", 20)
    assert not methods_.wait("ppm", 20)
    methods_.close()
    assert len(calls) == 1


@compiled_only
@pytest.mark.acceptance
def test_compiling_a_method_for_the_first_time_freezes_no_search(sqlite_address, tmp_path, monkeypatch):
    monkeypatch.setenv("MULTILEAVE_CACHE_DIR", str(tmp_path / "cache"))
    process = Process(sqlite_address, tmp_path / "log")
    try:
        process.post("/experiments", {**DEFINITION, "method": "tdm"})
        process.post("/experiments/1/start")
        process.post("/experiments", {**DEFINITION, "method": "pbi"})
        took, compiling = asyncio.run(searches_while_compiling(process))
    finally:
        process.stop()
    assert max(took) < compiling / 2  # compiled on the loop, a search would wait for all of it


async def searches_while_compiling(process):
    """Search one experiment all the time while another one starts; return how long each search and the start took."""
    took, over, started = [], False, time.monotonic()

    async def search(http):
        while not over:
            began = time.monotonic()
            body = {"rankings": RANKINGS, "unit": f"u{len(took)}"}
            assert (await http.post(f"{API}/experiments/1/impressions", json=body)).json()["recorded"]
            took.append(time.monotonic() - began)
            await asyncio.sleep(0.005)

    async with httpx.AsyncClient(base_url=process.address, timeout=60) as http:
        searching = asyncio.create_task(search(http))
        await http.post(f"{API}/experiments/2/start")
        body = {"rankings": RANKINGS, "unit": "a"}
        ends = time.monotonic() + 60
        while not (await http.post(f"{API}/experiments/2/impressions", json=body)).json()["recorded"]:
            assert time.monotonic() < ends
            await asyncio.sleep(0.1)
        compiling, over = time.monotonic() - started, True
        await searching
    return took, compiling


def test_all_methods_are_cached_once_compiled():
    exercise(get_method("tdm"))
    compilation.compile_methods(["tdm"])
    assert is_cached(get_method("tdm"))


FIRST_VERDICT = """
import asyncio, sys
from multileave.live.definition import Definition
from multileave.live.records import Event, ShowRequest
from multileave.live.service import Service
from multileave.live.settings import Settings

async def search(user):
    shown = await service.show(1, ShowRequest({"a": ["x", "y"], "b": ["y", "x"]}, unit=user))
    await service.record([Event(user, shown.impression, position=0)])

service = Service(Settings(database=sys.argv[1]))
service.create(Definition("x", ("a", "b"), k=2))
service.start(1)
service.warm()
loaded = set(sys.modules)
for user in ("u1", "u2", "u3"):
    asyncio.run(search(user))
service.fold()
assert service.report(1).verdict.units == 3
print(*{name.partition(".")[0] for name in set(sys.modules) - loaded})
service.close()
"""


@pytest.mark.acceptance
def test_a_ready_service_has_imported_what_its_first_verdict_needs(sqlite_address):
    """Importing SciPy takes 200 ms of the process in which searches wait."""
    found = subprocess.run([sys.executable, "-c", FIRST_VERDICT, sqlite_address], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert not {"scipy", "numpy", "numba", "pandas"} & set(found.stdout.split())
