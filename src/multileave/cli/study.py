"""`multileave study`: the paper's experiments, and others of the kind."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multileave.cli.loading import Load, load
from multileave.cli.printing import print_json, table_console

if TYPE_CHECKING:
    from multileave.data import GradedTopics
    from multileave.stats import Verdict
    from multileave.study.settings import Settings
    from multileave.study.summaries import Summary
    from multileave.study.table_formats import Table

__all__ = ["study"]


def study(
    data: Annotated[Path | None, typer.Option(help="The folder that holds the data sets.")] = None,
    datasets: Annotated[
        list[str] | None, typer.Option(help="Data sets such as MQ2008 OHSUMED; synthetic data by default.")
    ] = None,
    methods: Annotated[list[str] | None, typer.Option(help="Methods such as tdm om pm sosm ppm.")] = None,
    rankers: Annotated[list[int] | None, typer.Option(help="How many rankers to compare, such as 5 15.")] = None,
    users: Annotated[
        list[str] | None, typer.Option(help="perfect navigational informational almost_random random, or your own.")
    ] = None,
    impressions: Annotated[int | None, typer.Option(help="Result pages of each run; 10,000 by default.")] = None,
    runs: Annotated[
        list[str] | None,
        typer.Option(help="TREC run files to compare, with --qrels; or, where there are none, the same as --repeats."),
    ] = None,
    qrels: Annotated[Path | None, typer.Option(help="The qrels file that judges the run files.")] = None,
    unjudged: Annotated[
        int | None, typer.Option(help="The grade of documents that the qrels do not judge; 0 by default.")
    ] = None,
    returned: Annotated[
        int | None, typer.Option(help="Documents that every ranker returns, the top of its ranking; all by default.")
    ] = None,
    repeats: Annotated[int | None, typer.Option(help="Runs of every fold, or of the run files; 25 by default.")] = None,
    folds: Annotated[list[int] | None, typer.Option(help="Folds to use; all by default.")] = None,
    k: Annotated[int | None, typer.Option(help="Results on a page; 10 by default.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed, the same results; 42 by default.")] = None,
    anywhere: Annotated[
        bool | None, typer.Option("--stop-anywhere", help="Users may stop after documents they did not click, too.")
    ] = None,
    settings: Annotated[Path | None, typer.Option(help="A TOML file with settings; options override it.")] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="The paper's whole grid on whatever data sets the folder holds.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Where results and reports go; a study found there goes on.")] = Path(
        "study"
    ),
    against: Annotated[str, typer.Option(help="The method that significance marks speak of.")] = "ppm",
    base: Annotated[str, typer.Option(help="The method that impressions to a verdict are compared with.")] = "tdm",
    power: Annotated[float, typer.Option(help="The chance to find a difference, of impressions to a verdict.")] = 0.8,
    level: Annotated[float, typer.Option(help="The significance level, of impressions to a verdict.")] = 0.05,
    jobs: Annotated[int, typer.Option(help="Processes; by default one per core.")] = 0,
    backend: Annotated[str, typer.Option(help="What joblib runs on: loky, dask, ray or spark.")] = "loky",
    scheduler: Annotated[str | None, typer.Option(help="The address of a Dask scheduler.")] = None,
    loads: Load = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Measure what verdicts take, what users see and how often methods err, on learning-to-rank data or TREC runs."""
    from multileave.study.html_report import write_report
    from multileave.study.plots import require_matplotlib
    from multileave.study.power import effort
    from multileave.study.runner import run_study
    from multileave.study.summaries import summarise

    effort(power, level)  # says what is wrong with them before the study starts
    load(loads)
    require_matplotlib()
    files, repeats = _read_runs_option(runs, repeats)
    options = {
        "data": None if data is None else str(data.resolve()),
        "datasets": datasets, "methods": methods, "rankers": rankers, "users": users, "impressions": impressions,
        "runs": repeats, "folds": folds, "k": k, "seed": seed, "anywhere": anywhere, "run_files": files,
        "qrels": None if qrels is None else str(qrels.resolve()), "unjudged": unjudged, "returned": returned,
    }  # fmt: skip
    grids = _grids({key: value for key, value in options.items() if value is not None}, settings, paper=paper)
    results = []
    with _progress() as tell:
        for grid in grids:
            results += run_study(
                grid, out, jobs=jobs or os.cpu_count() or 1, backend=backend, scheduler=scheduler, progress=tell
            )
        said = _judge_systems(grids[0], tell) if grids[0].run_files else None
    summaries = summarise(results, base=base, power=power, level=level)
    written = write_report(
        results,
        _described(grids),
        out,
        against=against,
        base=base,
        power=power,
        level=level,
        command=["multileave", *sys.argv[1:]],
        first=() if said is None else (said.table,),
        verdicts=None if said is None else {f"{u} users, by {said.method}": v for u, v in said.verdicts.items()},
    )
    if as_json:
        records = [summary.to_dict() for summary in summaries]
        print_json(records if said is None else {**said.to_dict(), "results": records})
        return
    if said is not None:
        _print_systems(said)
    _print_summaries(summaries, grids, out, [path.name for path in written])
    if said is not None:
        _print_verdicts(said)


