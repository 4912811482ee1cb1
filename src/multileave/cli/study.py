"""`multileave study`: the paper's experiments, and others of the kind."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multileave.cli.loading import Load, load
from multileave.cli.printing import print_json, table_console

if TYPE_CHECKING:
    from multileave.study.results import Summary
    from multileave.study.settings import Settings

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
    runs: Annotated[int | None, typer.Option(help="Runs of every fold; 25 by default.")] = None,
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
    jobs: Annotated[int, typer.Option(help="Processes; by default one per core.")] = 0,
    backend: Annotated[str, typer.Option(help="What joblib runs on: loky, dask, ray or spark.")] = "loky",
    scheduler: Annotated[str | None, typer.Option(help="The address of a Dask scheduler.")] = None,
    loads: Load = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Measure how often methods err, with simulated users on learning-to-rank data."""
    from multileave.study.page import write_report
    from multileave.study.plots import require_matplotlib
    from multileave.study.results import summarise
    from multileave.study.runner import run_study

    load(loads)
    require_matplotlib()
    options = {
        "data": None if data is None else str(data.resolve()),
        "datasets": datasets, "methods": methods, "rankers": rankers, "users": users, "impressions": impressions,
        "runs": runs, "folds": folds, "k": k, "seed": seed, "anywhere": anywhere,
    }  # fmt: skip
    grids = _grids({key: value for key, value in options.items() if value is not None}, settings, paper=paper)
    results = []
    with _progress() as tell:
        for grid in grids:
            results += run_study(
                grid, out, jobs=jobs or os.cpu_count() or 1, backend=backend, scheduler=scheduler, progress=tell
            )
    summaries = summarise(results)
    written = write_report(results, _described(grids), out, against=against, command=["multileave", *sys.argv[1:]])
    if as_json:
        print_json([summary.to_dict() for summary in summaries])
    else:
        _print_summaries(summaries, grids, out, [path.name for path in written])


def _grids(options: dict[str, Any], path: Path | None, *, paper: bool) -> "list[Settings]":
    """Return the settings to run; more than one only for the paper's grid, whose data sets differ."""
    from multileave.data import available
    from multileave.errors import DataError
    from multileave.study.settings import Settings

    base = Settings.from_toml(path) if path else Settings()
    if not paper:
        return [base.changed(**options)]
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
            grids.append(base.changed(**{"datasets": names, "rankers": counts, **options}))
    return grids


def _described(grids: "list[Settings]") -> dict[str, Any]:
    described = grids[0].to_dict()
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


def _print_summaries(summaries: "list[Summary]", grids: "list[Settings]", out: Path, written: list[str]) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    console = table_console()
    methods = list(dict.fromkeys(summary.method for summary in summaries))
    table = Table(
        box=box.ROUNDED, title="binary error against held-out NDCG@10, and against that on the queries issued"
    )
    for name in ("data", "rankers", "user"):
        table.add_column(name, no_wrap=True)
    for name in methods:
        table.add_column(escape(name), justify="right")
    table.add_column("floor", justify="right", style="cyan")
    rows: dict[tuple[str, int, str], dict[str, Any]] = {}
    for summary in summaries:
        rows.setdefault((summary.dataset, summary.rankers, summary.user), {})[summary.method] = summary
    before = None
    for (dataset, count, user), row in rows.items():
        if before is not None and before != (dataset, count):
            table.add_section()
        before = dataset, count
        best = min(one.error_heldout for one in row.values())
        cells = []
        for name in methods:
            one = row.get(name)
            text = "" if one is None else f"{one.error_heldout:.3f} {one.error_same_queries:.3f}"
            cells.append(f"[bold green]{text}[/]" if one is not None and one.error_heldout == best else text)
        table.add_row(escape(dataset), str(count), escape(user), *cells, f"{next(iter(row.values())).floor:.3f}")
    console.print(table)
    runs = max(summary.runs for summary in summaries)
    console.print(
        f"[dim]{grids[0].impressions:,} impressions, {runs} runs each. floor: the error of knowing NDCG@10 on the "
        "queries issued exactly, against the held-out one.[/dim]"
    )
    console.print(f"In {escape(str(out))}: {', '.join(written)}", soft_wrap=True)
