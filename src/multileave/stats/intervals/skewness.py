"""Intervals of means over few large units, such as those of users who buy something expensive.

A sample without such a user has a mean that is too low and a standard error that is too small, one with several has a
mean that is too high and a large error. So symmetric intervals miss on one side, and too often.

With residuals e = S_u - mu n_u, the studentised error T = (mean - mu) / error has, to order 1 / sqrt(U), the
distribution [hall1992]

    P(T <= x) = Phi(x) + phi(x) (g (2 x^2 + 1) / 6 - c x^2),

    g = sum e^3 / (sum e^2)^(3/2),    c = sum e n / (N sqrt(sum e^2)).

g is the skewness of a mean. c is due to the ratio: the error is computed from residuals about the estimate instead of
mu. Hall's transformation, here with k = g - 3 c for the c,

    h(T) = T + k T^2 / 3 + k^2 T^3 / 27 + g / 6,

is normal to that order, and it increases in T. So the interval of all mu with |h(T)| at most the usual multiplier has
two ends, and each is the solution of a cubic equation. Two terms of an expansion say little about far tails, and h is
flat at T = -3 / k. So beyond two standard errors, as for few degrees of freedom or any number of looks, ends are as
many times farther away as the multiplier is.

**Degrees of freedom.** The variance of sum e^2 is about v (sum e^2)^2 with v = sum e^4 / (sum e^2)^2 - 1 / U. For a
chi-square variable with f degrees of freedom the ratio is 2 / f, so Student's t has 2 / v [satterthwaite1946], or the
usual number if that is smaller. 2 / v is about U for normal residuals, and about 8 or less if one user has half of
sum e^2.

**The jackknife.** As in `intervals.clustered`, a residual counts as e / (1 - n / N). All units are taken to have the
same share n / N, the mean weighted by e^2. That is exact if they have, and else slightly too small.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from multileave.outcome import Floats
from multileave.stats.intervals.clustered import Intervals
from multileave.stats.intervals.moments import Moments

_FAR = 2.0  # standard errors beyond which transformed and other ends keep their ratio


class Residuals(NamedTuple):
    """Sums over units of powers of residuals e, and of their products with impressions n, each float (P,)."""

    squares: Floats
    cubes: Floats
    fourths: Floats
    shown: Floats  # of e n
    squares_shown: Floats  # of e^2 n


def skewed(moments: Moments, residuals: Residuals, intervals: Callable[[Moments], Intervals]) -> Intervals:
    """Return intervals of means whose units are skewed; intervals: what they are if units are not.

    Units that are all alike leave rounding errors, so ratios of sums are clipped to what they can be.
    """
    some = (residuals.squares > 0.0) & (moments.variances > 0.0)
    squares = np.where(some, residuals.squares, 1.0)
    skewness = np.where(some, np.clip(residuals.cubes / squares**1.5, -1.0, 1.0), 0.0)
    drift = np.where(some, np.clip(residuals.shown / (moments.impressions * np.sqrt(squares)), -1.0, 1.0), 0.0)
    spread = np.where(some, np.clip(residuals.fourths / squares**2, skewness**2, 1.0) - 1.0 / moments.units, 0.0)
    freedom = np.full_like(squares, np.inf)
    np.divide(2.0, spread, out=freedom, where=spread > 0.0)
    share = np.clip(residuals.squares_shown / (moments.impressions * squares), 0.0, 1.0 - 1.0 / moments.impressions)
    variances = (1.0 - 1.0 / moments.units) * squares / (1.0 - share) ** 2
    changed = moments._replace(variances=np.where(some, variances, moments.variances), evidence=freedom + 1.0)
    found, errors = intervals(changed), changed.errors
    multipliers = np.zeros_like(squares)
    np.divide(found.highs - found.means, errors, out=multipliers, where=some)
    near = np.minimum(multipliers, _FAR)
    least, most = (untransformed(side * near, skewness, drift) for side in (-1.0, 1.0))
    farther = errors * np.maximum(multipliers / _FAR, 1.0)
    lows = np.where(some, found.means - farther * np.maximum(most, 0.0), found.lows)
    highs = np.where(some, found.means - farther * np.minimum(least, 0.0), found.highs)
    return found._replace(lows=lows, highs=highs)


def untransformed(values: Floats, skewness: Floats, drift: Floats) -> Floats:
    """Return the T of which these are h(T); skewness: g, drift: c.

    >>> T, g, c = 2.0, np.array([0.3]), np.array([0.05])
    >>> k = g - 3 * c
    >>> untransformed(T + k * T**2 / 3 + k**2 * T**3 / 27 + g / 6, g, c).round(9)
    array([2.])
    """
    bend = skewness - 3.0 * drift
    straight = np.abs(bend) < 1e-6
    bend = np.where(straight, 1.0, bend)
    centred = values - skewness / 6.0
    return np.where(straight, centred, 3.0 / bend * (np.cbrt(1.0 + bend * centred) - 1.0))
