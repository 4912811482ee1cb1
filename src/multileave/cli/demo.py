"""`multileave demo`: simulated users compare rankers of known quality, with every method."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multileave.cli.printing import print_json, progress, rounded_table, table_console
from multileave.cli.user_options import Attractiveness, UserName, UsersFrom
from multileave.errors import DataError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from multileave.study.demo import Report

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
    from rich.progress import BarColumn

    from multileave.study.demo import run_demo

    shown: list[Table] = []
    with progress(BarColumn(), "{task.description}", above=shown) as bar:
        task = bar.add_task("making queries and rankers", total=None)

        def tell(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=what)

        def show(report: "Report") -> None:
            shown[:] = [_methods_table(report)]

        report = run_demo(
            rankers=rankers, impressions=impressions, runs=runs, user=user, users_from=users_from or (),
            attractiveness=attractiveness, seed=int(seed) if seed.isdecimal() else seed, progress=tell, show=show,
        )  # fmt: skip
    if as_json:
        print_json(report)
    else:
        _print_report(table_console(), report)


def _print_report(console: "Console", report: "Report") -> None:
    settings, results = report["settings"], report["methods"]
    runs = settings["runs"]
    console.print(
        f"\n[bold]Which of {settings['rankers']} rankers do users prefer?[/bold]\n"
        f"The best is {report['truth']['order'][0]}: rankers, queries and users are simulated, so the truth is known. "
        f"Each method shows {settings['impressions']:,} pages of {settings['k']} results to {settings['user']} users, "
        f"{runs} times.\n"
    )
    console.print(_methods_table(report))
    console.print(
        "[dim]pages to verdict: until two rankers differ significantly (80 % power), median over pairs.\n"
        f"wrong pairs: share of pairs in the wrong order, after {runs * settings['impressions']:,} pages.\n"
        "page quality: NDCG of the pages users saw; 100 % is the mean of the rankers' own pages.\n"
        "false alarms: share of pairs that differ significantly if users click at random; 5 % by chance.\n"
        "proved: C considerate, U unbiased, F finds a better ranker, P clone-proof (see multileave methods).[/dim]\n"
    )
    console.print("\n".join(_conclusions(report)) + "\n")
    if settings["rankers"] <= MOST_LISTED:
        _print_preferences(console, report["truth"], results[0])
    else:
        console.print("[dim]Use --json for the preferences between all pairs.[/dim]\n")
    console.print(
        "[dim]Next: multileave demo --live shows a running experiment; multileave compare a.run b.run shows where your "
        "own rankers differ.[/dim]"
    )


def _methods_table(report: "Report") -> "Table":
    from rich.markup import escape

    table = rounded_table((), ())
    table.add_column("method")
    table.add_column("winner", no_wrap=True)
    for name in ("pages to\nverdict", "wrong\npairs", "page\nquality", "false\nalarms", "proved"):
        table.add_column(name, justify="right", no_wrap=True)
    best = report["truth"]["order"][0]
    table.add_row("the truth", best, style="cyan", end_section=True)
    for result in report["methods"]:
        found, wrong, alarms = result["winner"] or "none", result["long_run_error"], result["false_alarms"]
        table.add_row(
            f"[bold]{escape(result['method'])}[/bold] {escape(result['title'].removesuffix(' Multileaving').lower())}",
            f"[{'green' if found == best else 'red'}]{escape(found)}[/]",
            "" if result["impressions_to_verdict"] is None else f"{result['impressions_to_verdict']:,.0f}",
            f"[{'green' if wrong < SOUND else 'red'}]{100 * wrong:.0f} %[/]",
            _percent(result["ndcg_to_mean"]),
            f"[{'green' if alarms < 2 * SOUND else 'red'}]{100 * alarms:.0f} %[/]",
            "".join(LETTERS[name] for name in result["guarantees"]),
        )
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _conclusions(report: "Report") -> Iterator[str]:
    """Yield from the figures why the recommended method is recommended, and where others are better."""
    from multileave.methods.base import methods

    found = {result["name"]: result for result in report["methods"]}
    ours = next(result for result in found.values() if methods()[result["name"]].recommended)
    usual, needed, quality = found["tdm"], ours["impressions_to_verdict"], _percent(ours["ndcg_to_mean"])
    if needed and usual["impressions_to_verdict"]:
        yield (
            f"Recommended: {ours['name']}. It needs {needed:,.0f} pages for a verdict, team draft "
            f"{usual['impressions_to_verdict']:,.0f}; page quality is {quality} and {_percent(usual['ndcg_to_mean'])}."
        )
    else:
        yield f"Recommended: {ours['name']}, with a page quality of {quality}."
    unsound = {
        name: [
            f"{_percent(result[key])} {words}"
            for key, words, most in (
                ("long_run_error", "wrong pairs", SOUND),
                ("false_alarms", "false alarms", 2 * SOUND),
            )
            if result[key] >= most
        ]
        for name, result in found.items()
    }
    sooner = [
        f"{name} ({result['impressions_to_verdict']:,.0f}, page quality {_percent(result['ndcg_to_mean'])})"
        for name, result in found.items()
        if needed and (result["impressions_to_verdict"] or needed) < needed and not unsound[name]
    ]
    if sooner:
        yield f"Fewer pages for a verdict: {', '.join(sooner)}."
    if any(unsound.values()):
        reasons = (f"{name} ({', '.join(why)})" for name, why in unsound.items() if why)
        yield f"Not to be trusted here: {', '.join(reasons)}."


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
