"""Benchmark report: ratios measured in one run on this machine, and targets.

    python benchmarks/report.py [--out benchmarks/out] [--only PART ...] [--rounds 5] [--peers] [--grid DIR]

Writes report.md, report.json and figures, and prints a summary. Parts: twins, single, study, replay,
service, start, scaling. --peers also measures mpkato's `interleaving`, if it is installed. --grid runs the
paper's grid from an empty cache on MQ2008 and OHSUMED in DIR: minutes on two cores.
"""

import argparse
import asyncio
import dataclasses
import json
import os
import tempfile
from pathlib import Path

import measuring
import peers
import replay
import scaling
import service
import startup
import throughput
import twins
from measuring import Line, Section, Spread, command_line, markdown_table, number, tell
from multileave.data import available
from multileave.errors import DataError
from multileave.study.plots import COLOURS, STYLE, save

GRID, GRID_WANTED, GRID_DATA = "The paper's grid", 240.0, ("MQ2008", "OHSUMED")


def replay_section(rounds, impressions=200_000, units=40_000):
    """Return the part on replay, compared with a bare scan of the same columns by pyarrow."""
    tell(f"replay: a log of {impressions:,} impressions")
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base) / "joined"
        about = replay.make(folder, impressions, units)
        replay.to_verdict(folder)
        scan, whole = replay.in_turn(
            lambda: replay.read_columns(folder), lambda: replay.to_verdict(folder), times=rounds
        )
        _, memory = replay.peak(folder, "user_id")
    rows = []
    for place, what in enumerate(("wall clock", "CPU")):
        one, other = ([figures[place] for figures in side] for side in (scan, whole))
        rows.append([what, str(Spread.of(one)), str(Spread.of(other)), f"{Spread.ratio(other, one)}x"])
    text = f"A log of {about}, {units:,} users; seconds. Peak memory {memory / 2**20:.0f} MB.\n\n"
    text += markdown_table(["seconds", "pyarrow reads the columns", "replay to a verdict", "ratio"], rows)
    return Section("Replay against a bare scan", text, data={"scan": scan, "replay": whole, "memory": memory})


def service_section(rounds, seconds=1.0, connections=16):
    """Return the part on the service, compared with bare routes that validate the same and insert one row."""
    tell("service: against bare routes")
    os.environ.setdefault("MULTILEAVE_SECRET", "a secret for measuring only")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        database = f"sqlite:///{folder}/load.db"
        found = asyncio.run(service.compare(database, folder, rounds, seconds, connections))
    mine = found["ours"]
    names = {"ours": "the service", "thread": "bare, in threads", "loop": "bare, in the loop"}
    rows = []
    for name, said in names.items():
        other = found[name]
        ratio = Spread.ratio(mine["rounds"], other["rounds"])
        processor = number(mine["processor_us"] / other["processor_us"])
        rows.append(
            [said, str(Spread.of(other["rounds"])), f"{ratio}x", number(other["processor_us"]), f"{processor}x",
             number(other["p50_ms"]), number(other["p99_ms"])]
        )  # fmt: skip
    head = [
        "route", "requests per second", "service relative to it", "CPU, us each", "service relative to it",
        "p50, ms", "p99, ms",
    ]  # fmt: skip
    text = f"SQLite, {connections} connections, {rounds} rounds of {seconds:g} s in turn; wall clock.\n\n"
    return Section("Service against a bare route", text + markdown_table(head, rows), data=found)


def grid_section(folder):
    """Return the part on the paper's grid: five methods, three users, 5 and 15 rankers, 125 runs of 10,000."""
    tell("the paper's grid, from an empty cache: minutes")
    with tempfile.TemporaryDirectory() as base:
        ran = command_line(
            "study", "--data", folder, "--datasets", *GRID_DATA, "--rankers", "5", "15", "--jobs", "2",
            "--out", f"{base}/study", MULTILEAVE_CACHE_DIR=f"{base}/cache",
        )  # fmt: skip
    text = (
        f"{ran.clock:.0f} s wall clock, {ran.processor:.0f} s of CPU time in all, which is "
        f"{ran.processor / 2:.0f} s on two otherwise idle cores. The load was {os.getloadavg()[0]:.1f} at its end.\n"
    )
    line = Line.at_most("the paper's grid, cold, wall clock", Spread.of([ran.clock]), GRID_WANTED, "s")
    half = Line.at_most("the paper's grid, cold, half its CPU time", Spread.of([ran.processor / 2]), GRID_WANTED, "s")
    return Section(GRID, text, [line, half], {"clock": ran.clock, "processor": ran.processor})


