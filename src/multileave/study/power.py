"""Power: how many impressions a verdict takes, from the preferences of single impressions.

A verdict tests whether the mean preference of a pair of rankers is 0. With mean m and variance v per impression, a
two-sided test at level a detects the difference with probability p after about

    n = (z(1 - a / 2) + z(p))^2 v / m^2

impressions, with z the quantiles of the normal distribution: 7.85 v / m^2 for a = .05 and p = .8. This is what a
comparison costs in users. Unlike an error after so many impressions, it does not depend on how many were simulated,
provided that they are enough to know the mean. With too few, every pair seems easier than it is.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from multileave.data import read_runs
from multileave.errors import DataError
from multileave.methods.base import get_method
from multileave.outcome import Floats
from multileave.stats import Design, Plan, plan
from multileave.study.engine import Simulation
from multileave.study.results import RunResult, gather
from multileave.study.users import user_for

POWER = 0.8
LEVEL = 0.05
SIMULATED = 400_000  # impressions that a plan simulates by default
NOISE = 3.0  # standard errors within which a simulated preference may be 0


def effort(power: float = POWER, level: float = LEVEL) -> float:
    """Return (z(1 - level / 2) + z(power))^2, by which v / m^2 is multiplied.

    >>> round(effort(), 2)
    7.85
    """
    if not 0.0 < level < 1.0 or not level / 2 < power < 1.0:
        raise DataError(f"Power is {power} and level {level}; expected both between 0 and 1, such as 0.8 and 0.05.")
    normal = NormalDist()
    return (normal.inv_cdf(1.0 - level / 2.0) + normal.inv_cdf(power)) ** 2


def impressions_to_verdict(
    means: "Sequence[float] | Floats",
    variances: "Sequence[float] | Floats",
    *,
    power: float = POWER,
    level: float = LEVEL,
) -> Floats:
    """Return the impressions that the verdict on each pair takes; infinity if there is no preference.

    >>> impressions_to_verdict([0.1, 0.0], [1.0, 1.0]).round()
    array([785.,  inf])
    """
    m, v = np.asarray(means, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(m == 0.0, math.inf, effort(power, level) * v / (m * m))


def quartiles(values: "Sequence[float] | Floats") -> tuple[float, float, float]:
    """Return the median, the lower and the upper quartile; values may be infinite, for which NumPy has no quantiles.

    >>> quartiles([4.0, 1.0, 2.0, math.inf, 3.0])
    (3.0, 2.0, 4.0)
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64)).tolist()
    found = []
    for place in (0.5 * (len(ordered) - 1), 0.25 * (len(ordered) - 1), 0.75 * (len(ordered) - 1)):
        low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
        found.append(low if low == high else low + (place - math.floor(place)) * (high - low))
    return found[0], found[1], found[2]


def upper_pairs(matrix: Floats) -> tuple[float, ...]:
    """Return the values above the diagonal of an (R, R) matrix, row by row: one for each pair of rankers.

    >>> upper_pairs(np.array([[0.0, 1.0, 2.0], [-1.0, 0.0, 3.0], [-2.0, -3.0, 0.0]]))
    (1.0, 2.0, 3.0)
    """
    return tuple(matrix[np.triu_indices(len(matrix), 1)].tolist())


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
    names = [(data.rankers[n], data.rankers[m]) for n, m in zip(*np.triu_indices(len(data.rankers), 1), strict=True)]
    plans, close = [], []
    for who, mean, variance in zip(names, means, variances, strict=True):
        if pair is not None and set(pair) != set(who):
            continue
        if variance == 0.0 or (effect is None and abs(mean) < NOISE * math.sqrt(variance / simulated)):
            close.append(" / ".join(who))
            continue
        size = mean if effect is None else effect
        count = len(names) if comparisons is None else comparisons
        plans.append((" / ".join(who), plan(design(math.sqrt(variance)), size, comparisons=count, **options)))
    return sorted(plans, key=lambda one: one[1].units), close


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
