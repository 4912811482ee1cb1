"""`multileave demo`: simulated users compare rankers of known quality, with every method."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multileave.cli.printing import print_json, table_console
from multileave.errors import DataError

if TYPE_CHECKING:
    from rich.console import Console

    from multileave.data import QuerySet
    from multileave.methods.base import Method
    from multileave.outcome import Floats
    from multileave.study.engine import User

__all__ = ["compare", "demo"]

QUERIES, DOCUMENTS, GRADES, PAGE = 1000, 50, 5, 10
MOST_RANKERS = 100
MOST_LISTED = 8  # rankers that a line, and a matrix, of the tables can hold


def demo(
    rankers: Annotated[int, typer.Option(help="How many rankers to compare, 2 to 100.")] = 5,
    impressions: Annotated[int, typer.Option(help="How many result pages users see, per method.")] = 10_000,
    runs: Annotated[int, typer.Option(help="How often to repeat it all, for the mean error.")] = 20,
    user: Annotated[
        str, typer.Option(help="perfect, navigational, informational, almost_random or random.")
    ] = "navigational",
    seed: Annotated[str, typer.Option(help="A number or any text; the same seed, the same results.")] = "42",
    live: Annotated[
        bool, typer.Option("--live", help="Start the service, and let simulated users search through the client.")
    ] = False,
    port: Annotated[int, typer.Option(help="With --live: where the page is; 0 for any port that is free.")] = 8421,
    users: Annotated[int, typer.Option(help="With --live: how many different users search.")] = 500,
    seconds: Annotated[float, typer.Option(help="With --live: for how long; 0 until Ctrl+C.")] = 60.0,
    folder: Annotated[
        Path | None, typer.Option(help="With --live: where its database is kept; a temporary folder by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Let simulated users compare rankers of known quality, with every method; or on the running service, --live."""
    if live:
        from multileave.cli.demo_live import demo_live

        demo_live(port=port, users=users, seconds=seconds, folder=folder, seed=seed, as_json=as_json)
        return
    if not 2 <= rankers <= MOST_RANKERS:
        raise DataError(f"--rankers is {rankers}; the demo compares 2 to {MOST_RANKERS} rankers.")
    if impressions < 1:
        raise DataError(f"--impressions is {impressions}; expected a number from 1.")
    if runs < 1:
        raise DataError(f"--runs is {runs}; expected a number from 1.")
    report = _report(rankers, impressions, runs, user, seed)
    if as_json:
        print_json(report)
    else:
        _print_report(table_console(), report)


def _report(rankers: int, impressions: int, runs: int, user: str, seed: str) -> dict[str, Any]:
    from multileave.clicks import user as preset
    from multileave.data import ndcg, synthetic
    from multileave.methods.base import get_method
    from multileave.methods.base import methods as registered
    from multileave.study import best_first, score_differences

    clicker = preset(user, GRADES)
    able = [cls for cls in registered().values() if cls.most_rankers is None or rankers <= cls.most_rankers]
    number = int(seed) if seed.isdecimal() else seed
    data = synthetic(queries=QUERIES, documents=DOCUMENTS, rankers=rankers, grades=GRADES, seed=number)
    scores = ndcg(data)
    truth = score_differences(scores)
    with _progress(impressions * runs * len(able)) as step:
        results = []
        for cls in able:
            method = get_method(cls.name)
            seeds = [f"demo {seed} {method.name} {run}" for run in range(runs)]
            results.append(compare(data, method, clicker, truth, impressions, seeds, step))
    return {
        "settings": {
            "rankers": rankers,
            "impressions": impressions,
            "runs": runs,
            "user": user,
            "seed": number,
            "queries": QUERIES,
            "documents": DOCUMENTS,
            "k": PAGE,
        },
        "truth": {
            "ndcg@10": dict(zip(data.rankers, scores.tolist(), strict=True)),
            "order": [data.rankers[n] for n in best_first(truth)],
        },
        "methods": results,
    }


