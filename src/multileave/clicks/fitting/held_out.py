"""How well a model predicts sessions it was not fitted to, and which model does so best.

Sessions are dealt into folds at random; each fold is predicted by a fit to the others. Likelihoods are of the *set* of
clicked documents, which all models describe, so that they can be compared; differences between models have standard
errors clustered by session.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from multileave.clicks.fitting.conditional import click_rates
from multileave.clicks.fitting.estimation import Estimate, Estimator
from multileave.clicks.fitting.models import UserModel
from multileave.clicks.fitting.pages import Pages
from multileave.clicks.fitting.prediction import MOST_CLICKS
from multileave.clicks.fitting.result import NEGLIGIBLE
from multileave.kernels import kernel
from multileave.outcome import Floats

FOLDS = 5
FOLD_ITERATIONS = 12


page: Any = None  # these stand for the kernels of a model
of_set: Any = None
rates: Any = None


@kernel
def row_likelihoods(  # type: ignore[no-untyped-def]
    lists, lengths, row_list, row_order, weights, theta, documents, halves, mean, rho, sure, hit, num, den, a, out
):
    """Write log P of each row with a weight."""
    k = lists.shape[1]
    for row in range(len(row_list)):
        if weights[row] > 0.0:
            at = row_list[row]
            for half in range(halves):
                for x in range(lengths[at]):
                    a[half * k + x] = mean[lists[at, x] + half * documents]
            out[row] = page(row_order[row], lengths[at], theta, a, rho, sure, hit, 0.0, num, den)


@kernel
def set_likelihoods(  # type: ignore[no-untyped-def]
    lists, lengths, row_list, row_order, weights, theta, most, mean, a, work, out
):
    """Write log P of the set of clicks of each row with a weight and at most that many clicks."""
    for row in range(len(row_list)):
        if weights[row] > 0.0 and row_order[row].max() <= most:
            at = row_list[row]
            for x in range(lengths[at]):
                a[x] = mean[lists[at, x]]
            out[row] = of_set(row_order[row], lengths[at], theta, a, work)


@kernel
def list_rates(lists, lengths, weights, theta, documents, halves, mean, a, work, out):  # type: ignore[no-untyped-def]
    """Write the click rate of each rank of each list with a weight."""
    k = lists.shape[1]
    for at in range(len(lists)):
        if weights[at] > 0.0:
            for half in range(halves):
                for x in range(lengths[at]):
                    a[half * k + x] = mean[lists[at, x] + half * documents]
            rates(lengths[at], theta, a, out[at], work)


def predict(model: UserModel, estimate: Estimate, pages: Pages, weights: Floats) -> tuple[Floats, Floats]:
    """Return log P of the clicks of each row, and the click rate of each rank of each row, for rows with a weight."""
    k, lengths, halves = pages.k, pages.lengths, model.halves
    theta, mean = estimate.theta, estimate.mean
    slots = [np.zeros(k * halves) for _ in range(4)]
    counts = [np.zeros(len(theta)) for _ in range(2)]
    out = np.zeros(len(pages.row_list))
    row_likelihoods.bind(page=model.page)(
        pages.lists, lengths, pages.row_list, pages.row_order, weights, theta, pages.documents, halves, mean,
        *slots[:3], *counts, slots[3], out,
    )  # fmt: skip
    if model.of_set is not None:
        most = min(MOST_CLICKS, int(pages.row_order.max(initial=0)))
        work = np.zeros((1 << most) * max(most, 1))
        set_likelihoods.bind(of_set=model.of_set)(
            pages.lists, lengths, pages.row_list, pages.row_order, weights, theta, most, mean, slots[0], work, out
        )
    of_lists = np.bincount(pages.row_list, weights, minlength=len(pages.lists))
    found = np.zeros(pages.lists.shape)
    list_rates.bind(rates=model.rates)(
        pages.lists, lengths, of_lists, theta, pages.documents, halves, mean, slots[0], np.zeros(7 * k + 8), found
    )
    return out, found[pages.row_list]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions of held-out sessions.

    log_likelihood: (S,) summed by session. losses, shown: (k,) summed log loss by rank and how often it was shown.
    """

    log_likelihood: Floats
    losses: Floats
    shown: Floats
    pages: int

    @property
    def per_page(self) -> float:
        """The log-likelihood of a page, in nats."""
        return float(self.log_likelihood.sum() / self.pages)

    @property
    def conditional_perplexity(self) -> float:
        """The perplexity of a rank given the clicks above: 1 is a perfect prediction, 2 a coin's."""
        return float(np.exp(-self.log_likelihood.sum() / self.shown.sum()))

    @property
    def perplexity(self) -> float:
        """The perplexity of a rank without knowledge of other clicks."""
        return float(np.exp(self.losses.sum() / self.shown.sum()))

    @property
    def perplexity_by_rank(self) -> list[float]:
        """The perplexity of each rank without knowledge of other clicks."""
        return [float(value) for value in np.exp(self.losses / np.maximum(self.shown, 1.0))]


