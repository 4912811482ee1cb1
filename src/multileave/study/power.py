"""Power: how many impressions a verdict takes, from the preferences of single impressions.

A verdict tests whether the mean preference of a pair of rankers is 0. With mean m and variance v per impression, a
two-sided test at level a detects the difference with probability p after about

    n = (z(1 - a / 2) + z(p))^2 v / m^2

impressions, with z the quantiles of the normal distribution: 7.85 v / m^2 for a = .05 and p = .8. This is what a
comparison costs in users. Unlike an error after so many impressions, it does not depend on how many were simulated,
provided that they are enough to know the mean. With too few, every pair seems easier than it is.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from multileave.errors import DataError
from multileave.outcome import Floats
from multileave.study.results import RunResult, gather

POWER = 0.8
LEVEL = 0.05


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
