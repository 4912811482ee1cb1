"""The cost of one call of combine and infer, compared with reading the rankings into dictionaries.

    python benchmarks/single_calls.py [--json]

Each figure is the minimum of several rounds of many calls, in microseconds of CPU time; the ratio is
to [dict(zip(r, range(len(r)))) for r in rankings], measured in the same rounds.
"""

import argparse
import json

import numpy as np

import multileave as ml
from measuring import microseconds_in_turn

SIZES = ((5, 100), (15, 100), (40, 100))
CLICKED = (0, 2, 4, 6)  # positions
SPECS = ("tdm", "rpm", "dpm", "opm", "ppm", "sosm", "pm", "om", "bi", "pbi")


def rankings_of(rankers, documents, seed=0):
    """Return rankings that differ as real rankers do: one order, each with its own noise."""
    rng = np.random.default_rng(seed)
    rows = [np.argsort(np.arange(documents) + rng.normal(0, documents / 4, documents)) for _ in range(rankers)]
    array = np.array(rows, dtype=np.int64)
    return {f"ranker-{n}": [f"document-{d}" for d in row] for n, row in enumerate(rows)}, array


def measure(sizes=SIZES, rounds=15, beside=None):
    """Yield for every size and method the microseconds of each call, round by round.

    beside: returns, for a method, rankings of strings and rankings of integers, other calls by name to measure in the
    same rounds.
    """
    for rankers, documents in sizes:
        lists, array = rankings_of(rankers, documents)
        for spec in SPECS:
            method = ml.get_method(spec)
            taken = min(rankers, method.most_rankers or rankers)
            if method.most_rankers and rankers > sizes[0][0]:
                continue
            lists_in, array_in = dict(list(lists.items())[:taken]), array[:taken]
            values, integers = list(lists_in.values()), array_in.tolist()
            impression = method.combine(lists_in, 10, seed=1)
            clicks = [impression.shown[position] for position in CLICKED]
            calls = {
                "dictionaries": lambda v=values: [dict(zip(r, range(len(r)))) for r in v],  # noqa: B905
                "combine_lists": lambda m=method, r=lists_in: m.combine(r, 10, seed=1),
                "combine_integers": lambda m=method, r=integers: m.combine(r, 10, seed=1),
                "combine_array": lambda m=method, r=array_in: m.combine(r, 10, seed=1),
                "infer": lambda i=impression, c=clicks: ml.infer(i, c),
                **(beside(spec, values, integers) if beside else {}),
            }
            found = dict(zip(calls, microseconds_in_turn(calls.values(), rounds), strict=True))
            yield {"method": spec, "rankers": taken, **found}


def least():
    """Yield the records with the minimum over rounds for each figure."""
    for record in measure():
        yield {key: min(value) if isinstance(value, list) else value for key, value in record.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    if parser.parse_args().json:
        print(json.dumps(list(least()), indent=2))
        return
    print("microseconds per call, 100 documents per ranking, k=10\n")
    print("method  rankers  dictionaries  combine lists  ratio  of integers  combine array   infer")
    for r in least():
        print(
            f"{r['method']:<7} {r['rankers']:>7} {r['dictionaries']:>13.1f} {r['combine_lists']:>14.1f} "
            f"{r['combine_lists'] / r['dictionaries']:>6.2f} {r['combine_integers']:>12.1f} "
            f"{r['combine_array']:>14.1f} {r['infer']:>7.1f}"
        )


if __name__ == "__main__":
    main()