@dataclass(frozen=True)
class _Systems:
    """What a study of run files says beside its errors."""

    graded: "GradedTopics"
    method: str
    verdicts: "dict[str, Verdict]"

    @property
    def table(self) -> "Table":
        from multileave.study.systems import systems_table

        return systems_table(self.graded)

    def to_dict(self) -> dict[str, Any]:
        from multileave.study.systems import system_scores

        return {
            "topics": self.graded.to_dict(),
            "truth": system_scores(self.graded.queries),
            "method": self.method,
            "verdicts": {name: verdict.to_dict() for name, verdict in self.verdicts.items()},
        }


def _read_runs_option(runs: list[str] | None, repeats: int | None) -> tuple[list[str] | None, int | None]:
    """Return the run files, if any, and the number of repeats: `--runs 25` names no file."""
    if runs is None or len(runs) > 1 or not runs[0].isdecimal():
        return None if runs is None else [str(Path(run).resolve()) for run in runs], repeats
    return None, int(runs[0]) if repeats is None else repeats


def _judge_systems(settings: "Settings", tell: Callable[[int, int, str], None]) -> _Systems:
    """Let users of every kind compare the run files' systems by the first method."""
    from multileave.study.runner import open_runs
    from multileave.study.systems import simulated_verdict

    graded = open_runs(settings.run_files, str(settings.qrels), settings.unjudged)
    queries = graded.queries if settings.returned is None else graded.queries.cut(settings.returned)
    method = settings.methods[0]
    verdicts: dict[str, Verdict] = {}
    done = 0

    def advance(impressions: int) -> None:
        nonlocal done
        done += impressions
        tell(done, settings.impressions * len(settings.users), "users give their verdict")

    for name in settings.users:
        user = settings.user(name, graded.queries.grades)
        seed = f"{settings.seed}/verdict/{name}"
        verdicts[name] = simulated_verdict(
            queries, method, user, impressions=settings.impressions, k=settings.k, seed=seed, progress=advance
        )
    return _Systems(graded, method, verdicts)


def _grids(options: dict[str, Any], path: Path | None, *, paper: bool) -> "list[Settings]":
    """Return the settings to run; more than one only for the paper's grid, whose data sets differ."""
    from multileave.data import available
    from multileave.errors import DataError
    from multileave.study.settings import PAPER_METHODS, Settings

    base = Settings.from_toml(path) if path else Settings()
    if not paper:
        grid = base.changed(**options)
        if grid.data is not None and "datasets" not in options and grid.datasets == Settings.datasets:
            held = " ".join(found.name for found in available(grid.data))
            raise DataError(
                f"--data {grid.data} says where data sets are, not which to study. "
                f"Name them with --datasets{f': it holds {held}' if held else ''}."
            )
        return [grid]
    if "data" not in options and base.data is None:
        raise DataError("--paper needs data. Give the folder that holds the data sets with --data.")
    folder = options.get("data") or base.data
    found = available(str(folder))
    if not found:
        raise DataError(f"{folder} holds none of the paper's data sets. Give another folder with --data.")
    grids = []
    for many in (False, True):
        names = [d.name for d in found if not many or len(d.rankers or ()) >= 40]
        counts = [40] if many else [5, 15]
        if names:
            methods = PAPER_METHODS if base.methods == Settings().methods else base.methods
            grids.append(base.changed(**{"datasets": names, "rankers": counts, "methods": methods, **options}))
    return grids


def _described(grids: "list[Settings]") -> dict[str, Any]:
    described = grids[0].to_dict()
    if grids[0].run_files:
        described["title"] = "Which system do users prefer?"
    for grid in grids[1:]:
        for key, value in grid.to_dict().items():
            if isinstance(value, list):
                described[key] = list(dict.fromkeys([*described[key], *value]))
    return described


