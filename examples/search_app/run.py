"""Run the search site, multileave's service and, optionally, simulated people who search.

python examples/search_app/run.py --searchers 4
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import uvicorn
from app import create_app
from engine import RANKERS
from searchers import searcher

from multileave.live import Settings, running


@contextmanager
def served(app: object, port: int) -> Iterator[str]:
    """Serve an application in a thread, on this machine only."""
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning"))  # type: ignore[arg-type]
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise SystemExit(f"Port {port} is in use. Choose another one with --port.")
        time.sleep(0.05)
    found = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{found}"
    finally:
        server.should_exit = True
        thread.join()


def experiment(service: str) -> int:
    """Return the number of the running experiment on these rankers; start one if there is none."""
    with httpx.Client(base_url=f"{service}/api/v1", timeout=60.0) as api:
        for found in api.get("/experiments").raise_for_status().json()["experiments"]:
            if found["status"] == "running" and found["rankers"] == list(RANKERS):
                return int(found["number"])
        wanted = {"name": "recipes", "rankers": list(RANKERS), "control": RANKERS[0]}
        number = api.post("/experiments", json=wanted).raise_for_status().json()["number"]
        api.post(f"/experiments/{number}/start").raise_for_status()
        return int(number)


def main() -> None:
    """Run until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8000, help="port of the site")
    parser.add_argument("--service-port", type=int, default=8421, help="port of multileave's service and dashboard")
    parser.add_argument("--data", type=Path, help="folder for the recorded data; a temporary one by default")
    parser.add_argument("--searchers", type=int, default=0, help="number of simulated people who search")
    parser.add_argument("--deadline", type=float, default=0.15, help="seconds a search waits for the service")
    given = parser.parse_args()
    with ExitStack() as stack, threading_event() as stop:
        folder = given.data or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        settings = Settings(database=f"sqlite:///{folder / 'multileave.db'}", port=given.service_port, open=True)
        service = stack.enter_context(running(settings))
        site = stack.enter_context(served(create_app(service, experiment(service), given.deadline), given.port))
        for seed in range(given.searchers):
            threading.Thread(target=searcher, args=(site, seed, stop), daemon=True).start()
        print(f"Search at {site}, and see which ranker is preferred at {service}. Press Ctrl-C to stop.", flush=True)
        try:
            while True:
                time.sleep(1.0)
        except KeyboardInterrupt:
            print("Stopping.")


@contextmanager
def threading_event() -> Iterator[threading.Event]:
    """Yield an event that is set on exit."""
    event = threading.Event()
    try:
        yield event
    finally:
        event.set()


if __name__ == "__main__":
    main()
