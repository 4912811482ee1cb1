"""Confidence intervals by a bootstrap over sessions.

Examination in the position-based and the user browsing model is estimated again for every sample of sessions. A
cascade's parameters and priors are the fixed point of u = M(u), see `Estimator.state`. For a sample of sessions with
its own map M*, one Newton step from the estimate u leads to u + (I - M'(u))^-1 (M*(u) - M(u)), which has the same
distribution as a full fit to first order and costs a tenth of it. The priors are part of u: parameters that are
estimated together with them vary less than parameters estimated with priors held fixed.

Satisfaction is the mean over clicks of the documents' probabilities to satisfy. A log has a sample of documents, which
drawing sessions does not vary. If document d has c_d of the clicks and its probability the posterior variance v_d, with
t^2 that of the prior, then the update of the mean moves by c_d (1 - v_d / t^2) / sum c if the document's probability
moves by 1. So the sample of documents adds t^2 sum (c_d (1 - v_d / t^2))^2 / (sum c)^2 to the variance of the update.

Intervals are t standard deviations around the estimate, on the logit scale (on the log scale for examination, which is
relative to rank 1), cut at 1; t is Student's for samples - 1 degrees of freedom. A parameter without successes, or
without failures, does not vary over samples. If it was observed n times, its interval ends where the probability of
that, exp(-n p), is 2.5 %.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy.special import expit, logit, stdtrit

from multileave.clicks.fitting.estimation import Estimator
from multileave.outcome import Floats

STEP = 0.05
PASSES = 3  # exchanges of messages for each update; more change standard errors by 1 %
TAIL = 0.025


def session_weights(sessions: int, seed: int, sample: int) -> Floats:
    """Return how often each session is drawn in a sample."""
    rng = np.random.default_rng([seed, 2, sample])
    return np.bincount(rng.integers(sessions, size=sessions), minlength=sessions).astype(np.float64)


def response(estimator: Estimator, weights: Floats, pool: ThreadPoolExecutor) -> tuple[Floats, Floats]:
    """Return M(u) at the estimate u and (I - M'(u))^-1, by differences."""
    centre = estimator.state

    def image(j: int) -> Floats:
        moved = estimator.copy()
        if j >= 0:
            moved.state = centre + STEP * (np.arange(len(centre)) == j)
        return moved.mapped(weights, PASSES)

    base, *images = pool.map(image, range(-1, len(centre)))
    slope = (np.array(images) - base).T / STEP
    return base, np.asarray(np.linalg.pinv(np.eye(len(centre)) - slope), dtype=np.float64)


def document_deviation(estimator: Estimator) -> float:
    """Return the standard deviation of the update of mean satisfaction, as a logit, over samples of documents."""
    mean, size = estimator.theta[-1], estimator.tables.alpha[-1] + estimator.tables.beta[-1]
    prior = mean * (1.0 - mean) / (size + 1.0)
    own = slice(estimator.pages.documents, None)
    clicks = estimator.hits[own] + estimator.bins[own].sum(axis=1)
    moves = clicks * np.clip(1.0 - estimator.spread[own] / prior, 0.0, 1.0)
    return float(np.sqrt(prior * (moves**2).sum()) / max(clicks.sum(), 1.0) / (mean * (1.0 - mean)))


def widened(estimator: Estimator, weights: Floats, found: Floats) -> Floats:
    """Return intervals, wider for parameters that were never observed, or always or never with success."""
    if estimator.situations is not None:
        clicks, counts = estimator.situations.evidence(weights, estimator.theta)
        never, always = clicks == 0.0, np.zeros(len(clicks), dtype=bool)
    else:
        counts = estimator.den
        never, always = estimator.num < 0.5, counts - estimator.num < 0.5
    most = np.minimum(-np.log(TAIL) / np.maximum(counts, TAIL), 1.0)
    unseen = counts < 1.0
    low = np.where(unseen | never, 0.0, np.where(always, np.minimum(found[:, 0], 1.0 - most), found[:, 0]))
    high = np.where(unseen | always, 1.0, np.where(never, np.maximum(found[:, 1], most), found[:, 1]))
    free = estimator.free
    found[free] = np.stack([low, high], axis=1)[free]
    return found


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
    with ThreadPoolExecutor(threads) as pool:
        if conditional:
            base, inverse = estimator.conditional(weights), np.zeros((0, 0))
        else:
            base, inverse = response(estimator, weights, pool)
            asked = estimator.asked(weights)

        def one(sample: int) -> Floats:
            drawn = pages.row_weights(session_weights(pages.sessions, seed, sample))
            if conditional:
                moved = np.log(estimator.conditional(drawn, base)[free] / base[free])
            else:
                moved = inverse @ (asked.copy().mapped(drawn, PASSES, asked=True) - base)
            done(1)
            return np.asarray(moved)

        moves = np.array(list(pool.map(one, range(samples))))
    variance = moves[:, : len(free)].var(axis=0, ddof=1)
    if estimator.model.halves == 2:
        variance += (inverse[: len(free), len(free) - 1] * document_deviation(estimator)) ** 2
    reach = stdtrit(samples - 1, 1.0 - TAIL) * np.sqrt(variance)
    for side, move in enumerate((-reach, reach)):
        if conditional:
            found[free, side] = np.minimum(base[free] * np.exp(np.clip(move, -30, 30)), 1.0)
        else:
            found[free, side] = expit(logit(theta[free]) + move)
    return widened(estimator, weights, found)
