"""multileave demo --live: the service, its users and the end of it all."""

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

pytest.importorskip("httpx", reason="pip install 'multileave[client]'")
pytest.importorskip("fastapi", reason="pip install 'multileave[live]'")

pytestmark = pytest.mark.acceptance

COMMAND = [sys.executable, "-c", "import sys; from multileave.cli import main; sys.exit(main())", "demo", "--live"]


def test_users_search_until_ctrl_c_and_the_verdict_is_printed(tmp_path):
    """One run: the page is there, Ctrl-C ends it cleanly, and the JSON says what was found."""
    command = [*COMMAND, "--port", "0", "--users", "40", "--seconds", "0", "--folder", str(tmp_path), "--json"]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address = demo.stderr.readline().split()[2]
    answer, seen = {"verdict": None}, 0
    while seen < 60:
        experiments = json.load(urllib.request.urlopen(f"{address}api/v1/experiments", timeout=60))["experiments"]
        if experiments:
            url = f"{address}api/v1/experiments/{experiments[0]['number']}/verdict"
            answer = json.load(urllib.request.urlopen(url, timeout=60))
            seen = answer["traffic"]["impressions"]
    os.kill(demo.pid, signal.SIGINT)
    out, err = demo.communicate(timeout=60)
    assert demo.returncode == 0, err
    assert "Traceback" not in err
    report = json.loads(out)
    assert report["known_winner"] == "r1"
    assert report["right"] == (report["winner"] == "r1")
    assert report["traffic"]["impressions"] >= seen
    assert report["client"]["accepted"] == report["client"]["sent"] > 0
    assert report["verdict"]["rankers"] == ["r1", "r2", "r3", "r4", "r5"]
    assert (tmp_path / "demo.db").exists()


def test_the_browser_opens_when_the_service_is_ready_and_the_end_says_what_is_next(tmp_path):
    """With an empty cache of compiled kernels, no search falls back while the method is compiled."""
    program = tmp_path / "browser"
    program.write_text(f"#!/bin/sh\necho $1 > {tmp_path}/opened\n")
    program.chmod(0o700)
    environment = {**os.environ, "BROWSER": f"{program} %s", "MULTILEAVE_CACHE_DIR": str(tmp_path / "cache")}
    command = [*COMMAND, "--port", "0", "--seconds", "3", "--open"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    address = done.stdout.split()[2]
    assert (tmp_path / "opened").read_text() == f"{address}experiments/1\n"
    assert "control's list" not in done.stderr
    assert done.stdout.index("Next:") > done.stdout.index("the best ranker by construction")


def test_opening_a_browser_needs_the_live_demo():
    command = [part for part in COMMAND if part != "--live"]
    found = subprocess.run([*command, "--open"], capture_output=True, text=True, timeout=60)
    assert found.returncode == 2
    assert found.stderr.startswith("multileave: --open opens the dashboard")


def test_numbers_that_make_no_sense_are_refused():
    found = subprocess.run([*COMMAND, "--users", "1"], capture_output=True, text=True, timeout=60)
    assert found.returncode == 2
    assert found.stderr.startswith("multileave: --users is 1")
