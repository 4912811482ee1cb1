"""Intervals of cascades: a Newton step against full fits, and what the sample of documents adds."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.special import logit

from multileave.clicks import Cascade, Returning
from multileave.clicks.fitting import MODELS, PageCollector
from multileave.clicks.fitting.estimation import Estimator
from multileave.clicks.fitting.posterior import exposure_classes
from multileave.clicks.fitting.resampling import PASSES, intervals, response, session_weights
from multileave.random import seed_state

CLICK = tuple(np.repeat([0.1, 0.2, 0.4, 0.6], 4).tolist())
NEVER = (0.0,) * len(CLICK)
DIFFERENT = tuple(np.tile([0.1, 0.3, 0.5, 0.9], 4).tolist())  # satisfaction, independent of attractiveness
ALIKE = (0.45,) * len(CLICK)
USERS = {
    "bayesian": Cascade(CLICK, DIFFERENT, False, (0.85,), (0.85,)),
    "dependent": Cascade(CLICK, NEVER, False, (0.8, 0.6, 0.5, 0.5), (0.85,)),
    "returning": Returning(CLICK, NEVER, False, (0.75,), (0.85,), (0.35,)),
}


def fitted(name, user, seed=1, pages=2000, queries=15, k=4):
    rng = np.random.default_rng(seed)
    grades = rng.integers(len(CLICK), size=(queries, 8)).astype(np.uint8)
    kernel = getattr(user, "order_kernel", user.kernel)
    state, order = seed_state(seed), np.zeros(k, dtype=np.uint8)
    collector = PageCollector(k)
    for _ in range(pages):
        query = int(rng.integers(queries))
        shown = rng.permutation(8)[:k]
        kernel(grades[query, shown], k, user.parameters, state, order)
        places = np.flatnonzero(order)
        collector.add(query, shown.tolist(), places[np.argsort(order[places], kind="stable")].tolist())
    found = collector.pages()
    estimator = Estimator(MODELS[name], found, exposure_classes(found))
    estimator.fit(found.row_weights())
    return estimator


@pytest.mark.parametrize("name", USERS)
def test_a_newton_step_moves_parameters_like_a_full_fit(name):
    estimator = fitted(name, USERS[name])
    pages = estimator.pages
    with ThreadPoolExecutor(1) as pool:
        base, inverse = response(estimator, pages.row_weights(), pool)
    steps, full = [], []
    for sample in range(12):
        drawn = pages.row_weights(session_weights(pages.sessions, 0, sample))
        steps.append(inverse @ (estimator.copy().mapped(drawn, PASSES) - base))
        again = estimator.copy()
        again.fit(drawn)
        full.append(again.state - estimator.state)
    for j in range(len(estimator.free)):
        one, all_ = np.array(steps)[:, j], np.array(full)[:, j]
        assert np.corrcoef(one, all_)[0, 1] > 0.8
        assert 0.7 < one.std() / all_.std() < 1.4


@pytest.mark.parametrize("name", USERS)
def test_what_pages_say_first_is_the_same_for_every_sample(name):
    estimator = fitted(name, USERS[name], pages=500)
    pages = estimator.pages
    drawn = pages.row_weights(session_weights(pages.sessions, 0, 1))
    wanted = estimator.copy().mapped(drawn, PASSES)
    found = estimator.asked(pages.row_weights()).mapped(drawn, PASSES, asked=True)
    assert found == pytest.approx(wanted, abs=1e-12)


def test_documents_that_differ_widen_the_interval_of_satisfaction():
    widths = []
    for satisfied in (DIFFERENT, ALIKE):
        estimator = fitted("bayesian", Cascade(CLICK, satisfied, False, (0.85,), (0.85,)), pages=6000)
        low, high = intervals(estimator, samples=30, seed=0, threads=1)[-1]
        widths.append(high - low)
    assert widths[0] > 1.3 * widths[1]


def clicked_on_top(pages=400, k=3):
    """Return pages with clicks at rank 1 only; each of four documents is shown at each rank."""
    rng = np.random.default_rng(3)
    collector = PageCollector(k)
    for _ in range(pages):
        collector.add("q", rng.permutation(4)[:k].tolist(), [0] if rng.random() < 0.4 else [])
    return collector.pages()


@pytest.mark.parametrize("name", ["position", "browsing", "dependent"])
def test_what_never_happened_has_an_interval_as_wide_as_its_evidence(name):
    pages = clicked_on_top()
    estimator = Estimator(MODELS[name], pages, exposure_classes(pages))
    estimator.fit(pages.row_weights())
    spans = intervals(estimator, samples=20, seed=0, threads=1)
    clicks = pages.clicks
    for j, (low, high) in enumerate(spans[estimator.free]):
        assert low == 0.0
        # No click where `clicks` are expected has the probability exp(-p clicks), which is 2.5 % at the end.
        assert high > 0.5 * np.log(40) / clicks, j
    if name == "position":
        assert spans[1:, 1] == pytest.approx(np.log(40) / clicks, rel=0.1)
    if name == "browsing":  # the last click above is never at rank 2
        assert spans[5].tolist() == [0.0, 1.0]


def test_intervals_are_as_many_deviations_wide_as_student_says():
    estimator = fitted("dependent", USERS["dependent"], pages=600)
    pages = estimator.pages
    with ThreadPoolExecutor(1) as pool:
        base, inverse = response(estimator, pages.row_weights(), pool)
    steps = []
    for sample in range(4):
        drawn = pages.row_weights(session_weights(pages.sessions, 0, sample))
        steps.append(inverse @ (estimator.copy().mapped(drawn, PASSES) - base))
    free = estimator.free
    deviation = np.array(steps)[:, : len(free)].std(axis=0, ddof=1)
    found = intervals(estimator, samples=4, seed=0, threads=1)[free]
    reach = (logit(found[:, 1]) - logit(found[:, 0])) / 2
    assert reach == pytest.approx(3.182446 * deviation, rel=1e-5)  # the table of Student's t: 97.5 %, 3 degrees


def test_a_fit_that_acceleration_leads_astray_is_repeated_without():
    rng = np.random.default_rng(3)
    collector = PageCollector(4)
    for _ in range(500):
        shown = rng.permutation(6)[:4].tolist()
        collector.add("q", shown, [0] if rng.random() < 0.1 + 0.1 * shown[0] else [])
    pages = collector.pages()
    estimator = Estimator(MODELS["dependent"], pages, exposure_classes(pages))
    estimator.fit(pages.row_weights())
    assert estimator.theta.max() < 0.01


@pytest.mark.acceptance
def test_intervals_of_satisfaction_contain_the_mean_as_often_as_they_say():
    inside = []
    for seed in range(60):
        estimator = fitted("bayesian", USERS["bayesian"], seed=100 + seed)
        low, high = intervals(estimator, samples=40, seed=seed, threads=1)[-1]
        inside.append(low <= 0.45 <= high)
    assert np.mean(inside) > 0.87  # 95 % has a standard error of 2.8 % over 60 logs
