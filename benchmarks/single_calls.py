"""What one call of combine and infer costs, beside the dictionaries that reading the rankings takes at least.

    python benchmarks/single_calls.py [--json]

Each figure is the least of several rounds of many calls, in microseconds; the ratio is to
[dict(zip(r, range(len(r)))) for r in rankings], measured in the same round.
"""

import argparse
import json
import time

import numpy as np

import multileave as ml

SIZES = ((5, 100), (15, 100), (40, 100))
SPECS = ("tdm", "ppm", "sosm", "pm", "om", "bi", "pbi")


def rankings_of(rankers, documents, seed=0):
    """Return rankings that differ as real rankers do: one order, each with its own noise."""
    rng = np.random.default_rng(seed)
    rows = [np.argsort(np.arange(documents) + rng.normal(0, documents / 4, documents)) for _ in range(rankers)]
    array = np.array(rows, dtype=np.int64)
    return {f"ranker-{n}": [f"document-{d}" for d in row] for n, row in enumerate(rows)}, array


def microseconds(call, rounds=7, least=0.02):
    call()
    count, taken = 1, 0.0
    while True:
        start = time.perf_counter()
        for _ in range(count):
            call()
        taken = time.perf_counter() - start
        if taken > least:
            break
        count *= 2
    best = taken / count
    for _ in range(rounds - 1):
        start = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, (time.perf_counter() - start) / count)
    return best * 1e6


def measure():
    records = []
    for rankers, documents in SIZES:
        lists, array = rankings_of(rankers, documents)
        values = list(lists.values())
        floor = microseconds(lambda v=values: [dict(zip(r, range(len(r)))) for r in v])  # noqa: B905
        for spec in SPECS:
            method = ml.get_method(spec)
            if method.most_rankers:
                lists_in = dict(list(lists.items())[: method.most_rankers])
                array_in = array[: method.most_rankers]
            else:
                lists_in, array_in = lists, array
            if method.most_rankers and rankers > 5:
                continue
            impression = method.combine(lists_in, 10, seed=1)
            clicks = [impression.shown[1], impression.shown[4]]
            records.append(
                {
                    "method": spec,
                    "rankers": len(lists_in),
                    "dictionaries": floor * len(lists_in) / rankers,
                    "combine_lists": microseconds(lambda m=method, r=lists_in: m.combine(r, 10, seed=1)),
                    "combine_array": microseconds(lambda m=method, r=array_in: m.combine(r, 10, seed=1)),
                    "infer": microseconds(lambda i=impression, c=clicks: ml.infer(i, c)),
                }
            )
    return records


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    records = measure() if (arguments := parser.parse_args()) else []
    if arguments.json:
        print(json.dumps(records, indent=2))
        return
    print("microseconds per call, 100 documents per ranking, k=10\n")
    print("method  rankers  dictionaries  combine lists  ratio  combine array   infer")
    for r in records:
        print(
            f"{r['method']:<7} {r['rankers']:>7} {r['dictionaries']:>13.1f} {r['combine_lists']:>14.1f} "
            f"{r['combine_lists'] / r['dictionaries']:>6.2f} {r['combine_array']:>14.1f} {r['infer']:>7.1f}"
        )


if __name__ == "__main__":
    main()