def compare(
    data: "QuerySet",
    method: "Method",
    user: "User",
    truth: "Floats",
    impressions: int,
    seeds: Sequence[str],
    step: Callable[[str, int], None],
) -> dict[str, Any]:
    """Run one method once for every seed; tell `step` what is going on.

    Return as plain values what the first run found, and the mean error of all runs on the way.
    """
    import numpy as np

    from multileave.data import ndcg
    from multileave.study import Simulation, best_first, binary_error, winner
    from multileave.study.power import impressions_to_verdict, quartiles, upper_pairs

    step(f"{method.name}: compiling, once per machine", 0)
    simulations = [Simulation(data, method, user, k=PAGE, seed=seed) for seed in seeds]
    simulations[0].compile()
    checkpoints = sorted({max(1, impressions // 100), max(1, impressions // 10), impressions})
    errors = dict.fromkeys(checkpoints, 0.0)
    seconds = 0.0
    for simulation in simulations:
        for checkpoint in checkpoints:
            before = simulation.impressions
            started = time.perf_counter()
            simulation.run(checkpoint - before)
            seconds += time.perf_counter() - started
            errors[checkpoint] += binary_error(simulation.preferences, truth) / len(seeds)
            step(f"{method.name}: users search and click", checkpoint - before)
    preferences = simulations[0].preferences
    best = winner(preferences)
    means = np.mean([s.preferences for s in simulations], axis=0) / impressions
    variances = np.mean([s.variances for s in simulations], axis=0)
    needed, _, _ = quartiles(impressions_to_verdict(upper_pairs(means), upper_pairs(variances)))
    shown = float(np.mean([s.ndcg_shown for s in simulations]))
    return {
        "method": str(method),
        "title": method.title,
        "winner": None if best is None else data.rankers[best],
        "order": [data.rankers[n] for n in best_first(preferences)],
        "preferences": (preferences / impressions).tolist(),
        "error": binary_error(preferences, truth),
        "mean_errors": [{"impressions": count, "error": error} for count, error in errors.items()],
        "impressions_to_verdict": needed if np.isfinite(needed) else None,
        "ndcg_shown": shown,
        "ndcg_to_mean": shown / float(ndcg(data, PAGE).mean()),
        "right_winners": sum(winner(s.preferences) == best_first(truth)[0] for s in simulations),
        "microseconds_per_impression": 1e6 * seconds / (impressions * len(seeds)),
    }


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str, int], None]]:
    """Show a bar on stderr, where that is a terminal; yield what moves it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("making up queries and rankers", total=total)

        def step(what: str, impressions: int) -> None:
            bar.update(task, description=what, advance=impressions)

        yield step


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
        "[dim]verdict after: pages after which a pair of rankers differs significantly with 80 % power, median over "
        "pairs.\n"
        "quality: NDCG of the pages shown meanwhile, in per cent of the mean of the rankers' own pages.\n"
        f"error: the share of pairs in the wrong order after {settings['impressions']:,} pages"
        f"{f', mean of {runs} runs' if runs > 1 else ''}; .5 is guessing.[/dim]\n"
    )
    if settings["rankers"] <= MOST_LISTED:
        _print_preferences(console, truth, results[0])
    else:
        console.print("[dim]The preferences between all pairs are in the output of --json.[/dim]\n")


def _print_methods(console: "Console", truth: dict[str, Any], results: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.ROUNDED)
    table.add_column("method", no_wrap=True, style="bold")
    table.add_column("order found, best first")
    table.add_column("winner", no_wrap=True)
    table.add_column("verdict\nafter", justify="right", no_wrap=True)
    table.add_column("quality", justify="right", no_wrap=True)
    table.add_column("error", justify="right", no_wrap=True)
    table.add_column("µs per\npage", justify="right", no_wrap=True)
    right = truth["order"]
    table.add_row("truth", _spell_order(right, right), right[0], style="cyan", end_section=True)
    for result in results:
        found = result["winner"] or "none"
        table.add_row(
            escape(result["method"]),
            _spell_order(result["order"], right),
            f"[green]{found}[/green]" if found == right[0] else f"[red]{found}[/red]",
            "" if result["impressions_to_verdict"] is None else f"{result['impressions_to_verdict']:,.0f}",
            f"{100 * result['ndcg_to_mean']:.1f} %",
            _paint_error(result["mean_errors"][-1]["error"]),
            f"{result['microseconds_per_impression']:.1f}",
        )
    console.print(table)


def _spell_order(order: list[str], right: list[str]) -> str:
    """Return "r1 > r2 > ...", with rankers out of their true place in red."""
    spelled = [name if name == true else f"[red]{name}[/red]" for name, true in zip(order, right, strict=True)]
    if len(spelled) > MOST_LISTED:
        spelled = [*spelled[: MOST_LISTED - 2], "...", spelled[-1]]
    return " > ".join(spelled)


def _paint_error(error: float) -> str:
    colour = "green" if error < 0.05 else "yellow" if error < 0.25 else "red"
    return f"[{colour}]{error:.2f}[/{colour}]"


def _print_preferences(console: "Console", truth: dict[str, Any], result: dict[str, Any]) -> None:
    from rich import box
    from rich.table import Table

    names = list(truth["ndcg@10"])
    places = [names.index(name) for name in truth["order"]]
    console.print(
        f"[bold]{result['method']}[/bold]: how much the ranker of a row is preferred to that of a column, per page"
    )
    table = Table(box=box.ROUNDED)
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