@contextmanager
def _progress() -> Iterator[Callable[[int, int, str], None]]:
    """Show a bar on stderr, with impressions per second and the time left."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading data", total=None, rate="")

        def tell(done: int, total: int, what: str) -> None:
            speed = bar.tasks[0].speed
            rate = f"{speed / 1e6:.2f} million impressions/s" if speed else ""
            bar.update(task, completed=done, total=total, description=what, rate=rate)

        yield tell


def _errors(summary: "Summary") -> tuple[float, ...]:
    """Return the errors that are printed, the one that counts first."""
    if summary.error_heldout is None:
        return (summary.error_same_queries,)
    return summary.error_heldout, summary.error_same_queries


def _print_systems(said: _Systems) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.ROUNDED, title="the systems by the qrels")
    table.add_column("system", no_wrap=True, style="bold")
    for name in said.table.columns:
        table.add_column(name, justify="right")
    for row in said.table.sections[0].rows:
        cells = (f"[green]{cell.text}[/]" if cell.bold else cell.text for cell in row.cells)
        table.add_row(escape(row.name), *cells)
    console = table_console()
    console.print(table)
    for note in said.graded.notes:
        console.print(f"[dim]{escape(note)}.[/dim]", soft_wrap=True)


def _print_verdicts(said: _Systems) -> None:
    from rich.markup import escape

    console = table_console()
    console.print(f"\n[bold]Verdict[/bold] of simulated users, by {escape(said.method)}:")
    for name, verdict in said.verdicts.items():
        console.print(f"[bold]{escape(name)}[/bold]: {escape(verdict.sentence)}", soft_wrap=True)
    for warning in dict.fromkeys(warning for verdict in said.verdicts.values() for warning in verdict.warnings):
        console.print(f"warning: {escape(warning)}", soft_wrap=True)


def _print_summaries(summaries: "list[Summary]", grids: "list[Settings]", out: Path, written: list[str]) -> None:
    from rich.markup import escape

    console = table_console()
    held_out = not grids[0].run_files
    if any(summary.impressions_to_verdict is not None for summary in summaries):
        _print_by_method(
            "impressions to a verdict, median over pairs of rankers", summaries,
            lambda one: one.impressions_to_verdict, lambda one: f"{one.impressions_to_verdict:,.0f}",
        )  # fmt: skip
    if any(summary.ndcg_to_mean is not None for summary in summaries):
        _print_by_method(
            "NDCG of the pages shown, in per cent of the mean of the rankers' own pages", summaries,
            lambda one: None if one.ndcg_to_mean is None else -one.ndcg_to_mean,
            lambda one: f"{100 * (one.ndcg_to_mean or 0.0):.1f}",
        )  # fmt: skip
    title = "binary error against held-out NDCG@10, and against that on the queries issued"
    _print_by_method(
        title if held_out else "binary error against NDCG@10 by the qrels", summaries,
        lambda one: _errors(one)[0], lambda one: " ".join(f"{error:.3f}" for error in _errors(one)), floor=held_out,
    )  # fmt: skip
    runs = max(summary.runs for summary in summaries)
    console.print(
        f"[dim]{grids[0].impressions:,} impressions, {runs} runs each."
        + (
            " floor: the error of knowing NDCG@10 on the queries issued exactly, against the held-out one.[/dim]"
            if held_out
            else " error: the share of pairs of systems in the wrong order.[/dim]"
        )
    )
    console.print(f"In {escape(str(out))}: {', '.join(written)}", soft_wrap=True)


def _print_by_method(
    title: str,
    summaries: "list[Summary]",
    key: "Callable[[Summary], float | None]",
    text: "Callable[[Summary], str]",
    *,
    floor: bool = False,
) -> None:
    """Print a row for every data set, number of rankers and user, the method with the least key in green."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    methods = list(dict.fromkeys(summary.method for summary in summaries))
    table = Table(box=box.ROUNDED, title=title)
    for name in ("data", "rankers", "user"):
        table.add_column(name, no_wrap=True)
    for name in methods:
        table.add_column(escape(name), justify="right")
    if floor:
        table.add_column("floor", justify="right", style="cyan")
    rows: dict[tuple[str, int, str], dict[str, Any]] = {}
    for summary in summaries:
        rows.setdefault((summary.dataset, summary.rankers, summary.user), {})[summary.method] = summary
    before = None
    for (dataset, count, user), row in rows.items():
        if before is not None and before != (dataset, count):
            table.add_section()
        before = dataset, count
        known = {name: value for name, one in row.items() if (value := key(one)) is not None}
        best = min(known.values(), default=None)
        cells = []
        for name in methods:
            shown = text(row[name]) if name in known else ""
            cells.append(f"[bold green]{shown}[/]" if known.get(name) == best and shown else shown)
        if floor:
            cells.append(f"{next(iter(row.values())).floor:.3f}")
        table.add_row(escape(dataset), str(count), escape(user), *cells)
    table_console().print(table)
