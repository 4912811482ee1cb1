"""`multileave demo`: simulated users compare rankers of known quality, with every method."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multileave.cli.printing import impressions_bar, print_json, rounded_table, table_console
from multileave.cli.user_options import Attractiveness, UserName, UsersFrom
from multileave.errors import DataError

if TYPE_CHECKING:
    from rich.console import Console

LETTERS = {"considerate": "C", "unbiased": "U", "finds a better ranker": "F", "clone-proof": "P"}
SOUND = 0.05  # share of pairs that may be wrong
MOST_LISTED = 8  # rankers that fit on a line, or into a matrix


def demo(
    rankers: Annotated[int, typer.Option(help="Number of rankers to compare, 2 to 100.")] = 5,
    impressions: Annotated[int, typer.Option(help="Number of result pages that users see, per method.")] = 10_000,
    runs: Annotated[int, typer.Option(help="How often to repeat everything, for the mean error.")] = 20,
    user: UserName = None,
    users_from: UsersFrom = None,
    attractiveness: Attractiveness = "auto",
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
    open_browser: Annotated[
        bool, typer.Option("--open", help="With --live: open the dashboard in your browser.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Let simulated users compare rankers of known quality with every method, or with --live through the service."""
    if live:
        from multileave.cli.demo_live import demo_live
        from multileave.study.users import user_for

        demo_live(
            port=port, users=users, seconds=seconds, folder=folder, seed=seed, open_browser=open_browser,
            as_json=as_json, clicker=lambda data, k: user_for(data, k, user, users_from or (), attractiveness),
        )  # fmt: skip
        return
    if open_browser:
        raise DataError("--open opens the dashboard, which only --live has. Add --live, or leave out --open.")
    from multileave.study.demo import run_demo

    number = int(seed) if seed.isdecimal() else seed
    with impressions_bar() as tell:
        report = run_demo(
            rankers=rankers, impressions=impressions, runs=runs, user=user, users_from=users_from or (),
            attractiveness=attractiveness, seed=number, progress=tell,
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
        f"in each of {runs} runs ({settings['queries']:,} synthetic queries).\n"
    )
    _print_methods(console, truth, results)
    console.print(
        "[dim]verdict after: pages until a pair of rankers differs significantly (80 % power), median over pairs.\n"
        f"wrong pairs: share of pairs in the wrong order, after {runs * settings['impressions']:,} pages.\n"
        "quality: NDCG of these pages, relative to the mean of the rankers' own pages.\n"
        "false alarms: share of pairs that differ significantly although users click at random; 5 % by chance.\n"
        "proved: C considerate, U unbiased, F finds a better ranker, P clone-proof (see multileave methods).[/dim]\n"
    )
    console.print(f"{_conclusion(results)}\n")
    if settings["rankers"] <= MOST_LISTED:
        _print_preferences(console, truth, results[0])
    else:
        console.print("[dim]Use --json for the preferences between all pairs.[/dim]\n")


def _print_methods(console: "Console", truth: dict[str, Any], results: list[dict[str, Any]]) -> None:
    from rich.markup import escape

    table = rounded_table((), ())
    table.add_column("method", no_wrap=True, style="bold")
    table.add_column("winner", no_wrap=True)
    for name in ("verdict\nafter", "wrong\npairs", "quality", "false\nalarms", "proved", "µs per\npage"):
        table.add_column(name, justify="right", no_wrap=True)
    right = truth["order"]
    table.add_row("truth", right[0], style="cyan", end_section=True)
    for result in results:
        found, wrong, alarms = result["winner"] or "none", result["long_run_error"], result["false_alarms"]
        table.add_row(
            escape(result["method"]),
            f"[{'green' if found == right[0] else 'red'}]{escape(found)}[/]",
            "" if result["impressions_to_verdict"] is None else f"{result['impressions_to_verdict']:,.0f}",
            f"[{'green' if wrong < SOUND else 'red'}]{100 * wrong:.0f} %[/]",
            f"{100 * result['ndcg_to_mean']:.0f} %",
            f"[{'green' if alarms < 2 * SOUND else 'red'}]{100 * alarms:.0f} %[/]",
            " ".join(LETTERS[name] for name in result["guarantees"]),
            f"{result['microseconds_per_impression']:.1f}",
        )
    console.print(table)


def _conclusion(results: list[dict[str, Any]]) -> str:
    """Return from the figures why the recommended method is recommended, and where others are better."""
    from multileave.methods.base import methods

    ours = next(result for result in results if methods()[result["name"]].recommended)
    unsound = [r["name"] for r in results if r["long_run_error"] >= SOUND or r["false_alarms"] >= 2 * SOUND]
    needed = ours["impressions_to_verdict"]
    faster = [r for r in results if needed and (r["impressions_to_verdict"] or needed) < needed]
    sound = [f"{r['name']} (quality {100 * r['ndcg_to_mean']:.0f} %)" for r in faster if r["name"] not in unsound]
    words = f"Recommended: {ours['name']}, with pages of {100 * ours['ndcg_to_mean']:.0f} % quality."
    if unsound:
        words += f" In the long run, {' and '.join(unsound)} prefer wrong rankers or see differences that do not exist."
    if sound:
        words += f" Fewer pages here: {', '.join(sound)}."
    return words


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