def margins(lines):
    """Return a figure of the margin to every target."""
    import matplotlib
    from matplotlib.figure import Figure

    shown = [line for line in lines if line.holds is not None and line.part > 0][::-1]
    with matplotlib.rc_context(STYLE):
        drawn = Figure(figsize=(7.2, 0.6 + 0.19 * len(shown)), layout="constrained")
        axes = drawn.subplots()
        colours = [COLOURS[1] if line.holds else COLOURS[0] for line in shown]
        axes.barh(range(len(shown)), [line.part for line in shown], color=colours, height=0.65)
        axes.set_yticks(range(len(shown)), [line.what.replace("`", "") for line in shown], fontsize=6)
        axes.set_xscale("log")
        scaling.label_powers(axes.xaxis)
        axes.axvline(1, color="black", lw=0.8)
        axes.set_xlabel("times as good as required; targets left of 1 are missed")
        axes.margins(y=0.01)
    return drawn


def markdown(machine, sections, lines):
    """Return the report."""
    text = "# Benchmark report\n\n" + markdown_table(["", ""], machine)
    text += f"\n{measuring.__doc__.split(chr(10) + chr(10), 1)[1].strip()}\n"
    text += f"\n## Targets\n\n{summary(lines)}\n\n"
    text += markdown_table(["target", "measured", "required", "met"], [table_row(line) for line in lines])
    text += "\n![Margin to each target](margins.png)\n"
    return text + "".join(f"\n## {section.title}\n\n{section.text}" for section in sections)


def table_row(line):
    """Return a target as a row."""
    return [line.what, line.measured, line.wanted, line.verdict]


def summary(lines):
    """Return how many targets are met."""
    counts = [sum(line.holds is state for line in lines) for state in (True, False, None)]
    return "{} targets met, {} missed, {} not measured.".format(*counts)


def write(folder, machine, sections):
    """Write the report of some parts to a folder, and return the targets."""
    lines = [line for section in sections for line in section.lines]
    if not any(section.title == GRID for section in sections):
        wanted = f"at most {number(GRID_WANTED)} s"
        lines.append(Line.unknown("the paper's grid, cold", "only with --grid DIR", wanted))
    (folder / "margins.png").write_bytes(save(margins(lines), "png"))
    (folder / "report.md").write_text(markdown(machine, sections, lines), encoding="utf-8")
    kept = {
        "machine": dict(machine),
        "lines": [dataclasses.asdict(line) for line in lines],
        "sections": {section.title: section.data for section in sections},
    }
    (folder / "report.json").write_text(json.dumps(kept, indent=2), encoding="utf-8")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=measuring.ROOT / "benchmarks" / "out")
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0, help="longest single study of the scaling laws")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--grid", metavar="DIR")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    machine, rounds = measuring.machine(), given.rounds
    parts = {
        "twins": lambda: twins.section(rounds),
        "single": lambda: peers.section(3 * rounds, measured=given.peers),
        "study": lambda: throughput.section(rounds),
        "replay": lambda: replay_section(rounds),
        "service": lambda: service_section(rounds),
        "start": lambda: startup.section(rounds),
        "scaling": lambda: scaling.section(rounds, given.seconds, given.out / "scaling.png"),
    }
    for name in given.only:
        if name not in parts:
            parser.error(f"There is no part {name!r}; choose from {', '.join(parts)}.")
    if given.grid:
        try:
            held = {known.name for known in available(given.grid)}
        except DataError as error:
            parser.error(f"--grid: {error}")
        if not held.issuperset(GRID_DATA):
            wanted = " and ".join(GRID_DATA)
            parser.error(f"--grid {given.grid} contains {', '.join(sorted(held)) or 'no data set'}; expected {wanted}.")
    chosen = [part for name, part in parts.items() if not given.only or name in given.only]
    if given.grid:
        chosen.append(lambda: grid_section(given.grid))
    sections = []
    for part in chosen:
        sections.append(part())
        lines = write(given.out, machine, sections)  # after every part, so that an interrupted run keeps its results
    for line in lines:
        print(f"{line.verdict:12} {line.what}: {line.measured}, {line.wanted}")
    print(f"\n{summary(lines)} The report: {given.out / 'report.md'}")


if __name__ == "__main__":
    main()
