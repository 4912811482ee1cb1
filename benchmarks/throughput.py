"""The cost of a simulated impression, compared with C and with the authors' loop, and in two processes.

python benchmarks/throughput.py [--rounds 5]
"""

import argparse
import itertools
import multiprocessing
import tempfile
import time

from limit.limit import INSTALL, TARGETS, NoCompilerError, compile_limit
from limit.limit import measure as against_c
from measuring import Line, Section, Spread, markdown_table, number, tell
from multileave.clicks import user
from multileave.data import synthetic
from multileave.study import Simulation
from study_speed import METHODS
from study_speed import measure as impressions_of

RANKERS = (5, 15, 40)
# Microseconds per impression of the loop that the paper's authors published, on two shared cores, at 5, 15 and
# 40 rankers (om: only 5), as this project's requirements state them; and how many times faster we must be.
AUTHORS = {
    "tdm": ((181, 234, 181), 150),
    "pm": ((2_194, 13_851, 62_902), 1_000),
    "sosm": ((205, 176, 207), 150),
    "ppm": ((1_291, 1_341, 1_170), 1_000),
    "om": ((13_180,), 300),
}
PROCESSES_WANTED = 1.8
BARE_STEPS = 8_000_000


def limit_part(rounds):
    """Return the table against C, and its targets."""
    lines, records = [], []
    with tempfile.TemporaryDirectory() as folder:
        try:
            loop = compile_limit(folder)
        except NoCompilerError:
            why = f"there is no gcc: {INSTALL}"
            return (
                "",
                [Line.unknown(f"ppm against C, {r} rankers", why, f"at most {TARGETS[r]} x") for r in RANKERS],
                [],
            )
        for rankers in RANKERS:
            tell(f"study: against C, {rankers} rankers")
            record = against_c(loop, rankers, repetitions=20 * rounds, impressions=5_000)
            records.append(record)
            ratio = Spread(record["ratio"], *record["ratio_quartiles"])
            lines.append(Line.at_most(f"ppm study loop against C, {rankers} rankers", ratio, TARGETS[rankers]))
    rows = [
        [r["rankers"], number(r["engine_us"]), number(r["c_us"]), line.measured]
        for r, line in zip(records, lines, strict=True)
    ]
    text = (
        f"ppm against the C program of `benchmarks/limit`, one thread, {20 * rounds} slices of 5,000 impressions in "
        "turn: the minimum in microseconds, and the median of the slices' ratios (quartiles).\n\n"
    )
    return text + markdown_table(["rankers", "us", "C, us", "ratio"], rows), lines, records


def authors_part(rounds):
    """Return microseconds by method and rankers, and the targets against the authors' loop."""
    found = {}
    for rankers in RANKERS:
        tell(f"study: all methods, {rankers} rankers")
        found[rankers] = impressions_of(rankers, rounds=3 * rounds)
    rows = [[method, *(f"{Spread.of(found[rankers][method])}" for rankers in RANKERS)] for method in METHODS]
    lines = []
    for method, (theirs, wanted) in AUTHORS.items():
        for rankers, figure in zip(RANKERS, theirs, strict=False):
            ratio = Spread.highest([figure / ours for ours in found[rankers][method]])
            lines.append(
                Line.at_least(
                    f"{method} study loop against the authors' {figure:,} us, {rankers} rankers", ratio, wanted
                )
            )
    text = (
        "Microseconds of CPU time per impression for draw, clicks and credit; 2,000 queries of 125 documents, k=10, "
        "navigational users. The authors' figures are not measured here; these targets use our quickest round.\n\n"
    )
    return text + markdown_table(["method", *(f"{r} rankers" for r in RANKERS)], rows), lines, found


def simulate(job):
    """Simulate in a worker; return its CPU time."""
    rankers, impressions = job
    simulation = WORKER.get(rankers)
    if simulation is None:
        data = synthetic(queries=2000, documents=125, rankers=rankers, seed=1)
        simulation = WORKER[rankers] = Simulation(data, "ppm", user("navigational"), seed=1)
    start = time.process_time()
    simulation.run(impressions)
    return time.process_time() - start


WORKER = {}


def count(steps):
    """Run a bare loop in a worker."""
    for _ in range(steps):
        pass


def of_two(one, other, work, argument):
    """Return how much more two workers do than one in the same wall-clock time, and what the work returned."""
    start = time.perf_counter()
    alone = one.apply(work, (argument,))
    alone_clock = time.perf_counter() - start
    start = time.perf_counter()
    both = [pool.apply_async(work, (argument,)) for pool in (one, other)]
    returned = [answer.get() for answer in both]
    return 2 * alone_clock / (time.perf_counter() - start), alone, returned


def processes_part(rounds, rankers=15, impressions=400_000):
    """Return how much more two processes do than one, by wall clock and by CPU time."""
    context = multiprocessing.get_context("spawn")
    clock, processor, bare = [], [], []
    tell("study: two processes against one")
    with context.Pool(1) as one, context.Pool(1) as other:
        for pool in (one, other):
            pool.apply(simulate, ((rankers, impressions),))
        for _ in range(4 * rounds):
            ratio, alone, used = of_two(one, other, simulate, (rankers, impressions))
            clock.append(ratio)
            processor.append(2 * alone / max(used))
            bare.append(of_two(one, other, count, BARE_STEPS)[0])
    by_clock, by_processor = Spread.of(clock), Spread.of(processor)
    text = (
        f"Two processes do {by_clock} times the work of one by wall clock, where other work on the machine counts, and "
        f"{by_processor} times by the CPU time that an impression takes alone and next to another "
        f"(ppm, {rankers} rankers, {impressions:,} impressions each). In the same rounds two processes do "
        f"{Spread.of(bare)} times as many steps of a bare loop, which is the machine's limit.\n"
    )
    lines = [
        Line.at_least("two processes against one, wall clock", by_clock, PROCESSES_WANTED),
        Line.at_least("two processes against one, CPU time", by_processor, PROCESSES_WANTED),
    ]
    return text, lines, {"clock": clock, "processor": processor, "bare": bare}


def section(rounds):
    """Return the part of the report on studies."""
    parts = [authors_part(rounds), limit_part(rounds), processes_part(rounds)]
    texts, lines, data = zip(*parts, strict=True)
    keys = ("microseconds", "limit", "processes")
    return Section("Studies", "\n".join(texts), [*itertools.chain(*lines)], dict(zip(keys, data, strict=True)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    print(section(parser.parse_args().rounds).text)


if __name__ == "__main__":
    main()
