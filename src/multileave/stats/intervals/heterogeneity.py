"""Heterogeneity: do the means of several segments differ, and what is each if the others are taken into account?"""

import math

import numpy as np

from multileave.outcome import Floats


def welch(means: Floats, covariance: Floats, freedoms: Floats, most: float = math.inf) -> float:
    """Return the p-value of Welch's test that S means are equal, with unequal variances [welch1951].

    W = (C m)' (C V C')^-1 (C m) with C the differences from the first mean. With w_s = 1 / V_ss, k = S and
    L = sum_s (1 - w_s / sum w)^2 / f_s,

        F = W / (k - 1) / (1 + 2 (k - 2) / (k^2 - 1) L)

    follows F with k - 1 and (k^2 - 1) / (3 L) degrees of freedom. If V is diagonal, W = sum_s w_s (m_s - mean)^2, and
    for two means this is Welch's t test.

    If units are in several segments, means are dependent and V has estimated covariances. Then, as for Hotelling's T^2
    with f degrees of freedom, F is multiplied by (f - k + 2) / f and has k - 1 and f - k + 2.

    means: (S,); covariance: V (S, S), positive on its diagonal; freedoms: f (S,), of the variances. most: the largest
    number of degrees of freedom.

    >>> round(welch(np.array([0.0, 1.0]), np.diag([0.1, 0.1]), np.array([20.0, 20.0])), 3)
    0.031
    """
    from scipy.special import fdtrc

    segments, variances = len(means), np.diag(covariance)
    contrasts = means[1:] - means[0]
    between = covariance[1:, 1:] - covariance[:1, 1:] - covariance[1:, :1] + covariance[0, 0]
    wald = float(contrasts @ np.linalg.lstsq(between, contrasts, rcond=None)[0])
    weights = 1.0 / variances
    spread = float(((1.0 - weights / weights.sum()) ** 2 / freedoms).sum())
    squared = segments**2 - 1.0
    statistic = wald / (segments - 1) / (1.0 + 2.0 * (segments - 2) / squared * spread)
    freedom = min(squared / (3.0 * spread), most)
    if (covariance != np.diag(variances)).any():
        freedom = max(freedom, segments - 1.0)
        statistic, freedom = statistic * (freedom - segments + 2) / freedom, freedom - segments + 2
    return float(fdtrc(segments - 1, max(freedom, 1.0), max(statistic, 0.0)))


def random_effects(means: Floats, variances: Floats) -> tuple[float, Floats]:
    """Return the standard deviation of the true means between segments, and the shrunken means (S,).

    True means are taken to vary about a common one with variance t^2, estimated by the method of moments
    [dersimonian1986]. A mean is shrunk towards the common one by v_s / (v_s + t^2): the less is known about a segment,
    and the less segments differ, the more. A mean without variance is kept as it is.

    >>> between, shrunken = random_effects(np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.5, 0.5]))
    >>> round(between, 3), shrunken.round(2).tolist()
    (0.707, [0.5, 1.0, 1.5])
    """
    known = variances > 0.0
    if known.sum() < 2:
        return 0.0, means.copy()
    found, spread = means[known], variances[known]
    weights = 1.0 / spread
    common = float((weights * found).sum() / weights.sum())
    excess = float((weights * (found - common) ** 2).sum()) - (len(found) - 1)
    between = max(excess / float(weights.sum() - (weights**2).sum() / weights.sum()), 0.0)
    common = float((found / (spread + between)).sum() / (1.0 / (spread + between)).sum())
    shrunken = means.copy()
    shrunken[known] = common + between / (spread + between) * (found - common)
    return math.sqrt(between), shrunken
