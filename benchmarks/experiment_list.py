"""How long the list of experiments takes: 500 experiments with results, on SQLite or another database.

    python benchmarks/experiment_list.py [--experiments 500] [--database postgresql://...]

Writes tallies of simulated users straight into the store, and prints the median time of some pages and requests. The
last line is the time of asking for every verdict one by one, which the list does not do.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np
from fastapi.testclient import TestClient

from multileave.live.definition import Definition
from multileave.live.http.app import create_app
from multileave.live.service import Service
from multileave.live.settings import Settings
from multileave.live.store import aggregates
from multileave.live.store.database import Store
from multileave.stats.tally.grouped_tally import GroupedTally, UnitRow, pairs_of

WORDS = ("rerankers", "synonyms", "dense retrieval", "spelling", "freshness", "query rewriting", "personalisation")
RANKERS = (2, 3, 4, 5, 8)
REPEATS = 7


def tally_of(rankers: tuple[str, ...], users: int, effects: np.ndarray, rng: np.random.Generator) -> GroupedTally:
    """Return the tally of users who prefer rankers by their effects, with noise."""
    tally = GroupedTally(rankers)
    for _ in range(users):
        credit = effects + rng.normal(0.0, 0.6, len(rankers))
        sums = pairs_of(credit[:, None] - credit[None, :])
        impressions = int(rng.integers(1, 5))
        tally.change(None, UnitRow(impressions, 1, sums))
        tally.squares = tally.squares + sums * sums / impressions
    return tally


def fill(service: Service, store: Store, count: int, seed: int = 0) -> None:
    """Create experiments, most of them stopped, with tallies as the service stores them."""
    rng = np.random.default_rng(seed)
    for n in range(count):
        rankers = ("bm25", *(f"candidate-{n}-{m}" for m in range(1, RANKERS[n % len(RANKERS)])))
        number = service.create(Definition(f"{WORDS[n % len(WORDS)].capitalize()} {n}", rankers)).number
        service.start(number)
        if n % 10:
            service.stop(number)
        effects = rng.normal(0.0, rng.choice([0.02, 0.2]), len(rankers))
        tally = tally_of(rankers, (2, 50, 200)[n % 3], effects, rng)
        with store.write() as connection:
            aggregates.lock_tallies(store, connection, number)
            aggregates.save_tallies(connection, number, json.dumps({"click": tally.to_dict()}))


def measured(call: Callable[[], object]) -> float:
    """Return the median time of a call, in milliseconds."""
    call()
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        call()
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)


def main() -> None:
    """Fill a database and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiments", type=int, default=500)
    parser.add_argument("--database", help="an empty database; SQLite in a temporary folder by default")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(database=given.database or f"sqlite:///{folder}/list.db", open=True, durable=False)
        service, store = Service(settings), Store(settings.database)
        fill(service, store, given.experiments)
        app = create_app(settings)
        app.state.service = service
        client = TestClient(app, base_url="http://127.0.0.1:8421")
        began = time.perf_counter()
        service.fold()
        print(f"summaries of a database without them   {1000 * (time.perf_counter() - began):8.1f} ms, once")
        print(f"fold with nothing new                  {measured(service.fold):8.1f} ms")
        for path in ("/", "/?page=5", "/?q=dense&status=stopped&result=winner", "/api/v1/experiments"):
            print(f"{path:38} {measured(lambda path=path: client.get(path).raise_for_status()):8.1f} ms")
        numbers = [found.number for found in service.experiments()]
        one_by_one = measured(lambda: [service.report(number).verdict for number in numbers])
        print(f"every verdict, one by one              {one_by_one:8.1f} ms")
        store.close()
        service.close()


if __name__ == "__main__":
    main()
