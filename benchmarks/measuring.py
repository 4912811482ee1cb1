"""What the parts of the report share: figures over rounds, targets, and a description of the machine.

Times are CPU times unless stated otherwise, so other work on the machine does not count. Things that are
compared are measured in turn, round after round; a figure is the median of its rounds with their range, a
ratio the median of the ratios within each round.
"""

import importlib.metadata
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Spread:
    """The median of some rounds, with the smallest and the largest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, rounds):
        """Return the spread of a figure's rounds."""
        return cls(statistics.median(rounds), min(rounds), max(rounds))

    @classmethod
    def highest(cls, rounds):
        """Return the spread of a ratio to an external figure, by our best round: other work only adds time."""
        return cls(max(rounds), min(rounds), max(rounds))

    @classmethod
    def ratio(cls, above, below):
        """Return the spread of the ratios of two figures that were measured in the same rounds."""
        return cls.of([a / b for a, b in zip(above, below, strict=True)])

    def __str__(self):
        return f"{number(self.median)} ({number(self.low)}-{number(self.high)})"


@dataclass(frozen=True)
class Line:
    """A target: what was measured and what is required; holds is None if it was not measured."""

    what: str
    measured: str
    wanted: str
    holds: bool | None
    part: float = 0.0  # measured as a multiple of what is required, at least 1 if the target is met

    @classmethod
    def at_least(cls, what, spread, wanted, unit="x"):
        """Return a target that is met if the median is at least `wanted`."""
        part = spread.median / wanted
        return cls(what, f"{spread} {unit}", f"at least {number(wanted)} {unit}", part >= 1, part)

    @classmethod
    def at_most(cls, what, spread, wanted, unit="x"):
        """Return a target that is met if the median is at most `wanted`."""
        part = wanted / spread.median
        return cls(what, f"{spread} {unit}", f"at most {number(wanted)} {unit}", part >= 1, part)

    @classmethod
    def unknown(cls, what, why, wanted):
        """Return a target that was not measured."""
        return cls(what, why, wanted, None)

    @property
    def verdict(self):
        """Return yes, NO or not measured."""
        return "not measured" if self.holds is None else "yes" if self.holds else "NO"


@dataclass
class Section:
    """A part of the report: Markdown, its targets, and the figures as plain data."""

    title: str
    text: str
    lines: list[Line] = field(default_factory=list)
    data: object = None


def number(value):
    """Return a number with three significant digits."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def markdown_table(head, rows):
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n"


def tell(what):
    """Print progress."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def seconds_of(call, count=1, clock=time.process_time):
    """Return the CPU time of some calls."""
    start = clock()
    for _ in range(count):
        call()
    return clock() - start


def calls_for(call, least):
    """Return how many calls take at least that many seconds, after one that may compile."""
    call()
    count = 1
    while seconds_of(call, count) < least:
        count *= 2
    return count


def microseconds_in_turn(calls, rounds=7, least=0.01):
    """Return for each call its microseconds in every round; the calls take turns."""
    calls = list(calls)
    counts = [calls_for(call, least) for call in calls]
    found = [[] for _ in calls]
    for _ in range(rounds):
        for times, call, count in zip(found, calls, counts, strict=True):
            times.append(seconds_of(call, count) / count * 1e6)
    return found


@dataclass(frozen=True)
class Ran:
    """What a process took: wall-clock seconds, CPU seconds, and peak memory in MB."""

    clock: float
    processor: float
    memory: float
    output: str


# A process reports its own peak when it ends: what the system keeps of an ended process (ru_maxrss) is never less
# than its parent's memory when it started.
PEAK = """
def tell_peak(file):
    import pathlib
    status = pathlib.Path("/proc/self/status").read_text()
    pathlib.Path(file).write_text(status.split("VmHWM:")[1].split()[0])
"""


def python(code, *arguments, **environment):
    """Run code in a new Python process, to its end."""
    with tempfile.TemporaryDirectory() as folder:
        peak = Path(folder) / "peak"
        code = f"{PEAK}\nimport atexit\natexit.register(tell_peak, {str(peak)!r})\n{code}"
        command = [sys.executable, "-c", code, *map(str, arguments)]
        start = time.perf_counter()
        variables = {**os.environ, **environment}
        variables.pop("PYTHONDONTWRITEBYTECODE", None)  # as users have it
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=variables, text=True)
        output = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        clock = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
        if process.returncode:
            raise SystemExit(f"{sys.executable} {' '.join(command[3:])} ended with {process.returncode}")
        return Ran(clock, used.ru_utime + used.ru_stime, int(peak.read_text()) / 1024, output)


def command_line(*arguments, **environment):
    """Run `multileave` with some arguments in its own process."""
    return python("from multileave.cli import main; raise SystemExit(main())", *arguments, **environment)


def machine():
    """Return a description of the machine and the versions, as pairs of name and text."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "numba", "scipy"))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return [
        ("revision", revision()),
        ("date", time.strftime("%Y-%m-%d %H:%M")),
        ("processor", f"{processor()}, {os.cpu_count()} cores"),
        ("memory", f"{memory:.0f} GB"),
        ("load", f"{os.getloadavg()[0]:.1f} processes wanted to run when it began, on {os.cpu_count()} cores"),
        ("software", f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, {versions}"),
    ]


def processor():
    """Return the processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def revision():
    """Return the git revision, and whether files differ from it."""

    def git(*arguments):
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    found = git("rev-parse", "--short=12", "HEAD") or "unknown"
    return f"{found}, with changes" if git("status", "--porcelain", "--untracked-files=no") else found
