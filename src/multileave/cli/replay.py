"""multileave replay: verdicts from logs."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multileave.cli.loading import Load, load
from multileave.cli.printing import print_json, progress, rounded_table, table_console
from multileave.errors import DataError

if TYPE_CHECKING:
    from rich.console import Console

    from multileave.replay import Comparison, Replay
    from multileave.stats import Health

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
WORDS = {
    "malformed": "malformed rows",
    "unknown_versions": "rows of an unknown version",
    "lost_parts": "files or row groups that could not be read completely",
    "repeated_impressions": "impressions with a repeated id, left out",
    "conflicting_impressions": "of them with other content than the first",
    "duplicate_clicks": "duplicate clicks, counted once",
    "clicks_not_shown": "clicks on documents that were not shown",
    "units_in_two_arms": "units in more than one arm, left out of the A/B test",
    "orphan_clicks": "clicks whose impression is not in the log",
    "malformed_clicks": "malformed clicks",
    "filtered": "rows filtered out",
    "without_unit": "impressions without a unit, each counted as one",
    "without_id": "impressions without an id, which count even if they are repeated",
    "units_over_cap": "units over the cap, left out",
    "late_clicks": "clicks outside the window",
    "undated_clicks": "clicks without a time, so outside the window",
}


def replay(
    paths: Annotated[list[str], typer.Argument(help="Files, folders or URIs of impressions: JSON lines or Parquet.")],
    clicks: Annotated[
        list[str] | None, typer.Option(help="Files, folders or URIs of clicks, if they are in separate files.")
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="multileave; ubi: UBI queries (PATHS) that contain our impressions, and events (--clicks); "
            "ubi-team-draft: UBI queries, and events that name the ranker of each hit.",
        ),
    ] = "multileave",
    method: Annotated[
        str | None,
        typer.Option(
            help="Infer as this method would: rpm reads team drafts with ranks; ppm, dpm and opm read each other's "
            "lists. By default, the method that drew the lists.",
            show_default=False,
        ),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(
            help="Column that identifies the unit (user or session): user_id by default, client_id in UBI; "
            "'none' makes each impression a unit.",
            show_default=False,
        ),
    ] = None,
    actions: Annotated[
        list[str] | None,
        typer.Option(help="click, cart, purchase, satisfied (a click with --dwell seconds) or any in the log."),
    ] = None,
    dwell: Annotated[float, typer.Option(help="Seconds on a document that make a click satisfied.")] = 30.0,
    window: Annotated[str | None, typer.Option(help="How long after an impression clicks count: 90s, 30m, 2h.")] = None,
    cap: Annotated[int | None, typer.Option(help="Leave out units with more impressions than this.")] = None,
    anytime: Annotated[
        bool, typer.Option("--anytime", help="A verdict that is valid however often the growing log is replayed.")
    ] = False,
    tuned_for: Annotated[
        float | None, typer.Option(help="With --anytime: the impressions that multileave plan --anytime names.")
    ] = None,
    looks: Annotated[int | None, typer.Option(help="Number of scheduled looks, as in multileave plan.")] = None,
    look: Annotated[int | None, typer.Option(help="With --looks: which of them this is, from 1.")] = None,
    spending: Annotated[
        str, typer.Option(help="With --looks: how alpha is spent, obrien-fleming or pocock.")
    ] = "obrien-fleming",
    segment: Annotated[
        str | None,
        typer.Option(help="Column of segments, such as a device: also a verdict for each, and whether they differ."),
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(
            help="The ranker that others are compared with in rates and in the A/B test between arms: the first one "
            "by default.",
            show_default=False,
        ),
    ] = None,
    dropped: Annotated[
        list[str] | None, typer.Option(help="With --anytime: a ranker that was dropped during the experiment.")
    ] = None,
    winsorise: Annotated[
        int | None, typer.Option(help="Let units with more impressions than this count as if they had so many.")
    ] = None,
    estimand: Annotated[
        str,
        typer.Option(help="impressions: the mean preference per impression; users: the mean over users of each one's."),
    ] = "impressions",
    correction: Annotated[str, typer.Option(help="For many pairs: holm, max-t, bh, by or none.")] = "holm",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the report, the tallies and the quarantined rows.")
    ] = None,
    check_ids: Annotated[
        bool,
        typer.Option("--check-ids", help="No effect: impressions with a repeated id are always found and left out."),
    ] = False,
    rates: Annotated[
        bool, typer.Option(help="Estimate what each ranker would earn alone, if the method has propensities.")
    ] = True,
    first_ordinal: Annotated[
        int, typer.Option(help="With --format ubi: the ordinal of the first result, for events without object_id.")
    ] = 1,
    engine: Annotated[str, typer.Option(help="local, or spark for a cluster.")] = "local",
    master: Annotated[
        str | None, typer.Option(help="With --engine spark: such as local[4], yarn or spark://host:7077.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if anything is wrong with the log.")] = False,
    sources: Load = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Find out from a log of impressions and clicks which ranker users prefer."""
    if engine not in ("local", "spark") or (engine == "local" and master is not None):
        raise DataError(f"--engine is {engine!r}; expected local or spark. Only spark takes --master.")
    if anytime and (looks is not None or look is not None):
        raise DataError("Both --anytime and --looks are given. Leave out --anytime, or --looks and --look.")
    if (looks is None) != (look is None):
        given, absent = ("--look", "--looks") if looks is None else ("--looks", "--look")
        raise DataError(f"{given} is given without {absent}. Give both: how many looks are planned, and which this is.")
    if tuned_for is not None and not anytime:
        raise DataError("--tuned-for is given without --anytime. Add --anytime, or leave it out.")
    from multileave.stats import Rules

    interval = "anytime" if anytime else "clustered" if looks is None and look is None else "scheduled"
    rules = Rules(
        interval=interval, correction=correction, tuned_for=tuned_for, looks=looks, look=look, spending=spending,
        estimand=estimand, winsorise=winsorise, dropped=tuple(dropped or ()), control=control,
    )  # fmt: skip
    load(sources)
    if engine == "spark":
        from multileave.cli.replay_spark import run_on_spark

        if form != "multileave":
            raise DataError(f"--format is {form!r}, which only the local engine reads. Leave out --engine spark.")
        run_format: Callable[..., Replay] = partial(run_on_spark, master, sources, clicks=clicks, check_ids=check_ids)
        wrong_rows = "quarantine"
    else:
        from multileave.replay import replay as run

        run_format = _reader(form, run, clicks, check_ids=check_ids, first_ordinal=first_ordinal)
        wrong_rows = "quarantine.jsonl"
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    unit = unit or ("user_id" if form == "multileave" else "client_id")
    with progress_bar() as step:
        found = run_format(
            paths,
            unit=None if unit == "none" else unit,
            actions=actions or ["click"],
            dwell=dwell,
            window=None if window is None else read_duration(window),
            cap=cap,
            quarantine=None if out is None else out / wrong_rows,
            progress=step,
            method=method,
            rates=rates,
            **({} if segment is None else {"segment": segment}),
        ).judged(rules)
    if out is not None:
        found.write(out)
    if as_json:
        print_json(found.to_dict())
    else:
        _print_report(table_console(), found)
    print_wrong(found)
    return 1 if strict and found.counts.wrong else 0


