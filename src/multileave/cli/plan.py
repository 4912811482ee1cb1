"""`multileave plan`: how many users it takes until a difference is seen."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multileave.cli.printing import print_json, table_console
from multileave.errors import TallyError

if TYPE_CHECKING:
    from multileave.stats import Plan, Tally
    from multileave.study.results import RunResult

__all__ = ["plan"]


def plan(
    source: Annotated[
        Path | None,
        typer.Argument(
            help="A tally's JSON file, or a study's folder; else --pilot names a log, or --effect and --sd assumptions."
        ),
    ] = None,
    pilot: Annotated[
        list[str] | None,
        typer.Option(help="Files, folders or URIs of a pilot's log, as multileave replay reads them."),
    ] = None,
    clicks: Annotated[
        list[str] | None, typer.Option(help="Of a pilot: files of clicks that are not in the impressions' rows.")
    ] = None,
    unit: Annotated[
        str, typer.Option(help="Of a pilot: the column of what is independent; 'none' for none.")
    ] = "user_id",
    action: Annotated[str, typer.Option(help="Of a pilot: what counts as a click.")] = "click",
    method: Annotated[
        str | None, typer.Option(help="Of a pilot: which method's impressions, where there are several.")
    ] = None,
    effect: Annotated[
        float | None,
        typer.Option(help="The preference per impression to see; that of each pair of the tally by default."),
    ] = None,
    sd: Annotated[float | None, typer.Option(help="Standard deviation of one impression's preference.")] = None,
    impressions_per_user: Annotated[float, typer.Option(help="Mean impressions of a user.")] = 1.0,
    correlation: Annotated[float, typer.Option(help="How alike two impressions of one user are, 0 to 1.")] = 0.1,
    spread: Annotated[
        float, typer.Option(help="Standard deviation of users' impressions over their mean; 0 if all are as active.")
    ] = 0.0,
    pairs: Annotated[
        int | None, typer.Option(help="How many pairs of rankers are compared; all of the tally's by default.")
    ] = None,
    pair: Annotated[
        tuple[str, str] | None, typer.Option(help="Two rankers of the tally: plan for this pair only.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the verdict.")] = 0.95,
    power: Annotated[float, typer.Option(help="The chance to see the difference.")] = 0.8,
    anytime: Annotated[
        bool, typer.Option("--anytime", help="Plan for a verdict that is valid at any time, at its last look.")
    ] = False,
    error: Annotated[
        float, typer.Option(help="Of a study: the share of pairs in the wrong order that is good enough.")
    ] = 0.1,
    plot: Annotated[Path | None, typer.Option(help="Write the power curve to this PNG, PDF or SVG file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Say how many users or impressions it takes until a difference of a given size is seen."""
    if pilot and source is not None:
        raise TallyError(
            f"a plan is made from {source} or from the log given by --pilot, not from both. Leave one out."
        )
    if clicks and not pilot:
        raise TallyError("--clicks belong to a pilot's log. Give its impressions by --pilot.")
    if source is not None and source.is_dir():
        _plan_study(source, error, plot, as_json=as_json)
        return
    options = {"confidence": confidence, "power": power, "interval": "anytime" if anytime else "clustered"}
    if pilot:
        plans = _of_tally(_replayed(pilot, clicks, unit, action, method), effect, pair, pairs, options)
    elif source is None:
        plans = [("", _assumed(effect, sd, impressions_per_user, correlation, spread, pairs, options))]
    else:
        plans = _of_tally(_read_tally(source), effect, pair, pairs, options)
    largest = max((made for _, made in plans), key=lambda made: made.units)
    if plot is not None:
        from multileave.stats.plots import power_curve, save

        save(power_curve(largest), plot)
    if as_json:
        print_json({"plans": [{"pair": name, **made.to_dict()} for name, made in plans]})
        return
    if len(plans) > 1:
        _print_plans(plans)
    else:
        name, made = plans[0]
        print(f"{name}: {made}" if name else made)
    if plot is not None:
        print(f"power curve: {plot}")


def _assumed(
    effect: float | None,
    sd: float | None,
    impressions: float,
    correlation: float,
    spread: float,
    pairs: int | None,
    options: dict[str, Any],
) -> "Plan":
    from multileave.stats import Design
    from multileave.stats import plan as make

    if effect is None or sd is None:
        missing = " and ".join(name for name, value in (("--effect", effect), ("--sd", sd)) if value is None)
        raise TallyError(
            f"a plan needs {missing}: the preference per impression to see, and the standard deviation of one "
            "impression's. Give both, or a tally's JSON file, a pilot's log (--pilot) or a study's folder."
        )
    design = Design.assumed(sd, impressions, correlation=correlation, spread=spread)
    return make(design, effect, comparisons=1 if pairs is None else pairs, **options)


def _replayed(paths: list[str], clicks: list[str] | None, unit: str, action: str, method: str | None) -> "Tally":
    """Return what a pilot's log adds up to; what is wrong with it is said on stderr."""
    from multileave.cli.replay import print_wrong, progress_bar
    from multileave.replay import replay

    with progress_bar() as step:
        found = replay(
            paths, clicks=clicks or None, unit=None if unit == "none" else unit, actions=[action], progress=step
        )
    print_wrong(found)
    return found.tally(action, method)


