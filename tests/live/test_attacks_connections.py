"""Clients that send too much, too slowly or nothing at all: they are cut off, and others can still search."""

import contextlib
import json
import resource
import socket
import time

import httpx
import pytest
from served_process import API, Process

from multileave.live import Settings, running
from multileave.live.http import connections

DEFINITION = {"name": "a", "rankers": ["x", "y"], "control": "x", "k": 2}
SEARCH = {"rankings": {"x": ["a", "b"], "y": ["b", "a"]}}
WITHIN = 15.0  # seconds, against hangs
CLOSED = b""


@pytest.fixture
def served(tmp_path):
    """Run a service with settings; a function that returns its port."""
    with contextlib.ExitStack() as stack:

        def start(**settings):
            settings = Settings(database=f"sqlite:///{tmp_path}/live.db", port=0, open=True, **settings)
            return int(stack.enter_context(running(settings)).rpartition(":")[2])

        yield start


def connect(port):
    found = socket.create_connection(("127.0.0.1", port), timeout=WITHIN)
    found.settimeout(WITHIN)
    return found


def read_all(connection):
    """Return what the service sends until it closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def send_all(connection, parts):
    """Send until the service closes the connection; return how many bytes it took."""
    sent = 0
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        for part in parts:
            connection.sendall(part)
            sent += len(part)
    return sent


def start_experiment(http):
    assert http.post(f"{API}/experiments", json=DEFINITION).status_code == 201
    assert http.post(f"{API}/experiments/1/start").status_code == 200


def search(port, unit):
    """Search over a new connection."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=WITHIN) as http:
        return http.post(f"{API}/experiments/1/impressions", json={**SEARCH, "unit": unit}).status_code


LONG = [b"x" * 65536] * 160  # 10 MB
START = b"POST /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ", *LONG], id="one header"),
        pytest.param([b"GET /healthz HTTP/1.1\r\n", *[b"X-Many: y\r\n" * 5000] * 200], id="many headers"),
        pytest.param([b"GET /", *LONG], id="address"),
        pytest.param([b"GET", *[b"\r\n" * 32768] * 160], id="no request"),
        pytest.param([START, b"Transfer-Encoding: chunked\r\n\r\n1;", *LONG], id="chunk extension"),
        pytest.param(
            [START, b"Transfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\nX-Trailer: ", *LONG], id="trailer"
        ),
    ],
)  # fmt: skip
def test_headers_of_any_kind_beyond_the_limit_end_the_connection(served, parts):
    port = served()
    with connect(port) as connection:
        sent = send_all(connection, parts)
        answer = read_all(connection)
    assert sent < 9_000_000  # what buffers hold, and not all of it
    assert not answer or answer.split()[1] in (b"431", b"400", b"200")
    assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200


def test_a_header_over_the_limit_is_refused_in_the_one_shape_and_one_below_is_not(served):
    port = served(most_header=8192)
    url = f"http://127.0.0.1:{port}/healthz"
    assert httpx.get(url, headers={"X-Long": "x" * 7000}).status_code == 200
    answer = httpx.get(url, headers={"X-Long": "x" * 9000})
    assert answer.status_code == 431
    assert answer.json()["error"]["code"] == "too_large"
    assert answer.headers["connection"] == "close"