def print_wrong(found: "Replay") -> None:
    """Print on stderr what is wrong with a log."""
    wrong = found.counts.wrong
    if wrong:
        listed = ", ".join(f"{count:,} {WORDS[name]}" for name, count in wrong.items())
        where = f"; see {found.quarantine}" if found.quarantine else ""
        typer.echo(f"multileave: warning: the log contains {listed}{where}", err=True)


def _reader(
    form: str, run: "Callable[..., Replay]", clicks: list[str] | None, *, check_ids: bool, first_ordinal: int
) -> "Callable[..., Replay]":
    """Return the function that replays logs of a format, with the options of that format."""
    if form == "multileave":
        return partial(run, clicks=clicks or None, check_ids=check_ids)
    if form not in ("ubi", "ubi-team-draft"):
        raise DataError(f"--format is {form!r}; expected multileave, ubi or ubi-team-draft.")
    if not clicks:
        raise DataError(f"--format {form} needs the UBI events. Pass them with --clicks.")
    if form == "ubi":
        from multileave.integrations.ubi import replay_ubi

        return partial(replay_ubi, events=clicks, first_ordinal=first_ordinal)
    from multileave.integrations.ubi_teams import replay_team_draft

    return partial(replay_team_draft, events=clicks)


def read_duration(text: str) -> timedelta:
    """Return the duration of a text such as "30m".

    >>> read_duration("30m"), read_duration("1.5h")
    (datetime.timedelta(seconds=1800), datetime.timedelta(seconds=5400))
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    if match is None:
        raise DataError(f"{text!r} is not a duration; expected a number and a unit, such as 90s, 30m, 2h or 7d.")
    try:
        return timedelta(seconds=float(match[1]) * UNITS[match[2]])
    except OverflowError:
        raise DataError(f"{text!r} is too long; expected a few days at most, such as 7d.") from None


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar; yield the function that updates it: (what is going on, done, total)."""
    from rich.progress import BarColumn, DownloadColumn, SpinnerColumn, TimeRemainingColumn

    columns = SpinnerColumn(), "{task.description}", BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with progress(*columns) as bar:
        task = bar.add_task("finding files", total=None)

        def step(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        yield step


def _print_health(console: "Console", judged: "list[tuple[Comparison, Health]]") -> None:
    """Print the health of all comparisons side by side."""
    from rich.markup import escape

    if not judged:
        return
    table = rounded_table(title="Health", title_justify="left", title_style="bold")
    table.add_column("")
    for comparison, _ in judged:
        name = comparison.method.partition("(")[0]
        heading = f"{comparison.action}, {name}, {len(comparison.tally.rankers)} rankers"
        table.add_column(escape(heading), justify="right")
    for words, figure in HEALTH:
        cells = [figure(health) for _, health in judged]
        if any(cell is not None for cell in cells):
            table.add_row(words, *("" if cell is None else cell for cell in cells))
    console.print()
    console.print(table)


def _share(value: float | None) -> str | None:
    return None if value is None else f"{100 * value:.1f} %"


def _chance(balance: dict[str, Any] | None) -> str | None:
    return None if balance is None or balance["p"] is None else f"p = {balance['p']:.2g}"


# What is printed of the health of a log; `stats.health` explains each.
HEALTH: "tuple[tuple[str, Callable[[Health], str | None]], ...]" = (
    ("effective sample size (users)", lambda health: f"{health.effective_units:,.0f}"),
    ("users that carry evidence (fewest of a pair)", lambda health: f"{health.evidence_units:,}"),
    ("users that no person could be", lambda health: f"{len(health.implausible)}" if health.implausible else None),
    ("clicks by the most active 1 % of users", lambda health: _share(health.top_share)),
    ("impressions without clicks", lambda health: _share(health.without_clicks)),
    ("impressions on which all rankers agree", lambda health: _share(health.no_preference)),
    ("impressions with a missing ranker", lambda health: _share(health.fallbacks)),
    ("impressions with results that a ranker lacks", lambda health: _share(health.different_documents)),
    ("impressions with a list shorter than k + 1", lambda health: _share(health.short_lists)),
    ("balance of the first result", lambda health: _chance(health.first)),
    ("exposure balance", lambda health: _chance(health.exposure)),
)


def _print_report(console: "Console", found: "Replay") -> None:
    from rich.markup import escape

    from multileave.stats.arms.wording import agreement_words
    from multileave.stats.rates.wording import counted, lines

    counts: Any = found.counts
    files = "1 file" if found.files == 1 else f"{found.files:,} files"
    in_arms = f"and {counts.in_arms:,} in arms " if counts.in_arms else ""
    console.print(
        f"\n[bold]{counts.inferred:,} impressions inferred[/bold] {in_arms}from {counts.rows:,} rows in {files}; "
        f"{counts.counted_clicks:,} of {counts.clicks:,} clicks counted.\n"
    )
    judged = [(comparison, comparison.verdict) for comparison in found.comparisons]
    for comparison, verdict in judged:
        said = f"Too few units for a verdict ({comparison.tally.units}); at least two are needed."
        said = said if verdict is None else verdict.sentence
        console.print(f"[bold]{escape(comparison.action)}[/bold] ({escape(comparison.method)}): {escape(said)}")
        for warning in () if verdict is None else verdict.warnings:
            console.print(f"  [yellow]warning:[/yellow] {escape(warning)}")
        for line in (
            () if verdict is None or verdict.rates is None else lines(verdict.rates, counted(comparison.action))
        ):
            console.print(f"  {escape(line)}")
        if note := comparison.rates_note(verdict):
            console.print(f"  [dim]{escape(note)}[/dim]")
        by_segment = comparison.verdict_by_segment
        if by_segment is not None:
            for name, one in by_segment.segments.items():
                console.print(f"  {escape(by_segment.by)} {escape(name)}: {escape(one.sentence)}")
            console.print(f"  {escape(by_segment.sentence)}.")
    _print_health(console, [(c, v.health) for c, v in judged if v is not None and v.health is not None])
    for arms in found.arms:
        console.print(f"\n[bold]A/B test between arms, {escape(arms.action)}[/bold]")
        console.print(escape(str(arms.verdict or "Too few units for a verdict; each arm needs at least two.")))
        for agreement in found.agreements(arms):
            console.print(escape(agreement_words(agreement)))
    if not found.comparisons and not found.arms:
        console.print("No impression of the log can be inferred.")
    rows = [(words, count) for name, words in WORDS.items() if (count := getattr(counts, name))]
    if rows:
        table = rounded_table(show_header=False)
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
