"""The cost of one simulated impression, by method and number of rankers, compared with ppm in the same run.

    python benchmarks/study_speed.py [--json]

Synthetic data, 2,000 queries of 125 documents, k=10, navigational users; CPU time, the minimum of
several rounds.
"""

import argparse
import json

from measuring import seconds_of
from multileave.clicks import user
from multileave.data import synthetic
from multileave.study import Simulation

METHODS = ("tdm", "om", "pm", "sosm", "ppm", "ppm(pairs='all')", "dpm", "dpm(depth='linear')", "opm", "rpm")


def measure(rankers, methods=METHODS, rounds=7):
    """Return for every method the microseconds per impression, round by round."""
    data = synthetic(queries=2000, documents=125, rankers=rankers, seed=1)
    loops = {m: Simulation(data, m, user("navigational"), seed=1) for m in methods}
    found = {m: [] for m in methods}
    for loop in loops.values():
        loop.run(1000)
    for _ in range(rounds):  # in turn, so that a busy moment of the machine affects all alike
        for method, loop in loops.items():
            count = 4_000 if method == "om" else 40_000
            found[method].append(seconds_of(lambda run=loop.run, count=count: run(count)) / count * 1e6)
    return found


def least(rankers):
    """Return the minimum over rounds."""
    return {method: min(rounds) for method, rounds in measure(rankers).items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    as_json = parser.parse_args().json
    found = {rankers: least(rankers) for rankers in (5, 15, 40)}
    if as_json:
        print(json.dumps(found, indent=2))
        return
    print("microseconds per impression (ratio to ppm)\n")
    print(f"{'method':<22}" + "".join(f"{f'{rankers} rankers':>18}" for rankers in found))
    for method in METHODS:
        cells = [f"{best[method]:.2f} ({best[method] / best['ppm']:.2f})" for best in found.values()]
        print(f"{method:<22}" + "".join(f"{cell:>18}" for cell in cells))


if __name__ == "__main__":
    main()
