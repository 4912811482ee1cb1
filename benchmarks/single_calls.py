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
SPECS = ("tdm", "dpm", "opm", "ppm", "sosm", "pm", "om", "bi", "pbi")


def rankings_of(rankers, documents, seed=0):
    """Return rankings that differ as real rankers do: one order, each with its own noise."""
    rng = np.random.default_rng(seed)
    rows = [np.argsort(np.arange(documents) + rng.normal(0, documents / 4, documents)) for _ in range(rankers)]
    array = np.array(rows, dtype=np.int64)
    return {f"ranker-{n}": [f"document-{d}" for d in row] for n, row in enumerate(rows)}, array


def microseconds(*calls, rounds=150, least=0.001):
    """Return the least time of each call, measured in turn so that a busy moment of the machine hits all alike.

    Rounds are many and short, as on a busy machine only a short one passes without interruption.
    """
    counts = []
    for call in calls:
        call()  # compiled code is loaded at the first
        count = 1
        while True:
            taken = once(call, count)
            if taken > least:
                break
            count *= 2
        counts.append(count)
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        for i, (call, count) in enumerate(zip(calls, counts, strict=True)):
            best[i] = min(best[i], once(call, count) / count * 1e6)
    return best


def once(call, count):
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start


def measure():
    for rankers, documents in SIZES:
        lists, array = rankings_of(rankers, documents)
        for spec in SPECS:
            method = ml.get_method(spec)
            taken = min(rankers, method.most_rankers or rankers)
            if method.most_rankers and rankers > SIZES[0][0]:
                continue
            lists_in, array_in = dict(list(lists.items())[:taken]), array[:taken]
            values = list(lists_in.values())
            impression = method.combine(lists_in, 10, seed=1)
            clicks = [impression.shown[1], impression.shown[4]]
            floor, from_lists, from_array, infer = microseconds(
                lambda v=values: [dict(zip(r, range(len(r)))) for r in v],  # noqa: B905
                lambda m=method, r=lists_in: m.combine(r, 10, seed=1),
                lambda m=method, r=array_in: m.combine(r, 10, seed=1),
                lambda i=impression, c=clicks: ml.infer(i, c),
            )
            yield {
                "method": spec, "rankers": taken, "dictionaries": floor,
                "combine_lists": from_lists, "combine_array": from_array, "infer": infer,
            }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    if parser.parse_args().json:
        print(json.dumps(list(measure()), indent=2))
        return
    print("microseconds per call, 100 documents per ranking, k=10\n")
    print("method  rankers  dictionaries  combine lists  ratio  combine array   infer")
    for r in measure():
        print(
            f"{r['method']:<7} {r['rankers']:>7} {r['dictionaries']:>13.1f} {r['combine_lists']:>14.1f} "
            f"{r['combine_lists'] / r['dictionaries']:>6.2f} {r['combine_array']:>14.1f} {r['infer']:>7.1f}"
        )


if __name__ == "__main__":
    main()
