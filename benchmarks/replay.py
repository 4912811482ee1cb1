"""Time from a log to a verdict, compared with the time pyarrow takes to read the same columns.

    python benchmarks/replay.py [--impressions 1000000] [--units 200000] [--folder DIR] [--scale] [--separate]

--scale also replays ten times as many impressions of five times as many units; --separate also replays clicks
from separate files, 3 % of them repeated and 3 % late. Each figure is the median of several. Things that are
compared are measured in turn, because the machine may be busy. Memory is the peak of a separate process; the
memory per unit is the difference between a million users and a thousand queries as units of the same log.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from measuring import python
from multileave.clicks import user
from multileave.data import synthetic
from multileave.methods import PairwisePreference
from multileave.replay import replay
from multileave.replay.simulating import LogSimulation, write_log

COLUMNS = [
    "version", "method", "rankers", "k", "pinned", "lengths", "ranks", "note", "user_id", "impression_id",
    "clicks.list.element.position", "clicks.list.element.action", "clicks.list.element.timestamp",
]  # fmt: skip


def in_turn(*what, times=5):
    """Return for each function its wall-clock and CPU seconds, round by round."""
    seconds = [[] for _ in what]
    for _ in range(times):
        for function, found in zip(what, seconds, strict=True):
            start, used = time.perf_counter(), time.process_time()
            function()
            found.append((time.perf_counter() - start, time.process_time() - used))
    return seconds


def medians(*what, times=5):
    """Return for each function the median of its wall-clock and CPU seconds."""
    rounds = in_turn(*what, times=times)
    return [tuple(statistics.median(column) for column in zip(*found, strict=True)) for found in rounds]


def to_verdict(folder):
    """Replay a log to its verdict."""
    return replay(folder).tally().verdict()


def spell(mine, other):
    return (
        f"{mine[0]:.2f} s ({mine[1]:.2f} s of CPU time): {mine[0] / other[0]:.2f} times "
        f"({mine[1] / other[1]:.2f} times)"
    )


CHILD = """
import sys
from multileave.replay import replay
tally = replay(sys.argv[1], unit=sys.argv[2]).tally()
tally.verdict()
print(tally.units)
"""


def peak(folder, unit):
    """Return the units of a log, and the peak memory in bytes of a process that replays it."""
    ran = python(CHILD, folder, unit)
    return int(ran.output), int(ran.memory * 2**20)


def make(folder, impressions, units, **options):
    simulation = LogSimulation(synthetic(seed=1), PairwisePreference(), user("navigational"), users=units)
    if not folder.exists():
        start = time.perf_counter()
        write_log(simulation, folder, impressions, files=4, seed=1, **options)
        print(f"  written in {time.perf_counter() - start:.1f} s", file=sys.stderr)
    size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    return f"{impressions:,} impressions, {size / impressions:.0f} bytes each"


def read_columns(folder):
    for path in sorted(folder.rglob("*.parquet")):
        pq.ParquetFile(path).read(columns=COLUMNS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--impressions", type=int, default=1_000_000)
    parser.add_argument("--units", type=int, default=200_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--scale", action="store_true")
    parser.add_argument("--separate", action="store_true")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, pyarrow {pa.__version__}")
    with tempfile.TemporaryDirectory() as temporary:
        base = options.folder or Path(temporary)
        joined = base / "joined"
        print("  " + make(joined, options.impressions, options.units))
        to_verdict(joined)
        read, whole = medians(lambda: read_columns(joined), lambda: to_verdict(joined))
        print(f"  read by pyarrow {read[0]:.2f} s ({read[1]:.2f} s); to a verdict {spell(whole, read)}")
        plain, rated = medians(lambda: replay(joined, rates=False).tally().verdict(), lambda: to_verdict(joined))
        print(f"  with rates, compared with replay without {spell(rated, plain)}")
        if options.separate:
            separate = base / "separate"
            print("  " + make(separate, options.impressions, options.units, separate=True, duplicates=0.03, late=0.03))
            shown, clicks = separate / "impressions", separate / "clicks"
            whole, apart = medians(
                lambda: to_verdict(joined),
                lambda: replay(shown, clicks=clicks).tally().verdict(),
                times=3,
            )
            print(f"  separate clicks {spell(apart, whole)}")
        if options.scale:
            large = base / "large"
            print("  " + make(large, 10 * options.impressions, 5 * options.units))
            whole, longer = medians(lambda: to_verdict(joined), lambda: to_verdict(large), times=3)
            print(f"  ten times as many {spell(longer, whole)}")
            (few, small), (many, big) = peak(large, "query"), peak(large, "user_id")
            print(
                f"  memory {small / 2**20:.0f} MB for {few:,} units, {big / 2**20:.0f} MB for {many:,}: "
                f"{(big - small) / (many - few):.0f} bytes per unit"
            )


if __name__ == "__main__":
    main()
