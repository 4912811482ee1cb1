"""How close the compiled study loop of ppm comes to plain C.

    python benchmarks/limit/limit.py [--rankers 5 15 40] [--repetitions 500] [--impressions 5000] [--json]

`ppm.c` is compiled on the spot with gcc and fed the engine's own packed data. Both sides take turns on
slices of the same impressions. Times are CPU times of the thread, so other work on the machine does not count;
a figure is the minimum of all slices, the ratio the median of those of neighbouring slices, with quartiles.
"""

import argparse
import ctypes
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from multileave.clicks import user
from multileave.data import synthetic
from multileave.methods.base import get_method
from multileave.random import seed_state
from multileave.study.engine import Simulation, pack

SOURCE = Path(__file__).with_name("ppm.c")
INSTALL = "apt-get install gcc"
TARGETS = {5: 1.3, 15: 1.3, 40: 1.5}  # the largest allowed ratio of the engine's time to C's


class NoCompilerError(Exception):
    """There is no gcc."""


def compile_limit(folder):
    """Return the C loop, compiled into a folder, as a function of `Limit.run`'s arguments."""
    gcc = shutil.which("gcc")
    if gcc is None:
        raise NoCompilerError(f"there is no gcc here, and the limit is a C program. Install it: {INSTALL}")
    library = Path(folder) / "ppm.so"
    subprocess.run(
        [gcc, "-O3", "-march=native", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", SOURCE, "-o", library],
        check=True,
    )
    loop = ctypes.CDLL(str(library)).simulate
    number, array = ctypes.c_int64, np.ctypeslib.ndpointer
    integers, longs, floats = (array(kind, flags="C") for kind in (np.int32, np.int64, np.float64))
    words = array(np.uint64, flags="C,W")
    loop.argtypes = [number, integers, integers, longs, number, number, number, floats, number, words, floats]
    return loop


class Limit:
    """The C loop on packed data: what `Simulation` is for ppm with a cascade user who stops after clicks."""

    def __init__(self, loop, packed, rankers, model, k, seed):
        if model.anywhere:
            raise ValueError("the C user stops only after a click")
        self.loop, self.packed, self.rankers, self.model, self.k = loop, packed, rankers, model, k
        self.rng = seed_state(seed)
        self.total = np.zeros(rankers)

    def run(self, impressions):
        """Simulate that many more impressions."""
        blocks, rows, starts = self.packed.blocks, self.packed.rows, self.packed.starts
        chances = np.array([*self.model.click, *self.model.stop])
        refused = self.loop(
            impressions, blocks, rows, starts, len(starts), self.rankers, self.k, chances, self.model.grades,
            self.rng, self.total,
        )  # fmt: skip
        if refused:
            raise ValueError(f"the C program has no room for {self.rankers} rankers and k={self.k}")


def seconds(run, impressions):
    start = time.thread_time()
    run(impressions)
    return time.thread_time() - start


def measure(loop, rankers, repetitions, impressions):
    """Return one record: microseconds per impression of both, and the ratio with its quartiles."""
    data = synthetic(queries=2000, documents=125, rankers=rankers, seed=1)
    method, model, k = get_method("ppm"), user("navigational", 5), 10
    packed = pack(data, method, k)
    engine = Simulation(data, method, model, k=k, seed=1, packed=packed)
    limit = Limit(loop, packed, rankers, model, k, seed=1)
    engine.compile()
    times = []
    for _ in range(repetitions + 1):
        times.append((seconds(engine.run, impressions), seconds(limit.run, impressions)))
    credits = limit.total[:, None] - limit.total[None, :]
    if not np.array_equal(engine._rng, limit.rng) or not np.allclose(engine.preferences, credits, rtol=1e-9, atol=1e-6):
        raise SystemExit("the C program and the engine disagree; tests/study/test_limit.py says where")
    taken = np.array(times[1:]) * 1e6 / impressions  # the first slice warms the caches
    low, middle, high = np.quantile(taken[:, 0] / taken[:, 1], [0.25, 0.5, 0.75])
    return {
        "rankers": rankers,
        "engine_us": float(taken[:, 0].min()),
        "c_us": float(taken[:, 1].min()),
        "ratio": float(middle),
        "ratio_of_least": float(taken[:, 0].min() / taken[:, 1].min()),
        "ratio_quartiles": [float(low), float(high)],
        "target": TARGETS.get(rankers),
        "repetitions": repetitions,
        "impressions": impressions,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rankers", type=int, nargs="+", default=list(TARGETS))
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--impressions", type=int, default=5_000, help="impressions per slice")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            loop = compile_limit(folder)
        except NoCompilerError as error:
            sys.exit(str(error))
        records = [measure(loop, r, arguments.repetitions, arguments.impressions) for r in arguments.rankers]
    if arguments.json:
        print(json.dumps(records, indent=2))
        return
    print("ppm, 2,000 queries of 125 documents, k=10, navigational user; us per impression, minimum over slices\n")
    print("rankers  engine       C   ratio [quartiles]     target")
    for r in records:
        low, high = r["ratio_quartiles"]
        print(
            f"{r['rankers']:>7} {r['engine_us']:>7.3f} {r['c_us']:>7.3f} {r['ratio']:>7.2f} [{low:.2f}, {high:.2f}]"
            f"{r['target'] or '':>10}"
        )


if __name__ == "__main__":
    main()
