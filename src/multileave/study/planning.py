"""Plans from simulated users: from the results of a study, or from run files whose systems they compare."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from multileave.data import read_runs
from multileave.errors import DataError, TallyError
from multileave.methods.base import get_method
from multileave.stats import Design, Plan, plan
from multileave.study.engine import Simulation
from multileave.study.own_pages import PAGE_METRICS, OwnPages, simulate_own_pages
from multileave.study.power import upper_pairs
from multileave.study.results import RunResult, gather
from multileave.study.users import user_for

SIMULATED = 400_000  # impressions that a plan simulates by default
NOISE = 3.0  # standard errors within which a simulated preference may be 0


def plan_from_study(folder: str | Path, error: float = 0.1) -> list[dict[str, Any]]:
    """Return how many impressions each method of a study takes until few pairs of rankers are in the wrong order.

    error: the acceptable share of such pairs. A record per data set, number of rankers, user and method.
    """
    if not 0.0 < error < 1.0:
        raise DataError(f"The error is {error:g}; expected a share of pairs between 0 and 1, such as 0.1.")
    files = sorted((Path(folder) / "runs").rglob("*.json"))
    if not files:
        raise DataError(f"{folder} holds no results of a study (runs/**/*.json). Run multileave study --out first.")
    cells = gather(map(RunResult.read, files), lambda run: (run.dataset, run.rankers, run.user, run.method))
    found = []
    for (dataset, rankers, user, method), runs in cells.items():
        needed, at_end = impressions_until(runs, error)
        found.append(
            {
                "dataset": dataset, "rankers": rankers, "user": user, "method": method, "error": error,
                "impressions": needed, "simulated": runs[0].impressions[-1], "error_at_end": at_end, "runs": len(runs),
            }
        )  # fmt: skip
    return found


def plan_from_runs(
    run_files: Sequence[str | Path],
    qrels: str | Path,
    *,
    method: str = "recommended",
    user: str | None = None,
    users_from: Sequence[str | Path] = (),
    attractiveness: str = "auto",
    unjudged: int = 0,
    k: int = 10,
    simulated: int = SIMULATED,
    seed: int = 42,
    design: Callable[[float], Design] = Design,
    effect: float | None = None,
    pair: tuple[str, str] | None = None,
    comparisons: int | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    **options: Any,
) -> tuple[list[tuple[str, Plan]], list[str]]:
    """Return how many users it takes to detect the differences between systems, and the pairs that are too close.

    Simulated users compare the systems of TREC run files, judged by qrels, which gives the mean and the deviation of a
    single impression's preference for every pair. A pair is too close if its mean is within 3 standard errors of 0.

    user, users_from, attractiveness: who clicks, see `multileave.clicks.find_user`.
    design: makes a design of the deviation, such as one for several impressions per user.
    effect: the preference to detect; by default the one each pair has. pair: plan for these two systems only.
    comparisons: the number of pairs to correct for, by default all. options: of `multileave.stats.plan`.

    Every plan also has what an A/B test of all systems would take on each metric (`Plan.ab`), with the same users on
    each system's own pages; a metric is left out if its difference is within 3 standard errors of 0.
    """
    if simulated < 1:
        raise DataError(f"The number of simulated impressions is {simulated}; expected 1 or more.")
    data = read_runs(run_files, qrels, unjudged=unjudged).queries
    unknown = [name for name in pair or () if name not in data.rankers]
    if unknown or (pair is not None and pair[0] == pair[1]):
        raise DataError(f"The pair is {' and '.join(pair or ())}; expected two of {', '.join(data.rankers)}.")
    clicker = user_for(data, k, user, users_from, attractiveness)
    simulation = Simulation(data, get_method(method), clicker, k=k, seed=seed)
    steps = np.linspace(0, simulated, 21).astype(int).tolist()
    for done, end in pairwise(steps):
        if progress is not None:
            progress(done, simulated, "simulating users")
        simulation.run(end - done)
    means, variances = upper_pairs(simulation.preferences / simulated), upper_pairs(simulation.variances)
    own = simulate_own_pages(data, clicker, simulated, k=k, seed=f"{seed}/own pages")
    places = [(int(n), int(m)) for n, m in zip(*np.triu_indices(len(data.rankers), 1), strict=True)]
    names = [(data.rankers[n], data.rankers[m]) for n, m in places]
    plans, close = [], []
    for place, who, mean, variance in zip(places, names, means, variances, strict=True):
        if pair is not None and set(pair) != set(who):
            continue
        if variance == 0.0 or (effect is None and abs(mean) < NOISE * math.sqrt(variance / simulated)):
            close.append(" / ".join(who))
            continue
        size = mean if effect is None else effect
        count = len(names) if comparisons is None else comparisons
        made = plan(design(math.sqrt(variance)), size, comparisons=count, **options)
        ab = _ab_plans(own, *place, design, comparisons=count, **options)
        plans.append((" / ".join(who), replace(made, ab=ab)))
    return sorted(plans, key=lambda one: one[1].units), close


def _ab_plans(own: OwnPages, n: int, m: int, design: Callable[[float], Design], **options: Any) -> dict[str, Plan]:
    """Return what an A/B test of all rankers takes to compare two of them, by each metric that tells them apart."""
    found = {}
    for metric, means, variances in zip(PAGE_METRICS, own.means, own.variances, strict=True):
        difference, spread = float(means[n] - means[m]), float(variances[n] + variances[m])
        if abs(difference) > NOISE * math.sqrt(spread / own.pages):
            try:
                found[metric] = plan(design(math.sqrt(len(own.rankers) * spread)), difference, **options)
            except TallyError:  # it takes more users than there are
                continue
    return found


def impressions_until(runs: Sequence[RunResult], error: float) -> tuple[int | None, float]:
    """Return the impressions after which the mean error stays at or below a share, None if never, and the last error.

    The error is against the truth on the queries that users issued, which more impressions can reduce to 0.
    """
    points = runs[0].impressions
    means = [math.fsum(run.error_same_queries[at] for run in runs) / len(runs) for at in range(len(points))]
    above = max((at for at, mean in enumerate(means) if mean > error), default=-1)
    if above + 1 == len(points):
        return None, means[-1]
    if above < 0:
        return points[0], means[-1]
    # Between two checkpoints the error is interpolated linearly over the logarithm of impressions.
    part = (means[above] - error) / (means[above] - means[above + 1])
    start, end = math.log(max(points[above], 1)), math.log(points[above + 1])
    return math.ceil(math.exp(start + part * (end - start))), means[-1]
