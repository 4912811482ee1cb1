"""`multileave demo`: simulated users compare rankers of known quality, with every method."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multileave.cli.printing import impressions_bar, print_json, rounded_table, table_console

if TYPE_CHECKING:
    from rich.console import Console

MOST_LISTED = 8  # rankers that fit on a line, or into a matrix


def demo(
    rankers: Annotated[int, typer.Option(help="Number of rankers to compare, 2 to 100.")] = 5,
    impressions: Annotated[int, typer.Option(help="Number of result pages that users see, per method.")] = 10_000,
    runs: Annotated[int, typer.Option(help="How often to repeat everything, for the mean error.")] = 20,
    user: Annotated[
        str, typer.Option(help="perfect, navigational, informational, almost_random or random.")
    ] = "navigational",
    seed: Annotated[str, typer.Option(help="A number or any text; the same seed gives the same results.")] = "42",
    live: Annotated[
        bool, typer.Option("--live", help="Start the service and let simulated users search through the client.")
    ] = False,
    port: Annotated[int, typer.Option(help="With --live: port of the dashboard; 0 for any free port.")] = 8421,
    users: Annotated[int, typer.Option(help="With --live: number of users who search.")] = 500,
    seconds: Annotated[float, typer.Option(help="With --live: how long to run; 0 until Ctrl+C.")] = 60.0,
    folder: Annotated[
        Path | None, typer.Option(help="With --live: folder of the database; a temporary one by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Let simulated users compare rankers of known quality with every method, or with --live through the service."""
    if live:
        from multileave.cli.demo_live import demo_live

        demo_live(port=port, users=users, seconds=seconds, folder=folder, seed=seed, as_json=as_json)
        return
    from multileave.study.demo import run_demo

    number = int(seed) if seed.isdecimal() else seed
    with impressions_bar() as tell:
        report = run_demo(
            rankers=rankers, impressions=impressions, runs=runs, user=user, seed=number, progress=tell
        )  # fmt: skip
    if as_json:
        print_json(report)
    else:
        _print_report(table_console(), report)


def _print_report(console: "Console", report: dict[str, Any]) -> None:
    settings, truth, results = report["settings"], report["truth"], report["methods"]
    runs = settings["runs"]
    console.print(
        f"\n[bold]Which of {settings['rankers']} rankers do users prefer?[/bold]\n"
        f"Each method shows {settings['impressions']:,} pages of {settings['k']} results to {settings['user']} users "
        f"({settings['queries']:,} synthetic queries).\n"
    )
    _print_methods(console, truth, results)
    console.print(
        "[dim]verdict after: pages until a pair of rankers differs significantly (80 % power), median over pairs.\n"
        "quality: NDCG of these pages, relative to the mean of the rankers' own pages.\n"
        f"error: share of pairs in the wrong order after {settings['impressions']:,} pages"
        f"{f', mean of {runs} runs' if runs > 1 else ''}; .5 is guessing.[/dim]\n"
    )
    if settings["rankers"] <= MOST_LISTED:
        _print_preferences(console, truth, results[0])
    else:
        console.print("[dim]Use --json for the preferences between all pairs.[/dim]\n")


def _print_methods(console: "Console", truth: dict[str, Any], results: list[dict[str, Any]]) -> None:
    from rich.markup import escape

    table = rounded_table((), ())
    table.add_column("method", no_wrap=True, style="bold")
    table.add_column("order found, best first")
    table.add_column("winner", no_wrap=True)
    for name in ("verdict\nafter", "quality", "error", "µs per\npage"):
        table.add_column(name, justify="right", no_wrap=True)
    right = truth["order"]
    table.add_row("truth", _spell_order(right, right), right[0], style="cyan", end_section=True)
    for result in results:
        found, error = result["winner"] or "none", result["mean_errors"][-1]["error"]
        table.add_row(
            escape(result["method"]),
            _spell_order(result["order"], right),
            f"[{'green' if found == right[0] else 'red'}]{found}[/]",
            "" if result["impressions_to_verdict"] is None else f"{result['impressions_to_verdict']:,.0f}",
            f"{100 * result['ndcg_to_mean']:.1f} %",
            f"[{'green' if error < 0.05 else 'yellow' if error < 0.25 else 'red'}]{error:.2f}[/]",
            f"{result['microseconds_per_impression']:.1f}",
        )
    console.print(table)


def _spell_order(order: list[str], right: list[str]) -> str:
    """Return "r1 > r2 > ...", with misplaced rankers in red."""
    spelled = [name if name == true else f"[red]{name}[/red]" for name, true in zip(order, right, strict=True)]
    if len(spelled) > MOST_LISTED:
        spelled = [*spelled[: MOST_LISTED - 2], "...", spelled[-1]]
    return " > ".join(spelled)


def _print_preferences(console: "Console", truth: dict[str, Any], result: dict[str, Any]) -> None:
    names = list(truth["ndcg@10"])
    places = [names.index(name) for name in truth["order"]]
    console.print(f"[bold]{result['method']}[/bold]: preference for the row's ranker over the column's, per page")
    table = rounded_table((), ())
    table.add_column("", style="bold")
    table.add_column("true\nNDCG@10", justify="right", style="cyan")
    for n in places:
        table.add_column(names[n], justify="right", vertical="bottom")
    for row, n in enumerate(places):
        cells = []
        for column, m in enumerate(places):
            value = result["preferences"][n][m]
            colour = "green" if (value > 0) == (row < column) else "red"
            cells.append("" if n == m else f"[{colour}]{value:+.3f}[/{colour}]")
        table.add_row(names[n], f"{truth['ndcg@10'][names[n]]:.3f}", *cells)
    console.print(table)
    pairs = len(names) * (len(names) - 1) // 2
    wrong = round(result["error"] * pairs)
    found = "no ranker beats all others" if result["winner"] is None else f"{result['winner']} beats all others"
    console.print(
        f"\n[bold]{result['title']}: {found}; {pairs - wrong} of {pairs} pairs are in the right order.[/bold]\n"
    )
