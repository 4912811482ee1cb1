"""Long attacks under load: nothing acknowledged is lost or counted twice, and the process stays responsive.

    make soak

Afterwards the verdict equals that of replaying the export (`check` in test_kill).
"""

import contextlib
import os
import subprocess
import threading
import time

import httpx
import pytest
from served_process import Process
from test_kill import DEFINITION, Searchers, check, survive

pytestmark = pytest.mark.soak

KILLS = 20
PAUSE = 12.0  # seconds
PATIENCE = 0.5  # seconds after which searchers give up and search again
LONGEST_ANSWER = 0.2  # seconds, of /healthz


class Watcher:
    """A thread that asks a service for /healthz all the time, and remembers how long each answer took."""

    def __init__(self, address):
        self.took: list[float] = []
        self._address = address
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self):
        with httpx.Client(base_url=self._address, timeout=30) as http:
            while not self._over.wait(0.02):
                began = time.perf_counter()
                assert http.get("/healthz").status_code == 200
                self.took.append(time.perf_counter() - began)

    def stop(self):
        self._over.set()
        self._thread.join()


@contextlib.contextmanager
def under_load(database, folder, workers):
    """Run a service and searchers; afterwards compare what is there with what was acknowledged."""
    process = Process(database, folder / "log", workers=workers)
    process.post("/experiments", DEFINITION)
    process.post("/experiments/1/start")
    searchers, watcher = Searchers(process.address, PATIENCE), Watcher(process.address)
    try:
        wait_for(searchers, 50)
        yield process, searchers
        wait_for(searchers, 50)
    finally:
        searchers.stop()
        watcher.stop()
        process.stop()
    print(f"/healthz: {len(watcher.took):,} answers, the longest {1000 * max(watcher.took):.0f} ms; "
          f"{len(searchers.impressions):,} impressions and {len(searchers.events):,} events acknowledged, "
          f"{len(searchers.refused):,} requests refused")  # fmt: skip
    check(database, folder, searchers)
    assert max(watcher.took) < LONGEST_ANSWER


def wait_for(searchers, impressions):
    """Wait until more impressions have been acknowledged."""
    seen = len(searchers.impressions)
    end = time.monotonic() + 60
    while len(searchers.impressions) < seen + impressions:
        assert time.monotonic() < end, "the service does not answer searches"
        time.sleep(0.01)


@pytest.mark.parametrize(("kind", "workers"), [("sqlite", 1), ("sqlite", 2), ("postgres", 2)])
def test_twenty_kills_lose_and_double_nothing(kind, workers, request, tmp_path):
    survive(request.getfixturevalue(f"{kind}_address"), tmp_path, KILLS, seed=8, workers=workers)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_pause_of_postgres_loses_nothing_and_blocks_no_process(workers, postgres_address, postgres_paused, tmp_path):
    with under_load(postgres_address, tmp_path, workers), postgres_paused():
        time.sleep(PAUSE)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_loses_nothing_and_is_survived(workers, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "multileave-soak", disk], check=False).returncode:
        pytest.skip("A small disk cannot be mounted here: run as root.")
    try:
        with under_load(f"sqlite:///{disk}/store.db", tmp_path, workers) as (process, searchers):
            ballast = disk / "ballast"
            fill(ballast)
            end = time.monotonic() + 60
            while len(searchers.refused) < 20:  # the log of SQLite may still have room
                assert time.monotonic() < end, "the disk does not fill"
                time.sleep(0.1)
                fill(ballast)
            traffic = process.get("/experiments/1/verdict")["traffic"]
            assert traffic["impressions"] > 0
            time.sleep(2)
            ballast.unlink()
    finally:
        subprocess.run(["umount", disk], check=True)


def fill(ballast):
    """Write to a file until the disk is full."""
    with contextlib.suppress(OSError), open(ballast, "ab", buffering=0) as stream:
        while True:
            stream.write(os.urandom(65536))
