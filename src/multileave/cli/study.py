"""`multileave study`: the paper's experiments, and others like them."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multileave.cli.loading import Load, load
from multileave.cli.printing import impressions_bar, print_json, rounded_table, table_console
from multileave.cli.user_options import Attractiveness, UsersFrom

if TYPE_CHECKING:
    from multileave.study.settings import Settings
    from multileave.study.summaries import Summary
    from multileave.study.systems import RunComparison


def study(
    data: Annotated[Path | None, typer.Option(help="Folder that holds the data sets.")] = None,
    datasets: Annotated[
        list[str] | None, typer.Option(help="Data sets such as MQ2008 OHSUMED; synthetic data by default.")
    ] = None,
    methods: Annotated[list[str] | None, typer.Option(help="Methods such as tdm om pm sosm ppm.")] = None,
    rankers: Annotated[list[int] | None, typer.Option(help="Numbers of rankers to compare, such as 5 15.")] = None,
    users: Annotated[
        list[str] | None, typer.Option(help="perfect navigational informational almost_random random, or your own.")
    ] = None,
    users_from: UsersFrom = None,
    attractiveness: Attractiveness = "auto",
    impressions: Annotated[int | None, typer.Option(help="Result pages in each run; 10,000 by default.")] = None,
    runs: Annotated[
        list[str] | None,
        typer.Option(help="TREC run files to compare, with --qrels; a single number is the same as --repeats."),
    ] = None,
    qrels: Annotated[Path | None, typer.Option(help="Qrels file that judges the run files.")] = None,
    unjudged: Annotated[
        int | None, typer.Option(help="Grade of documents without a judgement in the qrels; 0 by default.")
    ] = None,
    returned: Annotated[
        int | None, typer.Option(help="Number of top documents that every ranker returns; all by default.")
    ] = None,
    repeats: Annotated[int | None, typer.Option(help="Runs per fold, or of the run files; 25 by default.")] = None,
    folds: Annotated[list[int] | None, typer.Option(help="Folds to use; all by default.")] = None,
    k: Annotated[int | None, typer.Option(help="Results per page; 10 by default.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same results; 42 by default.")] = None,
    anywhere: Annotated[
        bool | None, typer.Option("--stop-anywhere", help="Users may also stop after documents they did not click.")
    ] = None,
    settings: Annotated[Path | None, typer.Option(help="TOML file with settings, which options override.")] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="Run the paper's whole grid on the data sets that the folder holds.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for results and reports; a study found there is resumed.")] = Path(
        "study"
    ),
    against: Annotated[str, typer.Option(help="Method that significance marks refer to.")] = "ppm",
    base: Annotated[str, typer.Option(help="Method that impressions to a verdict are compared with.")] = "tdm",
    power: Annotated[float, typer.Option(help="Power of the test behind impressions to a verdict.")] = 0.8,
    level: Annotated[float, typer.Option(help="Significance level of that test.")] = 0.05,
    jobs: Annotated[int, typer.Option(help="Number of processes; by default one per core.")] = 0,
    backend: Annotated[str, typer.Option(help="Backend of joblib: loky, dask, ray or spark.")] = "loky",
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler.")] = None,
    loads: Load = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Measure impressions to a verdict, page quality and errors of methods, on learning-to-rank data or TREC runs."""
    from multileave.study.html_report import write_report
    from multileave.study.plots import require_matplotlib
    from multileave.study.power import effort
    from multileave.study.runner import run_study
    from multileave.study.settings import describe, load_settings, paper_settings
    from multileave.study.summaries import summarise
    from multileave.study.systems import compare_runs

    effort(power, level)  # raises an error if they are invalid, before the study starts
    load(loads)
    require_matplotlib()
    files, repeats = _read_runs_option(runs, repeats)
    options = {
        "data": None if data is None else str(data.resolve()),
        "datasets": datasets, "methods": methods, "rankers": rankers, "users": users, "impressions": impressions,
        "runs": repeats, "folds": folds, "k": k, "seed": seed, "anywhere": anywhere, "run_files": files,
        "qrels": None if qrels is None else str(qrels.resolve()), "unjudged": unjudged, "returned": returned,
        "users_from": [str(path.resolve()) for path in users_from or ()] or None,
        "attractiveness": None if attractiveness == "auto" else attractiveness,
    }  # fmt: skip
    grids = paper_settings(settings, **options) if paper else [load_settings(settings, **options)]
    results = []
    with impressions_bar() as tell:
        for grid in grids:
            results += run_study(
                grid, out, jobs=jobs or os.cpu_count() or 1, backend=backend, scheduler=scheduler, progress=tell
            )
        compared = compare_runs(grids[0], tell) if grids[0].run_files else None
    written = write_report(
        results,
        describe(grids),
        out,
        against=against,
        base=base,
        power=power,
        level=level,
        command=["multileave", *sys.argv[1:]],
        compared=compared,
    )
    summaries = summarise(results, base=base, power=power, level=level)
    if as_json:
        records = [summary.to_dict() for summary in summaries]
        print_json(records if compared is None else {**compared.to_dict(), "results": records})
        return
    if compared is not None:
        _print_systems(compared)
    _print_summaries(summaries, grids, out, [path.name for path in written])
    if compared is not None:
        _print_verdicts(compared)


