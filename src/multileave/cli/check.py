"""`multileave check`: the properties of methods, as in the paper's Table 1."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multileave.cli.loading import Load, load
from multileave.cli.printing import print_json, progress, rounded_table, table_console
from multileave.cli.user_options import Attractiveness, UsersFrom

if TYPE_CHECKING:
    from multileave.theory import Finding, Report


def check(
    methods: Annotated[
        list[str] | None, typer.Argument(help="Methods, such as ppm or \"ppm(pairs='all')\"; all by default.")
    ] = None,
    documents: Annotated[int, typer.Option(help="Check all rankings of 2 to this many documents.")] = 3,
    rankers: Annotated[int, typer.Option(help="Number of rankers.")] = 3,
    k: Annotated[int | None, typer.Option(help="Number of documents shown; every k by default.")] = None,
    user: Annotated[
        str | None,
        typer.Option(
            help="Users for whom a better ranker must win: independent (all users with independent clicks, the "
            "default), perfect, navigational, informational or random; with --users-from also a model in the file, by "
            "default the one that fits best.",
            show_default=False,
        ),
    ] = None,
    users_from: UsersFrom = None,
    attractiveness: Attractiveness = "auto",
    search: Annotated[
        int | None, typer.Option(help="Try this many random and mutated instances instead of all instances.")
    ] = None,
    returned: Annotated[
        str | None,
        typer.Option(
            help="Number of documents each ranker returns, from the top of its ranking; the whole rankings decide "
            "which ranker is better. 'any' for every length. All by default.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed for the search.")] = 0,
    jobs: Annotated[int, typer.Option(help="Number of processes; one per core by default.")] = 0,
    reorder: Annotated[
        bool,
        typer.Option("--reorder", help="Faster: treat instances that differ only in the order of rankers as one."),
    ] = False,
    loads: Load = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Decide exactly whether methods are considerate, unbiased, faithful and clone-proof, as in the paper's Table 1."""
    from multileave.methods.base import get_method
    from multileave.methods.base import methods as registered
    from multileave.theory import check as decide
    from multileave.theory.users import named_user

    load(loads)
    person, name = named_user(user, users_from or (), attractiveness=attractiveness)
    number = int(returned) if returned is not None and returned.isdecimal() else returned
    chosen = [get_method(spec) for spec in methods or registered()]
    reports = []
    with _progress() as watch:
        for method in chosen:
            report = decide(
                method, documents, rankers, k, person, search, seed, jobs=jobs or os.cpu_count() or 1,
                reorder=reorder, progress=watch(str(method)), returned=number, user_name=name,
            )  # fmt: skip
            reports.append(report)
    if as_json:
        print_json({"reports": [report.to_dict() for report in reports]})
    else:
        _print_table(reports)


@contextmanager
def _progress() -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """Show progress on stderr; yield a function that adds a bar for a method and returns its callback."""
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

    left = TimeRemainingColumn(elapsed_when_finished=True)
    # Without a refresh thread, as the check forks.
    with progress("{task.description:<24}", BarColumn(), MofNCompleteColumn(), left, auto_refresh=False) as bar:

        def watch(name: str) -> Callable[[int, int], None]:
            task = bar.add_task(name, total=None)

            def step(done: int, total: int) -> None:
                bar.update(task, completed=done, total=total)
                if done == total or done % max(1, total // 100) == 0:
                    bar.refresh()

            return step

        yield watch


def _print_table(reports: "list[Report]") -> None:
    from rich.markup import escape

    first = reports[0]
    console = table_console()
    table = rounded_table(show_lines=True)
    table.add_column("method", no_wrap=True, style="bold")
    for name in ("considerate", "unbiased", f"Pareto, {first.user} clicks", "clone-proof"):
        table.add_column(name, overflow="fold", ratio=1)
    for report in reports:
        table.add_row(escape(report.method), *(_cell(report, finding) for finding in report.findings))
    console.print(table)
    if first.searched:
        console.print(f"[dim]Searched instances of {first.documents} documents and {first.rankers} rankers.[/dim]")
    for report in reports:
        for line in _remarks(report):
            console.print(f"[dim]{escape(line)}[/dim]")


def _cell(report: "Report", finding: "Finding") -> str:
    from rich.markup import escape

    if finding.counterexample is not None:
        if report.searched:
            return f"[red]no[/red]: {escape(str(finding.counterexample))}"
        return f"[red]no[/red], {finding.violations:,} of {finding.instances:,}: {escape(str(finding.counterexample))}"
    if finding.covers.startswith("nobody"):
        return "not checked"
    if report.searched:
        return f"no violation found in {report.searched:,} instances"
    size = f"holds for all <= {report.documents} documents, {report.rankers} rankers"
    return f"[green]proved[/green]; {size}" if finding.proved else f"[green]{size}[/green]"


def _remarks(report: "Report") -> Iterator[str]:
    if not report.exact:
        yield f"{report.method} has no definition, so this is not exact: {report.draws:,} simulated draws per instance."
    if not report.pareto.covers.startswith("nobody"):
        yield f"{report.method}: Pareto applies to {report.pareto.covers}; unbiased to {report.unbiased.covers}."
    if report.infeasible:
        names: dict[Any, list[int]] = {}
        for rankings, k in report.infeasible:
            names.setdefault(" / ".join("".join(map(str, ranking)) for ranking in rankings), []).append(k)
        listed = "; ".join(f"{rankings} (k={', '.join(map(str, ks))})" for rankings, ks in names.items())
        yield f"{report.method} is infeasible for {len(names)} sets of rankings, which are left out above: {listed}."
