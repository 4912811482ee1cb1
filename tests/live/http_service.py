"""A service behind its HTTP routes, with a key of every role."""

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from starlette.testclient import TestClient

from multileave.live.http.app import create_app
from multileave.live.settings import Settings

API = "/api/v1"
DEFINITION = {"name": "shop", "rankers": ["bm25", "dense"], "control": "bm25", "method": "ppm", "k": 3}
RANKINGS = {"bm25": ["a", "b", "c", "d"], "dense": ["d", "c", "b", "a"]}


def forged(impression: str) -> str:
    """Return an impression's id with another signature."""
    return impression[:-5] + ("A" if impression[-5] != "A" else "B") + impression[-4:]


@dataclass
class Served:
    """An app that runs, a client of it, and its keys by role."""

    app: FastAPI
    client: TestClient
    keys: dict[str, str]

    def send(self, method: str, path: str, role: str | None = "admin", **more: Any) -> Any:
        """Send a request with a role's key."""
        headers = dict(more.pop("headers", {}))
        if role is not None:
            headers["Authorization"] = f"Bearer {self.keys[role]}"
        return self.client.request(method, path, headers=headers, **more)

    def wait_until_ready(self) -> None:
        """Wait until kernels are warm, which takes a while where they are compiled anew."""
        ends = time.monotonic() + 120
        while self.client.get("/readyz").status_code == 503 and time.monotonic() < ends:
            time.sleep(0.05)

    def running(self, **changes: Any) -> int:
        """Start a new experiment and return its number."""
        made = self.send("POST", f"{API}/experiments", json={**DEFINITION, **changes})
        assert made.status_code == 201, made.text
        number = made.json()["number"]
        assert self.send("POST", f"{API}/experiments/{number}/start").status_code == 200
        return int(number)

    def show(self, number: int, unit: str = "u", **more: Any) -> Any:
        """Ask for a list."""
        body = {"rankings": RANKINGS, "unit": unit, **more}
        return self.send("POST", f"{API}/experiments/{number}/impressions", "ingest", json=body)


@contextmanager
def serving(database: str, *, ready: bool = True, **settings: Any):
    """Run an app until it is ready; errors that nobody foresaw are answered as they would be to a client."""
    app = create_app(Settings(database=database, **{"fold_seconds": 0.2, **settings}))
    with TestClient(app, base_url="http://127.0.0.1:8421", raise_server_exceptions=False) as client:
        keys = {
            role: app.state.service.access.create_key(f"of {role}", role)[1] for role in ("ingest", "read", "admin")
        }
        served = Served(app, client, keys)
        if ready:
            served.wait_until_ready()
        yield served


def check_refusal(answer: Any, status: int, code: str | None = None) -> dict[str, Any]:
    """Check that an answer is a refusal in the one shape, and return what it says."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert set(body) == {"error"}
    error = body["error"]
    assert set(error) == {"code", "message", "details", "request_id"}
    assert error["request_id"] == answer.headers["x-request-id"]
    assert isinstance(error["message"], str)
    assert 5 < len(error["message"]) <= 1000
    assert error["details"] is None or all(set(detail) == {"where", "reason"} for detail in error["details"])
    if code is not None:
        assert error["code"] == code
    return error
