"""multileave replay: verdicts from logs."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multileave.cli.loading import Load, load
from multileave.cli.printing import print_json, table_console
from multileave.errors import DataError

if TYPE_CHECKING:
    from rich.console import Console

    from multileave.replay import Replay

__all__ = ["read_duration", "replay"]

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
WORDS = {
    "malformed": "malformed rows",
    "unknown_versions": "rows of an unknown version",
    "lost_parts": "files or row groups that could not be read to their end",
    "repeated_impressions": "impressions with an id that was there before",
    "duplicate_clicks": "duplicate clicks, counted once",
    "clicks_not_shown": "clicks on documents that were not shown",
    "orphan_clicks": "clicks on impressions that are not in the log",
    "malformed_clicks": "malformed clicks",
}


def replay(
    paths: Annotated[list[str], typer.Argument(help="Files, folders or URIs of impressions: JSON lines or Parquet.")],
    clicks: Annotated[
        list[str] | None, typer.Option(help="Files, folders or URIs of clicks that are not in the impressions' rows.")
    ] = None,
    unit: Annotated[
        str, typer.Option(help="The column of what is independent: user_id, session_id, ...; 'none' for none.")
    ] = "user_id",
    actions: Annotated[
        list[str] | None, typer.Option(help="click, cart, purchase, satisfied (a click with --dwell seconds), ...")
    ] = None,
    dwell: Annotated[float, typer.Option(help="Seconds on a document that make a click a satisfied one.")] = 30.0,
    window: Annotated[str | None, typer.Option(help="How long after an impression clicks count: 90s, 30m, 2h.")] = None,
    cap: Annotated[int | None, typer.Option(help="Leave out units with more impressions than this.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="A folder for the report, the tallies and the rows that could not be read.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if anything is wrong with the log.")] = False,
    sources: Load = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Infer from a log of impressions and clicks which ranker users prefer."""
    from multileave.replay import replay as run

    load(sources)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    with _progress() as step:
        found = run(
            paths,
            clicks=clicks or None,
            unit=None if unit == "none" else unit,
            actions=actions or ["click"],
            dwell=dwell,
            window=None if window is None else read_duration(window),
            cap=cap,
            quarantine=None if out is None else out / "quarantine.jsonl",
            progress=step,
        )
    if out is not None:
        _write(out, found)
    if as_json:
        print_json(found.to_dict())
    else:
        _print_report(table_console(), found)
    wrong = found.counts.wrong
    if wrong:
        listed = ", ".join(f"{count:,} {WORDS[name]}" for name, count in wrong.items())
        where = f"; see {found.quarantine}" if found.quarantine else ""
        typer.echo(f"multileave: warning: in this log are {listed}{where}", err=True)
    return 1 if strict and wrong else 0


def read_duration(text: str) -> timedelta:
    """Return the time that a text such as "30m" names.

    >>> read_duration("30m"), read_duration("1.5h")
    (datetime.timedelta(seconds=1800), datetime.timedelta(seconds=5400))
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    if match is None:
        raise DataError(f"{text!r} is no time; expected a number and a unit, such as 90s, 30m, 2h or 7d.")
    try:
        return timedelta(seconds=float(match[1]) * UNITS[match[2]])
    except OverflowError:
        raise DataError(f"{text!r} is too long a time; expected a few days at most, such as 7d.") from None


def _write(folder: Path, found: "Replay") -> None:
    import json

    (folder / "report.json").write_text(json.dumps(found.to_dict(), indent=2, allow_nan=False) + "\n")
    tallies = [{"method": c.method, "action": c.action, "tally": c.tally.to_dict()} for c in found.comparisons]
    with (folder / "tallies.json").open("w") as file:
        json.dump(tallies, file, allow_nan=False)


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar on stderr, where that is a terminal; yield what moves it."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("looking for files", total=None)

        def step(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        yield step


def _print_report(console: "Console", found: "Replay") -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    counts: Any = found.counts
    console.print(
        f"\n[bold]{counts.inferred:,} impressions inferred[/bold], of {counts.rows:,} rows in {found.files:,} files; "
        f"{counts.counted_clicks:,} clicks count, of {counts.clicks:,}.\n"
    )
    for comparison in found.comparisons:
        verdict = comparison.verdict
        said = verdict or f"too few units for a verdict ({comparison.tally.units}); at least two are needed"
        console.print(f"[bold]{escape(comparison.action)}[/bold] ({escape(comparison.method)}): {escape(str(said))}")
    if not found.comparisons:
        console.print("There is no impression that can be inferred.")
    rows = [(WORDS[name], count) for name, count in counts.wrong.items()]
    rows += [
        (words, getattr(counts, name))
        for name, words in (
            ("filtered", "rows that were filtered out"),
            ("without_unit", "impressions without a unit, each one of its own"),
            ("units_over_cap", "units over the cap, left out"),
            ("late_clicks", "clicks outside the window"),
            ("undated_clicks", "clicks without a time, so not in the window"),
        )
        if getattr(counts, name)
    ]
    if rows:
        table = Table(box=box.ROUNDED, show_header=False)
        table.add_column(justify="right")
        table.add_column()
        for words, count in rows:
            table.add_row(f"{count:,}", words)
        console.print()
        console.print(table)
    for example in found.examples[:3]:
        place = ", ".join(f"{name} {example[name]}" for name in ("line", "row_group", "row") if name in example)
        console.print(f"[dim]{escape(example['file'])} {place}: {escape(example['reason'])}[/dim]")
    console.print()
