"""Fitting one model to weighted pages: messages between pages and documents, and EM for what all pages share.

A page needs the expected attractiveness of its documents given all other pages; a document needs from each page one
factor, 1 - rho a (see `behaviour`). Passing these back and forth is belief propagation. It gives the exact marginal
likelihood's estimates for the position-based and the user browsing model, whose pages do not tie documents together,
and an approximation for cascades, whose pages tie only documents below the last click.

The map from parameters and priors to their updates is accelerated by Anderson's method [walker2011].
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit

from multileave.clicks.fitting.conditional import Situations, browsing_situations, rank_centre, rank_situations
from multileave.clicks.fitting.models import UserModel
from multileave.clicks.fitting.pages import Pages
from multileave.clicks.fitting.posterior import BINS, LEAST, MOST, NODES, Tables, mean_without, update_posterior
from multileave.kernels import kernel
from multileave.outcome import Floats

BOUND = 7.0  # parameters lie between expit(-7) and expit(7), which is 0.0009 and 0.9991
ITERATIONS = 60
PASSES = 2  # exchanges of messages for each update
PRIOR_STEPS = 12
LEAST_SATISFACTION = 2.0  # size of the prior of satisfaction
WINDOW = 10
SIZE_WEIGHT = 0.02  # of the sizes of priors, which are hardly known, beside parameters and means
LOST = 1.01  # an accelerated fit that ends with a log-likelihood this much below the best it saw is repeated without
TOLERANCE = 1e-3  # of logits, whose standard errors are ten times that or more
SITUATIONS: dict[str, Callable[[Pages], Situations]] = {"position": rank_situations, "browsing": browsing_situations}


page: Any = None  # stands for the page kernel of a model, which takes its place when `sweep` is compiled


@kernel
def sweep(  # type: ignore[no-untyped-def]
    lists, lengths, row_list, row_order, weights, theta, documents, halves, kind, nodes, mean, spread, dense, chance,
    rho, sure, hit, hits, fails, bins, num, den, a, new_rho, known
):  # fmt: skip
    """Pass once over all rows: send every page what is known without it, and collect what it says.

    known: whether what pages say, which does not depend on weights, is in rho, sure and hit already.
    """
    k = lists.shape[1]
    steps = bins.shape[1] - 1
    hits[:] = 0.0
    fails[:] = 0.0
    bins[:] = 0.0
    num[:] = 0.0
    den[:] = 0.0
    total = 0.0
    for row in range(len(row_list)):
        weight = weights[row]
        if weight <= 0.0:
            continue
        at = row_list[row]
        n = lengths[at]
        if not known:
            for half in range(halves):
                for x in range(n):
                    d = lists[at, x] + half * documents
                    slot = half * k + x
                    r = rho[row, slot]
                    if r == 0.0:
                        a[slot] = mean[d]
                    elif dense[d] == 1:
                        a[slot] = min(mean[d] + r * spread[d] / (1.0 - r * mean[d]), 1.0 - 1e-9)
                    else:
                        a[slot] = mean_without(r, chance[d], nodes[kind[d]])
            total += weight * page(row_order[row], n, theta, a, new_rho, sure[row], hit[row], weight, num, den)
            for half in range(halves):
                for slot in range(half * k, half * k + n):
                    rho[row, slot] = new_rho[slot]
        for half in range(halves):
            for x in range(n):
                d = lists[at, x] + half * documents
                slot = half * k + x
                hits[d] += weight * hit[row, slot]
                fails[d] += weight * sure[row, slot]
                r = rho[row, slot]
                if r > 0.0:
                    b = min(np.int64(r * steps), steps - 1)
                    share = r * steps - b
                    bins[d, b] += weight * (1.0 - share)
                    bins[d, b + 1] += weight * share
    return total


@dataclass(eq=False)
class Estimate:
    """The parameters of a model fitted to pages, and what is known about each document.

    theta: (p,) the model's parameters, flat. counts: (p,) how often each could be observed, in expectation.
    alpha, beta: the priors of the classes. mean, spread: the posterior of each document's attractiveness, then, for
    models with satisfaction, of its probability not to satisfy.
    """

    theta: Floats
    counts: Floats
    alpha: Floats
    beta: Floats
    mean: Floats
    spread: Floats
    hits: Floats


class Estimator:
    """Fits one model to pages whose rows have weights; holds the messages, so that a next fit starts from the last."""

    def __init__(self, model: UserModel, pages: Pages, classes: Any) -> None:
        self.model, self.pages = model, pages
        k, halves = pages.k, model.halves
        self.classes = int(classes.max()) + 1
        satisfaction = [np.full(pages.documents, self.classes)] * (halves - 1)
        self.kind = np.concatenate([classes, *satisfaction]).astype(np.int64)
        priors = self.classes + halves - 1
        size = pages.documents * halves
        self._lengths = pages.lengths
        self.free = model.free(k)
        self.theta = model.start(k)
        self.mean, self.spread = np.full(size, 0.2), np.full(size, 0.02)
        self.dense = np.ones(size, dtype=np.uint8)
        self.chance = np.zeros((size, NODES), dtype=np.float32)
        self.rho = np.zeros((len(pages.row_list), k * halves), dtype=np.float32)
        self.sure, self.hit = (np.zeros(self.rho.shape, dtype=np.uint8) for _ in range(2))
        self.hits, self.fails = np.zeros(size), np.zeros(size)
        self.bins = np.zeros((size, BINS), dtype=np.float32)
        self.num, self.den = np.zeros(len(self.theta)), np.zeros(len(self.theta))
        self._work = [np.zeros(k * halves) for _ in range(2)]
        self._part = np.zeros(NODES)
        self.logs = np.zeros((priors, 6))
        self.tables = Tables(np.full(priors, 0.6), np.full(priors, 2.4))
        if halves == 2:
            self.tables.set_class(self.classes, 1.2, 1.8)
        self.situations = SITUATIONS[model.name](pages) if model.conditional else None
        self._ranks = rank_situations(pages) if model.name == "browsing" else None
        self._sweep = sweep.bind(page=model.page)

    def copy(self) -> "Estimator":
        """Return an estimator in the same state that shares nothing that changes."""
        other = object.__new__(Estimator)
        other.__dict__.update(self.__dict__)
        for name in (
            "theta", "mean", "spread", "dense", "chance", "rho", "sure", "hit", "hits", "fails", "bins",
            "num", "den", "logs",
        ):  # fmt: skip
            setattr(other, name, getattr(self, name).copy())
        other._work = [part.copy() for part in self._work]
        other._part = self._part.copy()
        other.tables = deepcopy(self.tables)
        return other

    def _pass(self, weights: Floats, *, known: bool = False) -> float:
        pages, tables = self.pages, self.tables
        return float(
            self._sweep(
                pages.lists, self._lengths, pages.row_list, pages.row_order, weights, self.theta, pages.documents,
                self.model.halves, self.kind, tables.nodes, self.mean, self.spread, self.dense, self.chance, self.rho,
                self.sure, self.hit, self.hits, self.fails, self.bins, self.num, self.den, *self._work, known,
            )
        )  # fmt: skip

    def _update_documents(self) -> None:
        tables = self.tables
        update_posterior(
            self.kind, tables.alpha, tables.beta, tables.nodes, tables.log_weights, tables.log_hit, tables.log_fail,
            tables.log_miss, self.hits, self.fails, self.bins, self.mean, self.spread, self.dense, self.chance,
            self.logs, self._part,
        )  # fmt: skip

    @property
    def state(self) -> Floats:
        """All that is fitted: parameters as logits, then as logs alpha, beta of the priors and satisfaction's size."""
        alpha, beta = self.tables.alpha, self.tables.beta
        own = slice(0, self.classes)
        size = np.log(alpha + beta)[self.classes :]
        return np.concatenate([logit(self.theta[self.free]), np.log(alpha[own]), np.log(beta[own]), size])

    @state.setter
    def state(self, state: Floats) -> None:
        logits, alpha, beta, size = self._split(state)
        self.theta[self.free] = expit(np.clip(logits, -BOUND, BOUND))
        self._set_priors(np.exp(alpha), np.exp(beta), np.exp(size))

    def _split(self, state: Floats) -> list[Floats]:
        return np.split(state, np.cumsum([len(self.free), self.classes, self.classes]))

    def _set_priors(self, alpha: Floats, beta: Floats, size: Floats) -> None:
        """Set the priors of attractiveness, and that of satisfaction, whose mean is a parameter, by its size."""
        for z in range(self.classes):
            self.tables.set_class(z, float(np.clip(alpha[z], LEAST, MOST)), float(np.clip(beta[z], LEAST, MOST)))
        if self.model.halves == 2:
            both, mean = float(np.clip(size[-1], LEAST_SATISFACTION, MOST)), float(self.theta[-1])
            self.tables.set_class(self.classes, both * (1.0 - mean), both * mean)

    def asked(self, weights: Floats) -> "Estimator":
        """Return a copy that knows what its pages say next, for `mapped` with other weights."""
        other = self.copy()
        other._pass(weights)
        return other

    def mapped(self, weights: Floats, passes: int, *, asked: bool = False) -> Floats:
        """Return the state's update after that many exchanges of messages: EM for parameters, Newton for priors.

        asked: whether `asked` returned this estimator, or one that it is a copy of.
        """
        for turn in range(passes):
            self.likelihood = self._pass(weights, known=asked and turn == 0)
            self._update_documents()
        logits = logit(self.model.updated(self.num, self.den, self.pages.k)[self.free])
        alpha, beta, size = self.tables.updated(self.logs)
        own = slice(0, self.classes)
        size = np.clip(size[self.classes :], LEAST_SATISFACTION, MOST)
        return np.concatenate([np.clip(logits, -BOUND, BOUND), np.log(alpha[own]), np.log(beta[own]), np.log(size)])

    def _residual(self, moves: Floats) -> Floats:
        """Return a move of the state as moves of parameters and of the priors' means, and, with less weight, sizes."""
        logits, alpha, beta, size = self._split(moves)
        return np.concatenate([logits, alpha - beta, SIZE_WEIGHT * (alpha + beta), SIZE_WEIGHT * size])

    def fit(self, weights: Floats, *, iterations: int = ITERATIONS) -> "Estimate":
        """Fit parameters and priors until nothing moves."""
        if self.situations is not None:
            self.theta = np.minimum(self.conditional(weights), 1.0)
            for _ in range(min(iterations, PRIOR_STEPS)):
                self._pass(weights)
                self._update_documents()
                self._set_priors(*self.tables.updated(self.logs))
            return self._last_pass(weights)
        before: list[tuple[Floats, Floats]] = []
        last = np.inf
        best, likeliest = -np.inf, self.state
        for turn in range(iterations):
            start = self.state
            moved = self.mapped(weights, PASSES)
            if turn > 1 and self.likelihood > best:
                best, likeliest = self.likelihood, moved
            moves = self._residual(moved - start)
            residual = float(np.linalg.norm(moves))
            if turn > 1 and np.abs(moves).max() < TOLERANCE:
                break
            # A step that led much further away is forgotten with all before it.
            before = [*before[-WINDOW:], (start, moved)] if residual < 1.5 * last else [(start, moved)]
            last = residual
            self.state = accelerated(before, self._residual)
        else:
            if self.likelihood < LOST * best:
                self._fit_slowly(weights, likeliest, iterations)
        self.iterations = turn + 1
        return self._last_pass(weights)

    def _fit_slowly(self, weights: Floats, start: Floats, iterations: int) -> None:
        """Fit without acceleration, which misses the maximum of some logs, such as those with clicks at rank 1 only."""
        self.state = start
        for _ in range(iterations):
            before, self.state = self.state, self.mapped(weights, PASSES)
            if np.abs(self._residual(self.state - before)).max() < TOLERANCE:
                break

    def conditional(self, weights: Floats, start: Any = None) -> Floats:
        """Return examination of a conditional model; see `conditional`."""
        centre = rank_centre(self.pages, weights)
        if self._ranks is not None:
            ranks = np.log(np.minimum(self._ranks.fit(weights, centre), 1.0))
            centre = np.repeat(ranks, np.arange(1, self.pages.k + 1))
        assert self.situations is not None
        return self.situations.fit(weights, centre, start)

    def _last_pass(self, weights: Floats) -> "Estimate":
        for _ in range(2):
            self._pass(weights)
            self._update_documents()
        return self.estimate()

    def estimate(self) -> "Estimate":
        """Return the state as a value."""
        return Estimate(
            self.theta.copy(), self.den.copy(), self.tables.alpha.copy(), self.tables.beta.copy(), self.mean.copy(),
            self.spread.copy(), self.hits.copy(),
        )  # fmt: skip


def accelerated(
    before: list[tuple[Floats, Floats]], residual: Callable[[Floats], Floats] = lambda moves: moves
) -> Floats:
    """Return Anderson's extrapolation of a fixed-point iteration from its last points and their images.

    residual: what to make small of a move, linear.

    >>> points = [np.array([x]) for x in (8.0, 4.0)]
    >>> accelerated([(x, x / 2 + 1) for x in points]).round(6)
    array([2.])
    """
    points = np.array([start for start, _ in before])
    images = np.array([moved for _, moved in before])
    residuals = np.array([residual(moves) for moves in images - points])
    if len(before) < 2:
        return np.asarray(images[-1])
    differences = np.diff(residuals, axis=0).T
    weights, *_ = np.linalg.lstsq(differences, residuals[-1], rcond=1e-8)
    target = images[-1] - np.diff(images, axis=0).T @ weights
    return np.asarray(images[-1] + np.clip(target - images[-1], -1.0, 1.0))
