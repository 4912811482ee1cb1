"""`multileave plan`: how many users it takes to detect a difference."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multileave.cli.printing import print_json, rounded_table, table_console
from multileave.cli.user_options import Attractiveness, UserName, UsersFrom
from multileave.errors import TallyError

if TYPE_CHECKING:
    from multileave.stats import Plan, Tally

NO_AB = (
    "What an A/B test would take is unknown, as it depends on how much clicks per page differ. Name the lift to detect "
    "with --lift, or interleave with a method that estimates it, such as dpm."
)


def plan(
    source: Annotated[
        Path | None,
        typer.Argument(
            help="JSON file of a tally, or folder of a study; without one, name a log with --pilot, run files with "
            "--runs, or give --effect and --sd."
        ),
    ] = None,
    pilot: Annotated[
        list[str] | None,
        typer.Option(help="Files, folders or URIs of a pilot's log, as multileave replay reads them."),
    ] = None,
    clicks: Annotated[
        list[str] | None, typer.Option(help="With --pilot: files of clicks, if they are separate from impressions.")
    ] = None,
    unit: Annotated[
        str, typer.Option(help="With --pilot: column that identifies the unit (user or session); 'none' for none.")
    ] = "user_id",
    action: Annotated[str, typer.Option(help="With --pilot: action that counts as a click.")] = "click",
    method: Annotated[
        str | None,
        typer.Option(
            help="With --pilot: method whose impressions to use, if there are several. With --runs: the method that "
            "users see; the recommended one by default."
        ),
    ] = None,
    runs: Annotated[
        list[str] | None,
        typer.Option(help="TREC run files of systems that simulated users compare, judged by --qrels."),
    ] = None,
    qrels: Annotated[Path | None, typer.Option(help="With --runs: qrels file that judges the run files.")] = None,
    user: UserName = None,
    users_from: UsersFrom = None,
    attractiveness: Attractiveness = "auto",
    simulated: Annotated[int, typer.Option(help="With --runs: number of impressions to simulate.")] = 400_000,
    k: Annotated[int, typer.Option("--k", help="With --runs: results per page.")] = 10,
    seed: Annotated[int, typer.Option(help="With --runs: seed of the simulated users.")] = 42,
    effect: Annotated[
        float | None,
        typer.Option(help="Preference per impression to detect; by default that of each pair of the tally."),
    ] = None,
    sd: Annotated[float | None, typer.Option(help="Standard deviation of a single impression's preference.")] = None,
    impressions_per_user: Annotated[float, typer.Option(help="Mean number of impressions per user.")] = 1.0,
    correlation: Annotated[float, typer.Option(help="Correlation between two impressions of one user, 0 to 1.")] = 0.1,
    spread: Annotated[
        float, typer.Option(help="Standard deviation of impressions per user, divided by their mean.")
    ] = 0.0,
    lift: Annotated[
        float | None,
        typer.Option(
            help="With a tally or --pilot: the lift in clicks per page that an A/B test is to detect, 0.02 for 2 %; by "
            "default what the tally's rates say of each pair."
        ),
    ] = None,
    pairs: Annotated[
        int | None, typer.Option(help="Number of pairs of rankers to correct for; all of the tally's by default.")
    ] = None,
    pair: Annotated[
        tuple[str, str] | None, typer.Option(help="Two rankers of the tally: plan for this pair only.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence level of the verdict.")] = 0.95,
    power: Annotated[float, typer.Option(help="Probability of detecting the difference.")] = 0.8,
    anytime: Annotated[
        bool, typer.Option("--anytime", help="Plan for a verdict that is valid at any time; it may stop early.")
    ] = False,
    looks: Annotated[
        int | None, typer.Option(help="Plan for this number of equally spaced looks; it may stop at each.")
    ] = None,
    spending: Annotated[
        str | None, typer.Option(help="With --looks: obrien-fleming (hard to stop early, the default) or pocock.")
    ] = None,
    error: Annotated[float, typer.Option(help="With a study: acceptable share of pairs in the wrong order.")] = 0.1,
    plot: Annotated[Path | None, typer.Option(help="Write the power curve to this PNG, PDF or SVG file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Compute how many users or impressions it takes to detect a difference of a given size.

    From a tally, a log or run files, also how many an A/B test of all rankers would take.
    """
    if pilot and source is not None:
        raise TallyError(f"Both {source} and a log (--pilot) are given. Plan from one of them.")
    if clicks and not pilot:
        raise TallyError("--clicks belong to the log of a pilot. Name its impressions with --pilot.")
    if runs and (pilot or source is not None):
        raise TallyError("Both run files (--runs) and a log, a tally or a study are given. Plan from one of them.")
    if (qrels or user or users_from) and not runs:
        raise TallyError("--qrels, --user and --users-from are for run files. Name these with --runs.")
    if lift is not None and not pilot and (source is None or source.is_dir()):
        raise TallyError("--lift is relative to the clicks of a tally or a log. Name one (--pilot), or leave it out.")
    if anytime and looks is not None:
        raise TallyError("Both --anytime and --looks are given. Plan for any number of looks, or for scheduled ones.")
    if source is not None and source.is_dir():
        _plan_study(source, error, plot, as_json=as_json)
        return
    from multileave.stats import Design, plan_pairs
    from multileave.stats import plan as make

    options: dict[str, Any] = {
        "confidence": confidence, "power": power, "looks": looks, "spending": spending,
        "interval": "anytime" if anytime else "scheduled" if looks is not None else "clustered",
    }  # fmt: skip
    plans: list[tuple[str, Plan]]
    close: list[str] = []
    if runs:
        plans, close = _simulated(
            runs, qrels, method=method or "recommended", user=user, users_from=users_from or (),
            attractiveness=attractiveness, k=k, simulated=simulated, seed=seed, effect=effect, pair=pair,
            comparisons=pairs, design=lambda deviation: Design.assumed(
                deviation, impressions_per_user, correlation=correlation, spread=spread
            ), **options,
        )  # fmt: skip
    elif pilot or source is not None:
        tally = _replayed(pilot, clicks, unit, action, method) if pilot else _read_tally(str(source))
        of_pairs = plan_pairs(tally, effect, pair=pair, comparisons=pairs, lift=lift, **options)
        plans = [(" / ".join(names), made) for names, made in of_pairs]
    else:
        if effect is None or sd is None:
            missing = " and ".join(name for name, value in (("--effect", effect), ("--sd", sd)) if value is None)
            raise TallyError(
                f"A plan needs {missing}: --effect is the preference per impression to detect, --sd the standard "
                "deviation of a single impression's. Give both, or a tally's JSON file, a pilot's log (--pilot), run "
                "files (--runs) or a study's folder."
            )
        if pair is not None:
            raise TallyError(
                "--pair names two rankers of a tally, but there is no tally. Leave it out, or name a tally's JSON "
                "file, a pilot's log (--pilot) or run files (--runs)."
            )
        design = Design.assumed(sd, impressions_per_user, correlation=correlation, spread=spread)
        plans = [("", make(design, effect, comparisons=1 if pairs is None else pairs, **options))]
    if plot is not None:
        from multileave.stats.plots import power_curve, save

        save(power_curve(max((made for _, made in plans), key=lambda made: made.units)), plot)
    if as_json:
        found = {"plans": [{"pair": name, **made.to_dict()} for name, made in plans]}
        print_json({**found, "too_close": close} if runs else found)
        return
    if len(plans) > 1:
        _print_plans(plans)
    else:
        name, made = plans[0]
        print(f"{name}: {made}" if name else made)
        for metric, other in made.ab.items():
            print(_ab_sentence(metric, made, other))
    if (pilot or source is not None) and not any(made.ab for _, made in plans):
        print(NO_AB)
    if close:
        print(f"No preference found in {simulated:,} simulated impressions: {', '.join(close)}.")
    if plot is not None:
        print(f"power curve: {plot}")