def _read_runs_option(runs: list[str] | None, repeats: int | None) -> tuple[list[str] | None, int | None]:
    """Return the run files, if any, and the number of repeats: `--runs 25` names no file."""
    if runs is None or len(runs) > 1 or not runs[0].isdecimal():
        return None if runs is None else [str(Path(run).resolve()) for run in runs], repeats
    return None, int(runs[0]) if repeats is None else repeats


def _print_systems(compared: "RunComparison") -> None:
    from rich.markup import escape

    systems = compared.table
    table = rounded_table(("system",), systems.columns, title="The systems according to the qrels")
    for row in systems.sections[0].rows:
        cells = (f"[green]{cell.text}[/]" if cell.bold else cell.text for cell in row.cells)
        table.add_row(f"[bold]{escape(row.name)}[/]", *cells)
    console = table_console()
    console.print(table)
    for note in compared.graded.notes:
        console.print(f"[dim]{escape(note)}[/dim]", soft_wrap=True)


def _print_verdicts(compared: "RunComparison") -> None:
    from rich.markup import escape

    console = table_console()
    console.print(f"\n[bold]Verdict[/bold] of simulated users, by {escape(compared.method)}:")
    for name, verdict in compared.verdicts.items():
        console.print(f"[bold]{escape(name)}[/bold]: {escape(verdict.sentence)}", soft_wrap=True)
    for warning in dict.fromkeys(warning for verdict in compared.verdicts.values() for warning in verdict.warnings):
        console.print(f"warning: {escape(warning)}", soft_wrap=True)


def _print_summaries(summaries: "list[Summary]", grids: "list[Settings]", out: Path, written: list[str]) -> None:
    from rich.markup import escape

    console = table_console()
    held_out = not grids[0].run_files
    if any(summary.impressions_to_verdict is not None for summary in summaries):
        _print_by_method(
            "Impressions to a verdict, median over pairs of rankers", summaries,
            lambda one: one.impressions_to_verdict, lambda one: f"{one.impressions_to_verdict:,.0f}",
        )  # fmt: skip
    if any(summary.ndcg_to_mean is not None for summary in summaries):
        _print_by_method(
            "NDCG of the pages shown, in % of the mean of the rankers' own pages", summaries,
            lambda one: None if one.ndcg_to_mean is None else -one.ndcg_to_mean,
            lambda one: f"{100 * (one.ndcg_to_mean or 0.0):.1f}",
        )  # fmt: skip
    title = "Binary error against held-out NDCG@10, and against NDCG@10 on the queries issued"
    _print_by_method(
        title if held_out else "Binary error against NDCG@10 according to the qrels", summaries,
        lambda one: _errors(one)[0], lambda one: " ".join(f"{error:.3f}" for error in _errors(one)), floor=held_out,
    )  # fmt: skip
    runs = max(summary.runs for summary in summaries)
    meaning = "floor: the held-out error of someone who knows NDCG@10 on the queries issued exactly."
    meaning = meaning if held_out else "error: the share of pairs of systems in the wrong order."
    console.print(
        f"[dim]{grids[0].impressions:,} impressions, {runs} run{'' if runs == 1 else 's'} each; {meaning}[/dim]"
    )
    console.print(f"In {escape(str(out))}: {', '.join(written)}", soft_wrap=True)


def _errors(summary: "Summary") -> tuple[float, ...]:
    """Return the errors that are printed, the main one first."""
    both = summary.error_heldout, summary.error_same_queries
    return tuple(error for error in both if error is not None)


def _print_by_method(
    title: str,
    summaries: "list[Summary]",
    key: "Callable[[Summary], float | None]",
    text: "Callable[[Summary], str]",
    *,
    floor: bool = False,
) -> None:
    """Print a row for every data set, number of rankers and user, the method with the smallest key in green."""
    from rich.markup import escape

    methods = list(dict.fromkeys(summary.method for summary in summaries))
    table = rounded_table(("data", "rankers", "user"), methods, title=title)
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
