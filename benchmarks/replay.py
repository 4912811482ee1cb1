"""How fast a log becomes a verdict, against the time that pyarrow takes to read the same columns.

    python benchmarks/replay.py [--impressions 1000000] [--units 200000] [--folder DIR] [--scale] [--separate]

--scale replays ten times as many impressions of five times as many units as well, --separate clicks in
files of their own, of which 3 % stand there twice and 3 % come late. Each figure is the best of three.
"""

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from multileave.clicks import user
from multileave.data import synthetic
from multileave.methods import PairwisePreference
from multileave.replay import replay
from multileave.replay.simulating import LogSimulation, write_log

COLUMNS = [
    "version", "method", "rankers", "k", "pinned", "lengths", "ranks", "note", "user_id",
    "clicks.list.element.position", "clicks.list.element.action", "clicks.list.element.timestamp",
]  # fmt: skip


def best(what, times=3):
    """Return the least seconds by the clock, and by the processor, which a busy machine disturbs less."""
    clock, processor = [], []
    for _ in range(times):
        start, used = time.perf_counter(), time.process_time()
        what()
        clock.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
    return min(clock), min(processor)


def spell(mine, other):
    return (
        f"{mine[0]:.2f} s ({mine[1]:.2f} s of processor time): {mine[0] / other[0]:.2f} times "
        f"({mine[1] / other[1]:.2f} times)"
    )


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def make(folder, impressions, units, **options):
    simulation = LogSimulation(synthetic(seed=1), PairwisePreference(), user("navigational"), users=units)
    if not folder.exists():
        start = time.perf_counter()
        write_log(simulation, folder, impressions, files=4, seed=1, **options)
        print(f"  written in {time.perf_counter() - start:.1f} s")
    size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    print(f"  {impressions:,} impressions, {size / impressions:.0f} bytes each")


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
        make(joined, options.impressions, options.units)
        read = best(lambda: read_columns(joined))
        before = peak()
        verdict = replay(joined).tally().verdict()
        whole = best(lambda: replay(joined).tally().verdict())
        print(f"  read by pyarrow {read[0]:.2f} s ({read[1]:.2f} s); to a verdict {spell(whole, read)}")
        print(f"  {verdict.units:,} units; memory {before:.0f} MB after reading, {peak():.0f} MB after replaying")
        if options.separate:
            separate = base / "separate"
            make(separate, options.impressions, options.units, separate=True, duplicates=0.03, late=0.03)
            shown, clicks = separate / "impressions", separate / "clicks"
            apart = best(lambda: replay(shown, clicks=clicks).tally().verdict())
            print(f"  separate clicks {spell(apart, whole)}")
        if options.scale:
            large = base / "large"
            make(large, 10 * options.impressions, 5 * options.units)
            longer = best(lambda: replay(large).tally().verdict(), times=1)
            print(f"  ten times as many {spell(longer, whole)}; memory {peak():.0f} MB")


if __name__ == "__main__":
    main()
