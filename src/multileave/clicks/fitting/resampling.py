"""Confidence intervals by a bootstrap over sessions.

Examination in the position-based and the user browsing model is estimated again for every sample of sessions. A
cascade's parameters are the fixed point of u = M(u), on the logit scale. For a sample of sessions with its own map M*,
one Newton step from the estimate u leads to u + (I - M'(u))^-1 (M*(u) - M(u)), which has the same distribution as a
full fit to first order and costs a hundredth of it. Priors of documents stay as they are: drawing sessions again would
make documents look more different than they are. Intervals are 1.96 standard deviations of the samples around the
estimate, on the logit scale (on the log scale for examination, which is relative to rank 1), cut at 1.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy.special import expit

from multileave.clicks.fitting.estimation import Estimator
from multileave.outcome import Floats

STEP = 0.05
NORMAL = 1.959964


def session_weights(sessions: int, seed: int, sample: int) -> Floats:
    """Return how often each session is drawn in a sample."""
    rng = np.random.default_rng([seed, 2, sample])
    return np.bincount(rng.integers(sessions, size=sessions), minlength=sessions).astype(np.float64)


def response(estimator: Estimator, weights: Floats) -> tuple[Floats, Floats]:
    """Return M(u) at the estimate u and (I - M'(u))^-1, by differences."""
    centre = estimator.logits
    base = estimator.copy().step(weights)
    size = len(centre)
    slope = np.zeros((size, size))
    for j in range(size):
        moved = estimator.copy()
        moved.set(centre + STEP * (np.arange(size) == j))
        slope[:, j] = (moved.step(weights) - base) / STEP
    return base, np.asarray(np.linalg.pinv(np.eye(size) - slope), dtype=np.float64)


def intervals(
    estimator: Estimator,
    *,
    samples: int,
    seed: int,
    threads: int,
    done: Callable[[int], None] = lambda count: None,
) -> Floats:
    """Return (p, 2) the 95 % interval of each parameter of a fitted estimator; fixed ones have no width."""
    pages, theta = estimator.pages, estimator.theta
    found = np.stack([theta, theta], axis=1)
    free = estimator.free
    if not len(free) or samples < 2:
        found[free] = np.nan
        return found
    weights = pages.row_weights()
    conditional = estimator.situations is not None
    if conditional:
        base, inverse = estimator.conditional(weights), np.zeros((0, 0))
    else:
        base, inverse = response(estimator, weights)

    def one(sample: int) -> Floats:
        drawn = pages.row_weights(session_weights(pages.sessions, seed, sample))
        if conditional:
            moved = np.log(estimator.conditional(drawn, base)[free] / base[free])
        else:
            moved = inverse @ (estimator.copy().step(drawn) - base)
        done(1)
        return np.asarray(moved)

    with ThreadPoolExecutor(threads) as pool:
        moves = np.array(list(pool.map(one, range(samples))))
    deviation = moves.std(axis=0, ddof=1)
    for sign, side in ((-1.0, 0), (1.0, 1)):
        if conditional:
            found[free, side] = np.minimum(base[free] * np.exp(np.clip(sign * NORMAL * deviation, -30, 30)), 1.0)
        else:
            found[free, side] = expit(estimator.logits + sign * NORMAL * deviation)
    return found
