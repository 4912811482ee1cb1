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
from statistics import NormalDist

import numpy as np

from multileave.errors import DataError
from multileave.outcome import Floats

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
