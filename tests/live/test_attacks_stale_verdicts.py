"""A full disk or a locked database: verdicts and pages show what was counted before, and say up to when."""

import asyncio
import shutil
import subprocess
import time
from datetime import datetime

import pytest
import sqlalchemy as sa
from http_service import API, check_refusal, serving
from stalling import locked

from multileave.live.definition import Definition
from multileave.live.errors import Unavailable
from multileave.live.records import ShowRequest
from multileave.live.service import Service
from multileave.live.settings import Settings

BIG = 400  # characters of a document id, so that a small disk is soon full


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of 3 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here; the test with a limit on pages stands for it")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(served, number):
    """Search until the disk is full; return how many searches were recorded."""
    documents = [f"{n}{'x' * BIG}" for n in range(40)]
    for unit in range(3000):
        answer = served.show(number, f"u{unit}", rankings={"bm25": documents, "dense": documents[::-1]})
        if answer.status_code != 200:
            check_refusal(answer, 503, "unavailable")
            assert answer.headers["retry-after"]
            return unit
    pytest.fail("the disk is not full")


def check_reading(served, number, stale):
    """Check that everything that only reads still answers, and what it says about its age."""
    for path in ("verdict", "health"):
        answer = served.send("GET", f"{API}/experiments/{number}/{path}", "read")
        assert answer.status_code == 200, answer.text
        assert answer.json()["stale"] == stale
        assert datetime.fromisoformat(answer.json()["as_of"])
    for path in ("history", "impressions"):
        assert served.send("GET", f"{API}/experiments/{number}/{path}", "read").status_code == 200
    for path in (f"/experiments/{number}", f"/experiments/{number}/live", f"/experiments/{number}/pairs", "/"):
        page = served.client.get(path)
        assert page.status_code == 200, page.text
        if path != "/" and not path.endswith("pairs"):
            assert ("The database cannot be written right now" in page.text) == stale


def test_a_full_disk_shows_the_last_verdict(small_disk):
    with serving(f"sqlite:///{small_disk}/live.db", open=True, fold_seconds=3600) as served:
        number = served.running()
        for unit in range(20):
            served.show(number, f"first{unit}")
        before = served.send("GET", f"{API}/experiments/{number}/verdict", "read").json()
        assert not before["stale"]
        assert fill(served, number) > 10
        check_reading(served, number, stale=True)
        said = served.send("GET", f"{API}/experiments/{number}/verdict", "read").json()
        assert said["traffic"]["impressions"] >= before["traffic"]["impressions"]
        assert said["as_of"] > before["as_of"]


def test_a_locked_database_shows_the_last_verdict_and_counts_the_rest_later(sqlite_address):
    with serving(sqlite_address, open=True, fold_seconds=3600, database_seconds=0.3) as served:
        number = served.running()
        for unit in range(20):
            served.show(number, f"u{unit}")
        assert served.send("GET", f"{API}/experiments/{number}/verdict").json()["traffic"]["impressions"] == 20
        for unit in range(20, 25):
            served.show(number, f"u{unit}")
        for kind in ("IMMEDIATE", "EXCLUSIVE"):
            with locked(sqlite_address, kind):
                check_refusal(served.show(number, "another"), 503, "unavailable")
                check_reading(served, number, stale=True)
                said = served.send("GET", f"{API}/experiments/{number}/verdict").json()
                assert said["traffic"]["impressions"] == 20
                check_refusal(served.send("POST", f"{API}/experiments/{number}/stop"), 503, "unavailable")
        wait_until_counted(served, number)
        check_reading(served, number, stale=False)


def wait_until_counted(served, number):
    """Wait until the service writes again, and has counted everything."""
    ends = time.monotonic() + 20
    said = {"stale": True}
    while said["stale"] and time.monotonic() < ends:
        said = served.send("GET", f"{API}/experiments/{number}/verdict").json()
        time.sleep(0.05)
    assert said["traffic"]["impressions"] == 25


def test_a_limit_on_pages_shows_the_last_verdict(sqlite_address):
    """As a full disk, where none can be mounted."""
    service = Service(Settings(database=sqlite_address))
    sa.event.listen(
        service._store.engine, "checkout", lambda raw, *_: raw.execute(f"PRAGMA max_page_count={limit['pages']}")
    )
    limit = {"pages": 10**6}
    try:
        number = service.create(Definition("a", ("x", "y"), "x", k=2)).number
        service.start(number)

        def show(unit):
            request = ShowRequest(rankings={"x": ["a", "b", "c"], "y": ["c", "b", "a"]}, unit=unit)
            return asyncio.run(service.show(number, request))

        for unit in range(5):
            show(f"u{unit}")
        assert service.report(number).traffic.impressions == 5
        for unit in range(150):
            show(f"uncounted{unit}")
        limit["pages"] = 1  # no more than there are now
        with pytest.raises(Unavailable) as raised:
            [show(f"late{unit}") for unit in range(100)]
        assert "full" in raised.value.reason
        report = service.report(number)
        assert report.stale
        assert report.traffic.impressions >= 5
        assert service.fold() == 0  # it is postponed, and does not fail
    finally:
        service.close()