def deal(pages: Pages, folds: int, seed: int) -> Any:
    """Return the fold of each session."""
    rng = np.random.default_rng([seed, 1])
    return rng.permutation(np.arange(pages.sessions) % folds)


def held_out(pages: Pages, fold: Any, predicted: Callable[[int, Floats, Floats], tuple[Floats, Floats]]) -> HeldOut:
    """Return predictions of all sessions; predicted: (fold, weights of the others, of the fold) -> see `predict`."""
    by_page = np.zeros(len(pages.page_row))
    losses, shown = np.zeros(pages.k), np.zeros(pages.k)
    clicked = pages.row_order > 0
    there = pages.lists[pages.row_list] >= 0
    for f in np.unique(fold):
        train, test = pages.row_weights(fold != f), pages.row_weights(fold == f)
        likelihood, rate = predicted(int(f), train, test)
        mine = (fold == f)[pages.page_session]
        by_page[mine] = likelihood[pages.page_row[mine]]
        rate = np.clip(rate, 1e-9, 1.0 - 1e-9)
        loss = -np.where(clicked, np.log(rate), np.log1p(-rate)) * there
        losses += test @ loss
        shown += test @ there
    sums = np.bincount(pages.page_session, by_page, minlength=pages.sessions).astype(np.float64)
    return HeldOut(sums, losses, shown, len(pages.page_row))


def held_out_model(estimator: Estimator, pages: Pages, fold: Any, threads: int = 1) -> HeldOut:
    """Return held-out predictions of a model, starting each fold from the fit to all pages."""

    def predicted(f: int) -> tuple[Floats, Floats]:
        fitted = estimator.copy().fit(pages.row_weights(fold != f), iterations=FOLD_ITERATIONS)
        return predict(estimator.model, fitted, pages, pages.row_weights(fold == f))

    with ThreadPoolExecutor(threads) as pool:
        found = dict(enumerate(pool.map(predicted, range(int(fold.max()) + 1))))
    return held_out(pages, fold, lambda f, train, test: found[f])


def held_out_baseline(pages: Pages, fold: Any) -> HeldOut:
    """Return held-out predictions by the click rate of each rank."""
    there = pages.lists[pages.row_list] >= 0

    def predicted(f: int, train: Floats, test: Floats) -> tuple[Floats, Floats]:
        rate = np.clip(click_rates(pages, train), 1e-9, 1.0 - 1e-9)
        logs = np.where(pages.row_order > 0, np.log(rate), np.log1p(-rate)) * there
        return np.asarray(logs.sum(axis=1)), np.broadcast_to(rate, there.shape)

    return held_out(pages, fold, predicted)


@dataclass(frozen=True)
class Comparison:
    """How much better one model predicts than another: the difference per page in nats, and its standard error."""

    difference: float
    error: float

    @property
    def z(self) -> float:
        """The difference in standard errors."""
        return self.difference / self.error if self.error > 0 else 0.0


def compare(one: HeldOut, other: HeldOut) -> Comparison:
    """Return by how much `one` predicts better than `other`, with a standard error clustered by session."""
    differences = one.log_likelihood - other.log_likelihood
    centred = differences - differences.mean()
    sessions = len(differences)
    error = np.sqrt((centred**2).sum() * sessions / max(sessions - 1, 1))
    return Comparison(float(differences.sum() / one.pages), float(error / one.pages))


def choose(results: dict[str, HeldOut], sizes: Sequence[int], level: float = 1.96) -> str:
    """Return the model with the fewest parameters among those not significantly worse than the best."""
    first = max(results, key=lambda name: results[name].per_page)
    behind = {name: compare(results[first], result) for name, result in results.items()}
    fair = [name for name, by in behind.items() if by.z < level or by.difference < NEGLIGIBLE]
    order = dict(zip(results, sizes, strict=True))
    return min(fair, key=lambda name: (order[name], -results[name].per_page))
