"""What is inferred about documents, against integrals and optimisers of SciPy."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import betaln

from multileave.clicks.fitting import PageCollector
from multileave.clicks.fitting.conditional import RIDGE, rank_situations
from multileave.clicks.fitting.posterior import (
    BINS,
    NODES,
    Tables,
    exponential,
    exposure_classes,
    mean_without,
    sparse_posterior,
    update_posterior,
)


def posterior(alpha, beta, hits, fails, bins):
    tables = Tables(np.array([alpha]), np.array([beta]))
    mean, spread, dense = np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.uint8)
    logs = np.zeros((1, 6))
    update_posterior(
        np.zeros(1, dtype=np.int64), tables.alpha, tables.beta, tables.nodes, tables.log_weights, tables.log_hit,
        tables.log_fail, tables.log_miss, np.array([hits]), np.array([fails]), np.asarray(bins)[None], mean, spread,
        dense, np.zeros((1, NODES)), logs, np.zeros(NODES),
    )  # fmt: skip
    return mean[0], spread[0], logs[0]


@pytest.mark.parametrize(
    ("alpha", "beta", "hits", "fails", "weight"),
    [(0.5, 3.0, 0.0, 0.0, 1.0), (0.7, 2.0, 2.0, 3.0, 4.0), (2.0, 5.0, 1.0, 20.0, 9.0), (0.6, 3.0, 60.0, 80.0, 9.0),
     (1.0, 3.0, 400.0, 900.0, 300.0), (0.6, 3.0, 1.0, 90.0, 9.0)],
)  # fmt: skip
def test_the_posterior_of_a_document_is_that_of_its_integral(alpha, beta, hits, fails, weight):
    bins = np.zeros(BINS)
    bins[4], bins[12] = weight, weight / 2

    def density(a, power=lambda a: 1.0):
        height = (alpha + hits - 1) * np.log(a) + (beta + fails - 1) * np.log1p(-a)
        height += weight * np.log1p(-0.25 * a) + weight / 2 * np.log1p(-0.75 * a)
        return power(a) * np.exp(height - betaln(alpha + hits, beta + fails))

    points = [(hits + alpha) / (hits + fails + alpha + beta)]
    whole, first, second, log = (
        quad(lambda a, f=f: density(a, f), 0, 1, points=points, limit=400)[0]
        for f in (lambda a: 1.0, lambda a: a, lambda a: a * a, np.log)
    )
    mean, spread, logs = posterior(alpha, beta, hits, fails, bins)
    assert mean == pytest.approx(first / whole, rel=2e-3)
    assert spread == pytest.approx(second / whole - (first / whole) ** 2, rel=2e-2)
    assert logs[0] == pytest.approx(log / whole, rel=3e-2)


def test_the_exponential_of_numbers_below_zero_is_that_of_numpy():
    for x in np.linspace(-45.0, 0.0, 901):
        assert exponential(x) == pytest.approx(np.exp(x), abs=1e-14)


@pytest.mark.parametrize(("hits", "fails"), [(0.0, 0.0), (3.0, 1.0), (0.0, 38.0)])
def test_chances_on_the_nodes_are_those_of_their_definition(hits, fails):
    tables = Tables(np.array([0.7]), np.array([2.0]))
    a, bins = tables.nodes[0], np.zeros(BINS)
    bins[3], bins[16] = 1.5, 0.5
    chance = np.zeros(NODES)
    found = sparse_posterior(
        hits, fails, bins, a, tables.log_weights[0], tables.log_hit[0], tables.log_fail[0], tables.log_miss[0], chance,
        np.zeros(NODES),
    )  # fmt: skip
    wanted = np.exp(tables.log_weights[0]) * a**hits * (1 - a) ** fails * (1 - 3 / 16 * a) ** 1.5 * (1 - a) ** 0.5
    wanted /= wanted.sum()
    assert chance == pytest.approx(wanted, rel=1e-9, abs=1e-13)
    logs = [np.log(a), np.log1p(-a)]
    means = [wanted @ log for log in logs]
    squares = [wanted @ (one * other) for one, other in ((logs[0], logs[0]), (logs[1], logs[1]), (logs[0], logs[1]))]
    moments = [wanted @ a, wanted @ a**2 - (wanted @ a) ** 2, *means]
    moments += [squares[0] - means[0] ** 2, squares[1] - means[1] ** 2, squares[2] - means[0] * means[1]]
    assert found == pytest.approx(moments, rel=1e-7)
    for r in (0.01, 0.5, 1.0):
        without = wanted / (1 - r * a)
        assert mean_without(r, chance, a) == pytest.approx(without @ a / without.sum(), rel=1e-9)


def some_pages(seed=3, pages=600):
    rng = np.random.default_rng(seed)
    collector = PageCollector(3)
    a = rng.beta(1, 2, (6, 5))
    for _ in range(pages):
        query = int(rng.integers(6))
        shown = rng.permutation(5)[:3]
        clicks = [x for x in range(3) if rng.random() < (1.0, 0.6, 0.4)[x] * a[query, shown[x]]]
        collector.add(query, shown.tolist(), clicks)
    return collector.pages()


def test_the_conditional_fit_maximises_the_conditional_likelihood():
    pages = some_pages()
    shown, clicked = np.zeros((pages.documents, 3)), np.zeros((pages.documents, 3))
    for row, weight in enumerate(pages.row_weights()):
        for x, d in enumerate(pages.lists[pages.row_list[row]]):
            shown[d, x] += weight
            clicked[d, x] += weight * (pages.row_order[row, x] > 0)
    centre = np.log([1.0, 0.5, 0.5])

    def loss(logs):
        e = np.exp(np.array([0.0, *logs]))
        likelihood = (clicked * np.log(e)).sum() - (clicked.sum(1) * np.log(shown @ e)).sum()
        return -likelihood + RIDGE / 2 * ((np.array([0.0, *logs]) - centre) ** 2).sum()

    wanted = np.exp(minimize(loss, [-0.5, -0.5], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-9}).x)
    assert rank_situations(pages).fit(pages.row_weights(), centre)[1:] == pytest.approx(wanted, rel=1e-4)


def test_documents_shown_higher_are_in_lower_classes():
    collector = PageCollector(2)
    for query in range(100):
        for _ in range(3):
            collector.add(query, ["best", "second"], [])
        collector.add(query, ["second", "best"], [])
        collector.add(query, ["other", "best"], [])
    classes = exposure_classes(collector.pages())
    ranks = [classes[3 * q : 3 * q + 3] for q in range(100)]
    assert all(best < second < other for best, second, other in ranks)


def test_documents_never_clicked_leave_a_prior_near_zero_finite():
    mean, spread, logs = posterior(0.01, 3.0, 0.0, 50.0, np.zeros(BINS))
    assert 0.0 < mean < 0.001
    assert np.isfinite([spread, *logs]).all()
