"""Start-up costs: import, help, the demo, compiling cold and warm; and the peak memory of each.

    python benchmarks/startup.py [--rounds 5]

Every figure is from a separate process: CPU time and wall-clock time.
"""

import argparse
import json
import tempfile

from measuring import Line, Section, Spread, command_line, markdown_table, number, python, tell

IMPORT = """
import sys, time
start = time.process_time()
__import__(sys.argv[1])
print(time.process_time() - start)
"""

# A small ppm study that records which functions Numba compiles and, uncompiled, which of ours are called.
STUDY = """
import json, os, sys, tempfile
from pathlib import Path
import multileave
ours = os.path.dirname(multileave.__file__)
found = set()
def keep(code):
    if code.co_filename.startswith(ours):
        found.add(f"{Path(code.co_filename).relative_to(ours)}: {code.co_name}")
if os.environ.get("NUMBA_DISABLE_JIT"):
    def watch(frame, event, argument):
        if event == "call":
            keep(frame.f_code)
else:
    from numba.core import event
    class Listener(event.Listener):
        def on_start(self, event): pass
        def on_end(self, event): keep(event.data["dispatcher"].py_func.__code__)
    event.register("numba:compile", Listener())
from multileave.data import synthetic_fold
from multileave.study import runner
from multileave.study.settings import Settings
runner.open_fold = lambda *_: synthetic_fold(queries=(10, 5), documents=20, rankers=5)  # quick when uncompiled
settings = Settings(methods=("ppm",), users=("navigational",), rankers=(5,), runs=1, folds=(1,), impressions=200)
with tempfile.TemporaryDirectory() as folder:
    if os.environ.get("NUMBA_DISABLE_JIT"):
        sys.setprofile(watch)
    runner.run_study(settings, folder)
    sys.setprofile(None)
print(json.dumps(sorted(found)))
"""

COMPILE = """
import sys, time
from multileave.clicks import user
from multileave.data import synthetic
from multileave.study import Simulation
data = synthetic(queries=2, documents=20, seed=1)
start = time.process_time()
Simulation(data, sys.argv[1], user("navigational"), seed=1).compile()
print(time.process_time() - start)
"""


def imports(rounds):
    """Return the spread of the ratio of import multileave to import numpy, and the rows of a table."""
    found = {name: [python(IMPORT, name) for _ in range(rounds)] for name in ("numpy", "multileave")}
    inside = {name: [float(ran.output) for ran in runs] for name, runs in found.items()}
    rows = [row(f"`import {name}`", found[name], inside[name]) for name in found]
    return Spread.ratio(inside["multileave"], inside["numpy"]), rows


def row(what, runs, seconds=None):
    """Return a row of the table: CPU time, wall-clock time, peak memory."""
    processor = Spread.of(seconds or [ran.processor for ran in runs])
    clock = Spread.of([ran.clock for ran in runs])
    return [what, str(processor), str(clock), number(max(ran.memory for ran in runs))]


def compiling(methods=("ppm", "om")):
    """Return rows on the methods' study loops, compiled and then loaded from the cache."""
    rows = []
    for method in methods:
        tell(f"start: compile {method}")
        with tempfile.TemporaryDirectory() as cache:
            for state in ("compiled", "from the cache"):
                ran = python(COMPILE, method, MULTILEAVE_CACHE_DIR=cache)
                rows.append(row(f"{method}'s study loop, {state}", [ran], [float(ran.output)]))
    return rows


def unused_kernels():
    """Return the kernels that a cold ppm study compiles, and those of them that it never calls."""
    tell("start: which kernels a cold ppm study compiles")
    with tempfile.TemporaryDirectory() as cache:
        compiled = json.loads(python(STUDY, MULTILEAVE_CACHE_DIR=cache).output)
        called = json.loads(python(STUDY, MULTILEAVE_CACHE_DIR=cache, NUMBA_DISABLE_JIT="1").output)
    return compiled, sorted(set(compiled) - set(called))


def section(rounds):
    """Return the part of the report on start-up."""
    tell("start: imports and help")
    ratio, rows = imports(2 * rounds)
    helped = [command_line("--help") for _ in range(rounds)]
    rows.append(row("`multileave --help`", helped))
    with tempfile.TemporaryDirectory() as cache:
        demos = []
        for state in ("first", "second"):
            tell(f"start: {state} demo")
            demos.append(command_line("demo", MULTILEAVE_CACHE_DIR=cache))
            rows.append(row(f"`multileave demo`, {state} run", demos[-1:]))
    rows += compiling()
    compiled, unused = unused_kernels()
    lines = [
        Line.at_most("`import multileave` against `import numpy`", ratio, 1.5),
        Line.at_most("`multileave --help`, CPU time", Spread.of([ran.processor for ran in helped]), 0.5, "s"),
        Line.at_most("`multileave demo`, first run, CPU time", Spread.of([demos[0].processor]), 40.0, "s"),
        Line.at_most("`multileave demo`, second run, CPU time", Spread.of([demos[1].processor]), 10.0, "s"),
        Line(
            "kernels that a cold ppm study compiles and does not use",
            ", ".join(unused) or f"none of {len(compiled)}",
            "none",
            not unused,
            float(not unused),
        ),
    ]
    listed = ", ".join(f"`{name}`" for name in compiled)
    text = (
        markdown_table(["what", "CPU, s", "wall clock, s", "peak memory, MB"], rows)
        + f"\nFor imports and loops, the wall clock covers the whole process. A cold study of ppm compiles {listed}.\n"
    )
    return Section("Start-up, compile times and memory", text, lines, {"compiled": compiled, "unused": unused})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    found = section(parser.parse_args().rounds)
    print(found.text, *found.lines, sep="\n")


if __name__ == "__main__":
    main()
