"""A service that runs, and servers that misbehave, for the client's tests."""

import contextlib
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("httpx", reason="pip install 'multileave[client]'")
pytest.importorskip("fastapi", reason="pip install 'multileave[live]'")

DEFINITION = {"name": "shop", "rankers": ["bm25", "dense", "ltr"], "control": "bm25", "k": 4}


@contextlib.contextmanager
def service(folder, port=0, **changes):
    """Run a service on a database in a folder, with one experiment, number 1, that runs."""
    from multileave.live.in_process import running
    from multileave.live.settings import Settings

    with running(Settings(database=f"sqlite:///{folder}/live.db", open=True, port=port)) as address:
        post = Api(address)
        if not post.get("/experiments")["experiments"]:
            assert post("/experiments", {**DEFINITION, **changes})["number"] == 1
            post("/experiments/1/start")
        yield address


class Api:
    def __init__(self, address):
        self.address = f"{address}/api/v1"

    def __call__(self, path, body=None):
        import httpx

        answer = httpx.post(self.address + path, json=body, timeout=30)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def get(self, path):
        import httpx

        answer = httpx.get(self.address + path, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def traffic(self):
        return self.get("/experiments/1/verdict")["traffic"]


@contextlib.contextmanager
def misbehaving(answer):
    """Run a server that hands each request to a function; give its address and the bodies it was sent."""
    bodies = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            bodies.append((dict(self.headers), body))
            with contextlib.suppress(OSError):
                answer(self, len(bodies))

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", bodies
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def reply(handler, status, body, content_type="application/json"):
    """Answer a request."""
    handler.send_response(status)
    handler.send_header("Content-Type", content_type)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def closed_port():
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
