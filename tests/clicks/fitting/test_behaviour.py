"""What the kernels say about a page, against the law that follows from the model's own words."""

import itertools

import numpy as np
import pytest

from multileave.clicks.fitting.behaviour import returning_page
from multileave.clicks.fitting.models import MODELS
from multileave.clicks.fitting.prediction import returning_set

K = 4
A = np.array([0.3, 0.5, 0.2, 0.6])
UNSATISFIED = np.array([0.7, 0.4, 0.9, 0.5])
THETA = {
    "position": np.array([1.0, 0.7, 0.5, 0.4]),
    "bayesian": np.array([0.8, 0.4]),
    "returning": np.array([0.8, 0.7, 0.4]),
    "dependent": np.array([0.9, 0.6, 0.5, 0.8]),
    "browsing": np.array([1.0, 0.6, 0.9, 0.4, 0.5, 0.8, 0.3, 0.2, 0.5, 0.7]),
}

pytestmark = pytest.mark.fast


def walks(name, n, theta, a, unsatisfied):
    """Yield (clicks in order, probability) of a user of that model, step by step as its definition says."""
    if name in ("position", "browsing"):
        for clicked in itertools.product((0, 1), repeat=n):
            chance, last = 1.0, 0
            for x, c in enumerate(clicked):
                e = theta[x] if name == "position" else theta[x * (x + 1) // 2 + last]
                chance *= e * a[x] if c else 1 - e * a[x]
                last = x + 1 if c else last
            yield tuple(x for x in range(n) if clicked[x]), chance
        return
    stack = [((), 0, 1, 1.0)]
    while stack:
        clicks, x, step, chance = stack.pop()
        if not 0 <= x < n:
            yield clicks, chance
            continue
        if x in clicks:
            stack.append((clicks, x + step, step, chance))
            continue
        skip = theta[-1] if name == "dependent" else theta[0]
        stack.append((clicks, x + step, step, chance * (1 - a[x]) * skip))
        yield clicks, chance * (1 - a[x]) * (1 - skip)
        hit, now = chance * a[x], (*clicks, x)
        if name == "dependent":
            stay = theta[x] if x < K - 1 else 0.5
        else:
            stay = unsatisfied[x] * theta[0] if name == "bayesian" else theta[1]
        back = theta[2] if name == "returning" and x > 0 else 0.0
        yield now, hit * (1 - stay)
        stack.append((now, x + 1, 1, hit * stay * (1 - back)))
        if back:
            stack.append((now, x - 1, -1, hit * stay * back))


def law(name, n, theta=None, a=A):
    found = {}
    for clicks, chance in walks(name, n, THETA[name] if theta is None else theta, a, UNSATISFIED):
        found[clicks] = found.get(clicks, 0.0) + chance
    return found


def order_of(clicks):
    order = np.zeros(K, dtype=np.uint8)
    for turn, x in enumerate(clicks, start=1):
        order[x] = turn
    return order


def page(name, clicks, n, theta=None, a=A):
    model = MODELS[name]
    theta = THETA[name] if theta is None else theta
    both = np.concatenate([a, UNSATISFIED])[: K * model.halves].copy()
    rho, sure, hit = (np.zeros(K * model.halves) for _ in range(3))
    num, den = np.zeros(len(theta)), np.zeros(len(theta))
    value = model.page(order_of(clicks), n, theta, both, rho, sure, hit, 1.0, num, den)
    return float(np.exp(value)), rho, sure, hit, num, den


@pytest.mark.parametrize("n", [1, 3, 4])
@pytest.mark.parametrize("name", MODELS)
def test_the_likelihood_of_a_page_is_that_of_the_models_law(name, n):
    found = law(name, n)
    assert sum(found.values()) == pytest.approx(1.0)
    for clicks, chance in found.items():
        assert page(name, clicks, n)[0] == pytest.approx(chance, rel=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_a_page_says_about_a_document_what_its_likelihood_does(name):
    for clicks in law(name, K):
        _, rho, sure, hit, *_ = page(name, clicks, K)
        for x in range(K):
            chances = []
            for value in (0.25, 0.75):
                moved = A.copy()
                moved[x] = value
                factor = value ** hit[x] * (1 - value) ** sure[x] * (1 - rho[x] * value)
                chances.append(page(name, clicks, K, a=moved)[0] / factor)
            assert chances[0] == pytest.approx(chances[1], rel=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_expected_counts_are_the_slope_of_the_likelihood(name):
    for clicks in law(name, K):
        *_, num, den = page(name, clicks, K)
        for j, value in enumerate(THETA[name]):
            if value == 1.0 or (name == "bayesian" and j == 1):  # fixed, or the mean of a prior
                continue
            logs = []
            for step in (-1e-5, 1e-5):
                moved = THETA[name].copy()
                moved[j] = 1 / (1 + np.exp(-(np.log(value / (1 - value)) + step)))
                logs.append(np.log(page(name, clicks, K, theta=moved)[0]))
            assert num[j] - value * den[j] == pytest.approx((logs[1] - logs[0]) / 2e-5, abs=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_click_rates_are_those_of_the_law(name):
    model = MODELS[name]
    for n in (2, K):
        out = np.zeros(K)
        both = np.concatenate([A, UNSATISFIED])[: K * model.halves].copy()
        model.rates(n, THETA[name], both, out, np.zeros(7 * K + 8))
        wanted = [sum(chance for clicks, chance in law(name, n).items() if x in clicks) for x in range(n)]
        assert out[:n] == pytest.approx(wanted, abs=2e-4 if name == "returning" else 1e-12)


def test_a_set_of_clicks_sums_over_all_orders_of_clicking():
    found = law("returning", K)
    for size in range(K + 1):
        for clicked in itertools.combinations(range(K), size):
            wanted = sum(chance for clicks, chance in found.items() if set(clicks) == set(clicked))
            value = returning_set(order_of(clicked), K, THETA["returning"], A, np.zeros(16 * K))
            assert np.exp(value) == pytest.approx(wanted, rel=1e-9)


def test_a_click_above_after_one_below_is_possible_only_by_going_back():
    never = np.array([0.8, 0.7, 1e-300])
    arguments = [np.zeros(K) for _ in range(3)]
    value = returning_page(order_of((2, 0)), K, never, A.copy(), *arguments, 1.0, np.zeros(3), np.zeros(3))
    assert np.exp(value) < 1e-9