def _ab_sentence(metric: str, made: "Plan", other: "Plan") -> str:
    """Return what an A/B test would take, beside a plan for interleaving."""
    start = f"an A/B test on {_spoken(metric)}"
    if other.range and other.units_high is None:  # the difference may be 0
        return f"{start}: {other.range} users, as the difference per page is within one standard error of 0"
    who = f"about {other.units:,} users ({other.units / made.units:.3g} times as many)"
    if other.range:
        who += f", {other.range} if the true difference is within one standard error,"
    return f"{start}: {who} to detect a difference of {other.effect:.3g} per page"


def _spoken(metric: str) -> str:
    return metric.replace("_", " ")


def _simulated(runs: list[str], qrels: Path | None, **options: Any) -> "tuple[list[tuple[str, Plan]], list[str]]":
    """Return plans for the systems of run files, and the pairs that are too close."""
    from multileave.cli.printing import impressions_bar
    from multileave.study.planning import plan_from_runs

    if qrels is None or len(runs) < 2:
        raise TallyError("A plan from run files needs two or more of them and their qrels. Use --runs A B --qrels Q.")
    with impressions_bar() as tell:
        plans, close = plan_from_runs(runs, qrels, progress=tell, **options)
    if not plans:
        raise TallyError(
            f"Simulated users show no preference between {'; '.join(close)}. Simulate more impressions (--simulated), "
            "or give the preference to detect (--effect)."
        )
    return plans, close


