"""nginx with the configuration in examples/proxy in front of the service: what it lets through and what it stops."""

import contextlib
import http.server
import json
import re
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import httpx
import pytest
import uvicorn
from served_process import API, free_port

from multileave.live import Settings, running
from multileave.live.http.connections import server_options
from multileave.live.service import Service

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
EXAMPLE = Path(__file__).parents[2] / "examples" / "proxy" / "nginx.conf"
SECRET = "a secret of the tests"
DEFINITION = {"name": "a", "rankers": ["x", "y"], "control": "x", "k": 2}
RANKINGS = {"x": ["a", "b"], "y": ["b", "a"]}
WITHIN = 30.0


@contextlib.contextmanager
def proxy(folder, upstream):
    """Run nginx in front of a port, with the example's file; yield its address."""
    if NGINX is None:
        pytest.skip("nginx is absent: apt-get install nginx-light")
    port, text = free_port(), EXAMPLE.read_text()
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"\n    {kind}_temp_path {folder}/{kind};" for kind in kinds)
    for before, after in (
        ("listen 80;", f"listen 127.0.0.1:{port};"),
        ("server 127.0.0.1:8421;", f"server 127.0.0.1:{upstream};"),
        ("/run/nginx.pid", f"{folder}/pid"),
        ("/var/log/nginx/error.log", f"{folder}/error.log"),
        ("http {", f"http {{{paths}"),
    ):
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    file = folder / "nginx.conf"
    file.write_text(text)
    folder.chmod(0o755)
    for parent in folder.parents[:3]:
        with contextlib.suppress(PermissionError):
            parent.chmod(parent.stat().st_mode | 0o011)  # nginx's workers are nobody
    process = subprocess.Popen([NGINX, "-c", file, "-p", folder, "-g", "daemon off;"], stderr=subprocess.PIPE)
    try:
        ends = time.monotonic() + WITHIN
        while True:
            assert process.poll() is None, process.stderr.read()
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            assert time.monotonic() < ends
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(WITHIN)
        process.stderr.close()


@pytest.fixture(scope="module")
def behind(tmp_path_factory):
    """A service with keys behind nginx: the proxy's address, the service's, and a key."""
    folder = tmp_path_factory.mktemp("proxy")
    settings = Settings(database=f"sqlite:///{folder}/live.db", secret=SECRET, port=0)
    with contextlib.closing(Service(settings)) as service:
        key = service.access.create_key("me", "admin")[1]
    with running(settings) as direct, proxy(folder, int(direct.rpartition(":")[2])) as address:
        with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {key}"}, timeout=WITHIN) as client:
            assert client.post(f"{API}/experiments", json=DEFINITION).status_code == 201
            assert client.post(f"{API}/experiments/1/start").status_code == 200
        yield address, direct, key


def search(address, key, unit="u"):
    headers = {"Authorization": f"Bearer {key}"}
    body = {"rankings": RANKINGS, "unit": unit}
    return httpx.post(f"{address}{API}/experiments/1/impressions", json=body, headers=headers, timeout=WITHIN)


def connect(address):
    return socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=WITHIN)


def until_closed(connection):
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.acceptance
def test_searches_events_and_the_dashboard_work_through_the_proxy(behind):
    address, _, key = behind
    shown = search(address, key).json()
    assert shown["recorded"]
    event = {"id": "e", "impression": shown["impression"], "position": 0}
    assert httpx.post(f"{address}{API}/events", json=[event]).json()["accepted"] == 1
    with httpx.Client(base_url=address, follow_redirects=True, timeout=WITHIN) as browser:
        page = browser.get("/")
        assert page.url.path == "/login"
        token = re.search(r'name="csrf" value="([^"]+)"', page.text)[1]
        page = browser.post("/login", data={"key": key, "csrf": token, "next": "/"}, headers={"Origin": address})
        assert page.status_code == 200
        assert page.url.path == "/"
        assert DEFINITION["name"] in page.text


@pytest.mark.acceptance
def test_metrics_are_not_reached_through_the_proxy(behind):
    address, direct, key = behind
    spoofed = {"X-Forwarded-For": "127.0.0.1", "Forwarded": "for=127.0.0.1"}
    for path in ("/metrics", "//metrics", "/./metrics", "/%6detrics", "/x/../metrics", "/metrics/", "/metrics?a=b"):
        for headers in ({}, spoofed, {"Authorization": f"Bearer {key}"}):
            found = httpx.get(address + path, headers=headers)
            assert "multileave_requests" not in found.text
            assert found.status_code in (301, 400, 401, 403, 404)
    assert "multileave_requests" in httpx.get(f"{direct}/metrics", headers={"Authorization": f"Bearer {key}"}).text


@pytest.mark.acceptance
def test_large_headers_and_bodies_stop_at_the_proxy(behind):
    address, _, key = behind
    assert httpx.get(f"{address}/healthz", headers={"X-Long": "x" * 40_000}).status_code in (400, 431)
    with connect(address) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 100_000)
        assert connection.recv(65536).split()[1] in (b"400", b"431")
    with contextlib.suppress(httpx.WriteError):
        assert httpx.post(f"{address}{API}/events", content=b"x" * 5_000_000, timeout=WITHIN).status_code == 413
    assert search(address, key).status_code == 200


@pytest.mark.acceptance
def test_slow_and_idle_clients_wait_at_the_proxy_and_nobody_waits_for_them(behind):
    address, _, key = behind
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(address)) for _ in range(300)]
        slow_header, slow_body = idle[0], idle[1]
        slow_header.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n")
        slow_body.sendall(b"POST /api/v1/events HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n[")
        for unit in range(20):
            assert search(address, key, f"u{unit}").status_code == 200
        for connection in (slow_header, slow_body, idle[2]):
            connection.settimeout(WITHIN)
            assert until_closed(connection).split()[1:2] in ([], [b"408"])


@pytest.mark.acceptance
def test_what_a_client_says_about_its_address_is_replaced(tmp_path):
    seen = []

    class Echo(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            seen.append({name.lower(): self.headers.get_all(name) for name in self.headers})
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with proxy(tmp_path, server.server_address[1]) as address:
            sent = {
                "X-Forwarded-For": "192.0.2.1, 10.0.0.1",
                "Forwarded": "for=192.0.2.1",
                "X-Forwarded-Proto": "https",
            }
            assert httpx.get(f"{address}/", headers=sent).status_code == 200
        server.shutdown()
    assert seen[-1]["x-forwarded-for"] == ["127.0.0.1"]
    assert seen[-1]["x-forwarded-proto"] == ["http"]
    assert "forwarded" not in seen[-1]


@pytest.mark.parametrize(
    ("trusted", "seen"), [(("127.0.0.1",), "192.0.2.1"), (("192.0.2.9",), "127.0.0.1"), ((), "127.0.0.1")]
)
def test_only_trusted_proxies_say_who_the_client_is(trusted, seen):
    async def app(scope, receive, send):
        if scope["type"] == "http":
            body = json.dumps(scope["client"][0]).encode()
            headers = [(b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    port = free_port()
    options = server_options(Settings(trusted_proxies=trusted))
    server = uvicorn.Server(uvicorn.Config(app, port=port, lifespan="off", **options))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        ends = time.monotonic() + WITHIN
        while not server.started and time.monotonic() < ends:
            time.sleep(0.01)
        answer = httpx.get(f"http://127.0.0.1:{port}/", headers={"X-Forwarded-For": "192.0.2.1"})
        assert answer.json() == seen
    finally:
        server.should_exit = True
        thread.join(WITHIN)
