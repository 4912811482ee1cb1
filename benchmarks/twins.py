"""The gain from compiled kernels: draw and credit, single calls and in bulk, compared with naive twins.

    python benchmarks/twins.py [--rounds 5]

The twin of everything is the same code as plain Python (NUMBA_DISABLE_JIT=1, in a second process that takes
turns with this one). Credit has a second twin, the method's definition in Fractions; the definition of a draw
enumerates all possible lists, which is infeasible for a page of ten. In bulk, the study's loop runs users who
never click, which is the draw, and users who click everything relevant; credit is the difference.
"""

import argparse
import json
import os
import subprocess
import sys

import multileave as ml
from measuring import Section, Spread, markdown_table, microseconds_in_turn, number, tell
from multileave.clicks import Cascade
from multileave.data import synthetic
from multileave.study import Simulation
from single_calls import SPECS, rankings_of

K, DOCUMENTS, BATCH = 10, 100, 1000
FIGURES = ("draw, one call", "credit, one call", "draw, bulk", "credit, bulk")
BLIND = Cascade(click=(0.0,) * 5, stop=(0.0,) * 5)
EAGER = Cascade(click=(0.0, 1.0, 1.0, 1.0, 1.0), stop=(0.0,) * 5)


class Calls:
    """The four calls of a method; a batch is that many impressions of the study's loop."""

    def __init__(self, spec, rankers, batch):
        self.method = method = ml.get_method(spec)
        rankers = min(rankers, method.most_rankers or rankers)
        _, self.array = rankings_of(rankers, DOCUMENTS)
        self.impression = method.combine(self.array, K, seed=1)
        self.clicks = [1, 4]
        data = synthetic(queries=20, documents=DOCUMENTS, rankers=rankers, seed=1)
        loops = [Simulation(data, method, user, k=K, seed=1) for user in (BLIND, EAGER)]
        self.batch = batch
        self.all = [
            lambda: method.combine(self.array, K, seed=1),
            lambda: ml.infer(self.impression, positions=self.clicks),
            *(lambda loop=loop: loop.run(batch) for loop in loops),
        ]
        for call in self.all:
            call()

    def microseconds(self, least):
        """Return one round's figures."""
        (draw,), (credit,), (blind,), (eager,) = microseconds_in_turn(self.all, 1, least)
        return [draw, credit, blind / self.batch, (eager - blind) / self.batch]

    def definition(self):
        """Infer by the definition, in Fractions."""
        found = self.impression
        rankings = tuple(map(tuple, self.array.tolist()))
        note = tuple(found.note.tolist())
        return self.method.score(rankings, found.shown + found.hidden, note, self.clicks, K)


class PlainPython:
    """A process that measures the same calls without compiling."""

    def __init__(self):
        environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
        command = [sys.executable, __file__, "--serve"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def microseconds(self, *question):
        """Return one round's figures of a method."""
        print(json.dumps(question), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())


def serve():
    """Answer a `PlainPython`."""
    known = {}
    for line in sys.stdin:
        spec, rankers = json.loads(line)
        if (spec, rankers) not in known:
            known[spec, rankers] = Calls(spec, rankers, batch=1 if spec == "om" else 20)
        print(json.dumps(known[spec, rankers].microseconds(0.01)), flush=True)


def measure(rankers=5, rounds=5):
    """Yield for every method the rounds of its figures: compiled, as plain Python, and by definition."""
    with PlainPython() as plain:
        for spec in SPECS:
            tell(f"twins: {spec}")
            calls = Calls(spec, rankers, BATCH)
            found = {"method": spec, "ours": [], "plain": [], "definition": []}
            for _ in range(rounds):
                found["ours"].append(calls.microseconds(0.01))
                found["plain"].append(plain.microseconds(spec, rankers))
                found["definition"] += microseconds_in_turn([calls.definition], 1, 0.005)[0]
            yield found


def spell(ours, plain):
    """Return a figure with its ratio; a difference of two times may be lost in noise."""
    if min(*ours, *plain) <= 0:
        return "lost in the noise of the draw"
    return f"{number(Spread.of(ours).median)} us, {Spread.ratio(plain, ours)}x"


def section(rounds):
    """Return the part of the report on twins."""
    data = list(measure(rounds=rounds))
    rows = []
    for record in data:
        columns = [list(zip(*record[side], strict=True)) for side in ("ours", "plain")]
        credit = columns[0][1]
        row = [record["method"], *(spell(ours, plain) for ours, plain in zip(*columns, strict=True))]
        rows.append([*row, f"{Spread.ratio(record['definition'], credit)}x"])
    head = ["method", *FIGURES, "credit, one call, against the definition"]
    text = (
        f"5 rankers (bi, pbi: 2) of {DOCUMENTS} documents, k={K}. Microseconds, and how many times faster than the "
        "twin: the same code as plain Python. In the last column the twin is the definition in Fractions.\n\n"
    )
    return Section("Draw and credit against naive twins", text + markdown_table(head, rows), data=data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve()
    else:
        print(section(given.rounds).text)


if __name__ == "__main__":
    main()