def _replayed(paths: list[str], clicks: list[str] | None, unit: str, action: str, method: str | None) -> "Tally":
    """Return the tally of a pilot's log; problems with it are printed on stderr."""
    from multileave.cli.replay import print_wrong, progress_bar
    from multileave.replay import replay

    with progress_bar() as step:
        found = replay(
            paths, clicks=clicks or None, unit=None if unit == "none" else unit, actions=[action], progress=step
        )
    print_wrong(found)
    return found.tally(action, method)


def _read_tally(path: str) -> "Tally":
    from multileave.stats import Tally

    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise TallyError(
            f"{path} cannot be read: {error.strerror}. Name a file with the JSON of Tally.to_dict, or a study's folder."
        ) from error
    except ValueError as error:
        raise TallyError(f"{path} is not JSON ({error}). Name a file with the JSON of Tally.to_dict.") from error
    return Tally.from_dict(data)


def _ab_cell(other: "Plan") -> str:
    if other.range and other.units_high is None:
        return other.range
    return f"{other.units:,}" + (f" ({other.range.removeprefix('about ')})" if other.range else "")


def _print_plans(plans: "list[tuple[str, Plan]]") -> None:
    from rich.markup import escape

    first = plans[0][1]
    ranged = any(made.range for _, made in plans)
    metrics = list(dict.fromkeys(metric for _, made in plans for metric in made.ab))
    table = rounded_table(
        ("pair",),
        (
            "preference to detect", "users", *(["within one error"] if ranged else []), "impressions",
            *(f"users of an A/B test on {_spoken(metric)}" for metric in metrics),
        ),
    )  # fmt: skip
    for name, made in plans:
        users = [f"{made.units:,}", *([made.range.removeprefix("about ")] if ranged else [])]
        others = [_ab_cell(made.ab[metric]) if metric in made.ab else "too close" for metric in metrics]
        table.add_row(escape(name), f"{made.effect:.3g}", *users, f"{made.impressions:,}", *others)
    console = table_console()
    console.print(table)
    console.print(
        f"[dim]{100 * first.power:g} % power at {100 * first.confidence:g} % confidence, {first.when}, corrected for "
        f"{first.comparisons} pairs."
        f"{' Within one error: if the true preference is within one standard error.' if ranged else ''}"
        f"{' An A/B test shows each ranker to an equal share of the users.' if metrics else ''}[/dim]"
    )


def _plan_study(folder: Path, error: float, plot: Path | None, *, as_json: bool) -> None:
    """Print after how many impressions the methods of a study have few pairs in the wrong order."""
    from rich.markup import escape

    from multileave.study.planning import plan_from_study

    if plot is not None:
        raise TallyError("--plot draws the power curve of a tally or of assumptions; a study has its own figures.")
    found = plan_from_study(folder, error)
    if as_json:
        print_json({"plans": found})
        return
    table = rounded_table(("data", "rankers", "user"))
    table.add_column("method")
    table.add_column("impressions", justify="right")
    for one in found:
        needed = one["impressions"]
        shown = f"{needed:,}" if needed is not None else f"> {one['simulated']:,} ({one['error_at_end']:.3f})"
        table.add_row(escape(one["dataset"]), str(one["rankers"]), escape(one["user"]), escape(one["method"]), shown)
    console = table_console()
    console.print(table)
    console.print(
        f"[dim]Impressions until at most {100 * error:g} % of pairs are in the wrong order, by NDCG@10 on the queries "
        "issued, mean over runs; in brackets the last error if that was not reached.[/dim]"
    )