def _read_tally(path: Path) -> "Tally":
    from multileave.stats import Tally

    try:
        return Tally.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise TallyError(
            f"{path} cannot be read: {error.strerror}. Give a file with the JSON of Tally.to_dict, or a study's folder."
        ) from error
    except ValueError as error:
        if isinstance(error, TallyError):
            raise
        raise TallyError(f"{path} holds no JSON ({error}). Give a file with the JSON of Tally.to_dict.") from error


def _of_tally(
    tally: "Tally", effect: float | None, pair: tuple[str, str] | None, pairs: int | None, options: dict[str, Any]
) -> "list[tuple[str, Plan]]":
    """Return a plan for each pair of the tally that varies, most users last."""
    from multileave.stats import Design
    from multileave.stats import plan as make
    from multileave.stats.intervals.moments import pair_positions

    tally.check_units("a plan")
    moments = tally.moments()
    wanted = None if pair is None else {tally.verdict().pair(*pair).rankers, pair, pair[::-1]}
    found, open_pairs = [], []
    comparisons = len(moments.totals) if pairs is None else pairs
    for n, m, design, mean in zip(
        *pair_positions(len(tally.rankers)), Design.of_moments(moments), moments.means, strict=True
    ):
        names = (tally.rankers[n], tally.rankers[m])
        if wanted is not None and names not in wanted:
            continue
        size = float(mean) if effect is None else effect
        if design is None or size == 0.0:
            open_pairs.append(" and ".join(names))
            continue
        found.append((" / ".join(names), make(design, size, comparisons=comparisons, **options)))
    if not found:
        raise TallyError(
            f"the tally's {moments.impressions:,} impressions show no preference between {'; '.join(open_pairs)}, so "
            "nothing is known of how preferences vary. Are clicks logged? Or plan from --effect and --sd."
        )
    return sorted(found, key=lambda one: one[1].units)


def _print_plans(plans: "Sequence[tuple[str, Plan]]") -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    first = plans[0][1]
    looks = "as many looks as you like" if first.interval == "anytime" else "one look at the end"
    table = Table(box=box.ROUNDED)
    table.add_column("pair", no_wrap=True)
    for name in ("preference to see", "users", "impressions"):
        table.add_column(name, justify="right")
    for name, made in plans:
        table.add_row(escape(name), f"{made.effect:.3g}", f"{made.units:,}", f"{made.impressions:,}")
    console = table_console()
    console.print(table)
    console.print(
        f"[dim]{100 * first.power:g} % power at {100 * first.confidence:g} % confidence, {looks}; "
        f"{first.comparisons} pairs share the chance of a false alarm.[/dim]"
    )


def _plan_study(folder: Path, error: float, plot: Path | None, *, as_json: bool) -> None:
    """Say after how many impressions a study's methods have so few pairs in the wrong order."""
    from multileave.study.results import RunResult, gather

    if not 0.0 < error < 1.0:
        raise TallyError(f"--error is {error:g}; expected a share of pairs between 0 and 1, such as 0.1.")
    if plot is not None:
        raise TallyError("--plot draws the power curve of a tally or of assumptions; a study has its own figures.")
    files = sorted((folder / "runs").rglob("*.json"))
    if not files:
        raise TallyError(f"{folder} holds no results of a study (runs/**/*.json). Run multileave study --out first.")
    cells = gather(
        (RunResult.read(path) for path in files), lambda run: (run.dataset, run.rankers, run.user, run.method)
    )
    found = []
    for (dataset, rankers, user, method), runs in cells.items():
        needed, last, at_end = _impressions_until(runs, error)
        found.append(
            {
                "dataset": dataset, "rankers": rankers, "user": user, "method": method, "error": error,
                "impressions": needed, "simulated": last, "error_at_end": at_end, "runs": len(runs),
            }
        )  # fmt: skip
    if as_json:
        print_json({"plans": found})
    else:
        _print_study(found, error)


def _impressions_until(runs: "Sequence[RunResult]", error: float) -> tuple[int | None, int, float]:
    """Return the impressions from which on the mean error stays at or below a share, how many there were, and its end.

    The error is that against the truth on the queries that users issued: the part that more impressions mend.
    """
    import math

    points = runs[0].impressions
    means = [math.fsum(run.error_same_queries[at] for run in runs) / len(runs) for at in range(len(points))]
    above = max((at for at, mean in enumerate(means) if mean > error), default=-1)
    if above + 1 == len(points):
        return None, points[-1], means[-1]
    if above < 0:
        return points[0], points[-1], means[-1]
    # Between two checkpoints the error is taken to fall on a straight line over the logarithm of impressions.
    part = (means[above] - error) / (means[above] - means[above + 1])
    start, end = math.log(max(points[above], 1)), math.log(points[above + 1])
    return math.ceil(math.exp(start + part * (end - start))), points[-1], means[-1]


def _print_study(found: list[dict[str, Any]], error: float) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.ROUNDED)
    for name in ("data", "rankers", "user", "method"):
        table.add_column(name, no_wrap=name != "method")
    table.add_column("impressions", justify="right")
    for one in found:
        needed = one["impressions"]
        shown = f"{needed:,}" if needed is not None else f"> {one['simulated']:,} ({one['error_at_end']:.3f})"
        table.add_row(escape(one["dataset"]), str(one["rankers"]), escape(one["user"]), escape(one["method"]), shown)
    console = table_console()
    console.print(table)
    console.print(
        f"[dim]Impressions until {100 * error:g} % of the pairs or fewer are in the wrong order, against NDCG@10 on "
        "the queries issued, mean of all runs; in brackets the error at the end where it was not reached.[/dim]"
    )