CHUNKED = START + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("chunk", "times", "statuses"),
    [
        pytest.param(b" ", 100_000, (b"413",), id="one byte"),
        pytest.param(b" " * 20, 50_000, (b"413",), id="twenty bytes"),
        pytest.param(b" " * 1024, 900, (b"400", b"422"), id="usual"),
    ],
)
def test_a_body_in_very_many_small_chunks_is_refused_early(served, monkeypatch, chunk, times, statuses):
    read = []
    monkeypatch.setattr(
        connections.HttpToolsProtocol, "on_body", lambda self, body, before=connections.HttpToolsProtocol.on_body:
            read.append(len(body)) or before(self, body),
    )  # fmt: skip
    with connect(served()) as connection:
        send_all(connection, [CHUNKED + (b"%x\r\n%b\r\n" % (len(chunk), chunk)) * times, b"0\r\n\r\n"])
        answer = read_all(connection) if b"413" in statuses else connection.recv(65536)
    assert not answer or answer.split()[1] in statuses
    assert len(read) <= connections.MOST_PIECES
    assert (sum(read) == len(chunk) * times) == (b"413" not in statuses)


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("parts", "again", "status"),
    [
        pytest.param([], b"", None, id="nothing"),
        pytest.param([b"\r\n"], b"\r\n", b"408", id="empty lines"),
        pytest.param([b"GET /healthz HTTP/1.1\r\nHost: a\r\n"], b"X-A: b\r\n", b"408", id="headers"),
        pytest.param([START, b"Content-Length: 1000\r\n\r\n"], b" ", b"408", id="body"),
        pytest.param([START, b"Transfer-Encoding: chunked\r\n\r\n"], b"1\r\n \r\n", b"408", id="chunks"),
    ],
)
def test_a_request_that_trickles_is_ended(served, parts, again, status):
    port = served(header_seconds=1, body_seconds=1)
    ends = time.monotonic() + WITHIN
    with connect(port) as connection:
        for part in parts:
            connection.sendall(part)
        connection.settimeout(0.2)
        answer = None
        while answer is None:
            assert time.monotonic() < ends
            try:
                answer = connection.recv(65536)
            except TimeoutError:
                connection.sendall(again)
            except ConnectionResetError:
                answer = CLOSED
    assert answer.split()[1:2] == ([] if status is None else [status])
    if status is not None:
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "timeout"


@pytest.mark.acceptance
def test_a_kept_connection_that_says_nothing_more_is_closed_even_if_it_sends_empty_lines(served, monkeypatch):
    monkeypatch.setattr(connections, "KEEP_ALIVE", 1)
    port = served(header_seconds=1)
    with connect(port) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b"200" in connection.recv(65536)
        connection.sendall(b"\r\n")
        assert connection.recv(65536).split()[1:2] in ([], [b"408"])


@pytest.mark.acceptance
def test_a_client_that_does_not_read_is_cut_off(served, monkeypatch):
    monkeypatch.setattr(connections, "READING", 1.0)
    monkeypatch.setattr(connections, "KEEP_ALIVE", 1)
    port = served()
    ask = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with connect(port) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(0.5)
        ends = time.monotonic() + WITHIN
        while time.monotonic() < ends:
            try:
                connection.sendall(ask)
                time.sleep(0.005)
            except TimeoutError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                break
        else:
            pytest.fail("the service still waits for the client to read")


def test_more_requests_at_a_time_than_anybody_needs_end_the_connection(served):
    port = served()
    with connect(port) as connection:
        send_all(connection, [b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 2000])
        assert read_all(connection).count(b"HTTP/1.1 200") < 2000


@pytest.mark.parametrize(
    "begun",
    [b"", b"GET / HTTP/1.1\r\nHost: a\r\n", START + b"Content-Length: 1000\r\n\r\n["],
    ids=["idle", "headers", "body"],
)
def test_when_there_are_too_many_connections_the_one_that_waits_longest_is_closed(served, begun):
    port = served(most_connections=20)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=WITHIN) as http:
        start_experiment(http)
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(60):
            connection = stack.enter_context(connect(port))
            connection.sendall(begun)
            opened.append(connection)
        assert [search(port, f"u{n}") for n in range(5)] == [200] * 5
        assert opened[0].recv(100) == CLOSED


@pytest.mark.acceptance
def test_eleven_hundred_idle_and_trickling_sockets_keep_nobody_from_searching(sqlite_address, tmp_path):
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    process = Process(sqlite_address, tmp_path / "log", soft_files=1024, most_connections=1000)
    try:
        start_experiment(process.http)
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(connect(process.port)) for _ in range(1100)]
            for number, connection in enumerate(opened):
                with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                    connection.sendall((b"", b"GET / HTTP/1.1\r\n", START + b"Content-Length: 9\r\n\r\n")[number % 3])
            assert [search(process.port, f"u{n}") for n in range(20)] == [200] * 20
            assert process.http.get("/healthz").status_code == 200
    finally:
        process.stop()


@pytest.mark.acceptance
def test_a_header_of_300_megabytes_takes_no_memory(sqlite_address, tmp_path):
    process = Process(sqlite_address, tmp_path / "log")
    try:
        before = memory(process)
        with connect(process.port) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Long: ")
            assert send_all(connection, [b"x" * 1_000_000] * 300) < 20_000_000
        assert memory(process) - before < 50_000
        assert process.http.get("/healthz").status_code == 200
    finally:
        process.stop()


def memory(process):
    """Return the most memory a process ever had, in kB."""
    with open(f"/proc/{process.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
