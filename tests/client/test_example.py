"""A live experiment in one's own application, as the how-to shows it: in few lines, by these commands."""

import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from client_service import Api, service
from starlette.testclient import TestClient

pytestmark = pytest.mark.acceptance

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "fastapi.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "fastapi_app.py"
CODE = EXAMPLE.read_text(encoding="utf-8").rpartition('"""')[2].strip()


def test_the_example_shows_lists_and_reports_clicks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with service(tmp_path, rankers=["bm25", "ltr"]) as address:
        monkeypatch.setenv("SERVICE", address)
        monkeypatch.setenv("EXPERIMENT", "1")
        spec = importlib.util.spec_from_file_location("fastapi_app", EXAMPLE)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with TestClient(module.app) as http:
            http.app.state.multileave._deadline = 10.0  # the machine may be busy
            for user in range(3):
                page = http.get("/search", params={"query": "shoes", "user": f"u{user}"}).json()
                assert sorted(page["documents"]) == ["d1", "d2", "d3"]
                answer = http.post("/clicks", params={"impression": page["impression"], "document": "d3"})
                assert answer.status_code == 200
        assert Api(address).traffic()["events"] == {"click": 3}


def test_the_page_shows_the_whole_example_and_it_is_short():
    assert f"```python\n{CODE}\n```" in PAGE
    assert len([line for line in CODE.splitlines() if line.strip()]) < 30


def test_the_pages_commands_start_an_experiment(tmp_path):
    if shutil.which("curl") is None:
        pytest.skip("curl is absent: apt-get install curl")
    (block,) = re.findall(r"^```sh\n((?:(?!```).)*uvicorn fastapi_app:app)\n```$", PAGE, re.MULTILINE | re.DOTALL)
    install, rest = block.split("\n", 1)
    assert install == "pip install 'multileave[live,client]'"
    service_port, port = free_ports(2)
    commands = rest.replace("8421", str(service_port))
    commands = commands.replace("serve --open", f"serve --open --port {service_port}")
    commands = commands.replace("fastapi_app:app", f"fastapi_app:app --port {port}")
    shutil.copy(EXAMPLE, tmp_path)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    started = subprocess.Popen(
        ["bash", "-ec", commands], cwd=tmp_path, env={**os.environ, "PATH": programs}, start_new_session=True
    )
    try:
        api = Api(f"http://127.0.0.1:{service_port}")
        user = 0
        while not recorded(f"http://127.0.0.1:{port}", user := user + 1):
            assert started.poll() is None
            assert user < 300
            time.sleep(0.2)
        while not api.traffic()["events"]:  # clicks are sent a moment later
            assert started.poll() is None
            time.sleep(0.2)
        assert api.get("/experiments/1")["status"] == "running"
    finally:
        os.killpg(started.pid, signal.SIGTERM)
        started.wait(timeout=60)


def free_ports(count):
    """Return ports that nobody listens on."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [server.getsockname()[1] for server in held]
    finally:
        for server in held:
            server.close()


def recorded(site, user):
    """Search and click, and return whether the search was recorded: not before all is started, in time or late."""
    try:
        page = httpx.get(f"{site}/search", params={"query": "shoes", "user": f"u{user}"}, timeout=10).json()
    except httpx.TransportError:
        return False
    assert sorted(page["documents"]) == ["d1", "d2", "d3"]
    if page["impression"] is None:
        return False
    answer = httpx.post(f"{site}/clicks", params={"impression": page["impression"], "document": "d3"}, timeout=10)
    return answer.status_code == 200
