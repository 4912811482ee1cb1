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
from engine import RANKERS, Engine
from needs import NEEDS
from searchers import searcher, truth

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
    """Return the number of the running experiment on these rankers, once the service can draw its lists.

    Start one if there is none.
    """
    with httpx.Client(base_url=f"{service}/api/v1", timeout=60.0) as api:
        every = api.get("/experiments").raise_for_status().json()["experiments"]
        ours = (one for one in every if one["status"] == "running" and one["rankers"] == list(RANKERS))
        found = next(ours, None)
        if found is None:
            wanted = {"name": "documentation search", "rankers": list(RANKERS), "control": RANKERS[0]}
            found = api.post("/experiments", json=wanted).raise_for_status().json()
            found = api.post(f"/experiments/{found['number']}/start").raise_for_status().json()
        while not found["compiled"]:  # until then, everyone would see the control's list
            time.sleep(0.1)
            found = api.get(f"/experiments/{found['number']}").raise_for_status().json()
        return int(found["number"])


def main() -> None:
    """Run until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8000, help="port of the site")
    parser.add_argument("--service-port", type=int, default=8421, help="port of multileave's service and dashboard")
    parser.add_argument("--data", type=Path, help="folder for the recorded data; a temporary one by default")
    parser.add_argument("--searchers", type=int, default=0, help="number of simulated people who search")
    parser.add_argument("--deadline", type=float, default=1.0, help="seconds a search waits for the service")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = given.data or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        settings = Settings(database=f"sqlite:///{folder / 'multileave.db'}", port=given.service_port, open=True)
        service = stack.enter_context(running(settings))
        number = experiment(service)
        site = stack.enter_context(served(create_app(service, number, given.deadline), given.port))
        stack.enter_context(people(site, given.searchers))
        print(f"Search at {site}, and see which ranker is preferred at {service}. Press Ctrl-C to stop.", flush=True)
        try:
            while True:
                time.sleep(1.0)
        except KeyboardInterrupt:
            print(conclusion(service, number))


@contextmanager
def people(site: str, count: int) -> Iterator[None]:
    """Let simulated people search until the end."""
    over = threading.Event()
    threads = [threading.Thread(target=searcher, args=(site, seed, over)) for seed in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def conclusion(service: str, number: int) -> str:
    """Return the verdict, and beside it how good the rankers are for the simulated people."""
    found = httpx.get(f"{service}/api/v1/experiments/{number}/verdict", timeout=60.0).raise_for_status().json()
    winner = (found["verdict"] or {}).get("winner")
    engine = Engine()
    known = sorted(truth({query: engine.rank(query) for query in NEEDS}).items(), key=lambda item: -item[1])
    return (
        f"{found['traffic']['impressions']:,} searches. Users prefer {winner or 'no ranker significantly, so far'}.\n"
        f"Mean reciprocal rank of what the simulated people need: {', '.join(f'{r} {v:.2f}' for r, v in known)}."
    )


if __name__ == "__main__":
    main()
