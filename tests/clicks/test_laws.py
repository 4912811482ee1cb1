"""Every model's kernel clicks as the same user in exact arithmetic does, on every page of two or three grades."""

from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest
from scipy.stats import chisquare

from multileave import theory
from multileave.clicks import Browsing, Cascade, PositionBased, Returning
from multileave.errors import DataError
from multileave.random import seed_state, uniform

pytestmark = pytest.mark.fast

CLICK = (0.2, 0.5, 0.9)
EXAMINE = ((0.9,), (0.7, 0.8), (0.4, 0.6, 0.9), (0.3, 0.5, 0.6, 0.8))
MODELS = {
    "position": PositionBased(CLICK, (1.0, 0.6, 0.3)),
    "paper": Cascade(CLICK, (0.1, 0.4, 0.7)),
    "anywhere": Cascade(CLICK, (0.1, 0.4, 0.7), anywhere=True),
    "dependent": Cascade(CLICK, (0.0, 0.0, 0.0), go_on_after_click=(0.5, 0.8, 0.6)),
    "bayesian": Cascade(CLICK, (0.3, 0.3, 0.6), go_on_after_click=(0.9,), go_on_after_skip=(0.8, 0.7)),
    "all at once": Cascade(CLICK, (0.3, 0.2, 0.1), True, (0.9, 0.5), (0.6, 0.7, 0.8)),
    "browsing": Browsing(CLICK, EXAMINE),
    "returning": Returning(CLICK, (0.0, 0.0, 0.0), False, (0.9,), (0.8,), back=(0.4,)),
    "returning by rank": Returning(
        CLICK, (0.3, 0.2, 0.1), True, (0.9, 0.5), (0.6, 0.7, 0.8), back=(0.0, 0.5, 0.3, 0.9)
    ),
}


def clicks_of(model, labels, visible, rng):
    clicks = np.full(len(labels), 7, dtype=np.uint8)
    count = model.kernel(np.array(labels, dtype=np.uint8), visible, model.parameters, rng, clicks)
    assert count == clicks.sum()
    return tuple(np.flatnonzero(clicks).tolist())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("labels", [[2, 0, 1, 2], [0, 1, 2, 0], [1, 1, 0, 2, 2]])
def test_click_vectors_have_the_frequencies_of_the_law(name, labels):
    model, visible, draws = MODELS[name], 4, 4000
    law = {}
    for clicked, chance in theory.exact(model).law(labels[:visible]):
        law[clicked] = law.get(clicked, 0) + chance
    assert sum(law.values()) == 1
    rng = seed_state(f"{name} {labels}")
    seen = dict.fromkeys(law, 0)
    for _ in range(draws):
        seen[clicks_of(model, labels, visible, rng)] += 1
    common = [clicked for clicked in law if draws * law[clicked] >= 5]
    counts = [*(seen[clicked] for clicked in common), draws - sum(seen[clicked] for clicked in common)]
    expected = [float(draws * law[clicked]) for clicked in common]
    rest = draws - sum(expected)
    if rest < 1e-9:
        counts.pop()
    else:
        expected.append(rest)
    assert chisquare(counts, expected).pvalue > 1e-3


def slow_browsing(model, labels, visible, rng):
    """The user browsing model again, written from its definition; ranks count from 1."""
    clicked = []
    for rank, grade in enumerate(labels[: min(visible, len(model.examine))], 1):
        last = max(clicked, default=0)
        if uniform(rng) < model.examine[rank - 1][last] * model.click[grade]:
            clicked.append(rank)
    return [rank - 1 for rank in clicked]


def slow_returning(model, labels, visible, rng):
    """The walks again, written from the sentences of `multileave.clicks.returning`; ranks count from 1."""

    def at(by_rank, rank):
        return by_rank[min(rank, len(by_rank)) - 1]

    page = labels[:visible]
    clicked = []
    ahead = list(range(1, len(page) + 1))
    while ahead:
        rank = ahead.pop(0)
        if rank in clicked:
            continue
        grade = page[rank - 1]
        if uniform(rng) < model.click[grade]:
            clicked.append(rank)
            if uniform(rng) < 1 - (1 - model.stop[grade]) * at(model.go_on_after_click, rank):
                break
            back = at(model.back, rank)
            if rank > 1 and back > 0 and uniform(rng) < back:
                ahead = list(range(rank - 1, 0, -1))
            else:
                ahead = list(range(rank + 1, len(page) + 1))
        elif model.anywhere or min(model.go_on_after_skip) < 1:
            stop = model.stop[grade] if model.anywhere else 0
            if uniform(rng) < 1 - (1 - stop) * at(model.go_on_after_skip, rank):
                break
    return [rank - 1 for rank in clicked]


@pytest.mark.parametrize(("name", "slow"), [("browsing", slow_browsing), ("returning", slow_returning)])
def test_kernels_equal_their_slow_twins_to_the_bit(name, slow):
    random = np.random.default_rng(5)
    rng, twin = seed_state(3), seed_state(3)
    for _ in range(400):
        labels = random.integers(0, 3, size=random.integers(1, 7)).tolist()
        visible = int(random.integers(0, len(labels) + 2))
        assert clicks_of(MODELS[name], labels, visible, rng) == tuple(sorted(slow(MODELS[name], labels, visible, twin)))
    assert np.array_equal(rng, twin)


def test_the_order_of_clicks_is_kept():
    model, random = MODELS["returning"], np.random.default_rng(6)
    rng, twin = seed_state(4), seed_state(4)
    upwards = 0
    for _ in range(400):
        labels = random.integers(0, 3, size=6).tolist()
        order = np.full(6, 7, dtype=np.uint8)
        count = model.order_kernel(np.array(labels, dtype=np.uint8), 6, model.parameters, rng, order)
        found = sorted(np.flatnonzero(order).tolist(), key=lambda x: order[x])
        assert found == slow_returning(model, labels, 6, twin)
        assert sorted(order[order > 0].tolist()) == list(range(1, count + 1))
        upwards += found != sorted(found)
    assert upwards > 20


def law_of(user, grades):
    law = {}
    for clicked, chance in user.law(grades):
        law[clicked] = law.get(clicked, 0) + chance
    return {clicked: chance for clicked, chance in law.items() if chance}


def test_laws_by_hand():
    half = F(1, 2)
    down = theory.Browsing(click=(0, 1), examine=((half,), (1, F(1, 3))))
    assert law_of(down, [1, 1]) == {(1,): half, (0,): half * F(2, 3), (0, 1): half * F(1, 3)}
    assert law_of(down, [0, 1]) == {(1,): 1}
    returns = theory.Returning(click=(0, half), stop=(0, F(1, 4)), back=(F(1, 3),))
    # Both clicked downwards; or the first on the way back from the second.
    both = half * F(3, 4) * half + half * half * F(3, 4) * F(1, 3) * half
    first = half - half * F(3, 4) * half
    second = half * half - half * half * F(3, 4) * F(1, 3) * half
    assert law_of(returns, [1, 1]) == {(): F(1, 4), (0,): first, (1,): second, (0, 1): both}


def test_models_that_are_special_cases_have_the_same_law():
    position = theory.exact(MODELS["position"])
    by_rank = theory.Browsing(CLICK, tuple((examine,) * (x + 1) for x, examine in enumerate((1.0, 0.6, 0.3))))
    reads_on = theory.exact(MODELS["all at once"])
    stays = theory.Returning(**vars(reads_on))
    for grades in product(range(3), repeat=3):
        assert law_of(position, grades) == law_of(by_rank, grades)
        assert law_of(reads_on, grades) == law_of(stays, grades)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Browsing(CLICK, ((1.0,), (0.5,))), r"examine\[1\] has 1 probabilities; expected 2"),
        (lambda: Browsing(CLICK, (1.0,)), r"examine\[0\] is 1.0; expected a list of probabilities"),
        (lambda: Browsing(CLICK, ()), r"examine is \(\)"),
        (lambda: Returning(CLICK, CLICK, back=(2.0,)), r"back\[0\] is 2.0"),
        (lambda: Returning(CLICK, CLICK, back=()), "back has 0 probabilities"),
        (lambda: Cascade(CLICK, CLICK, go_on_after_click=()), "go_on_after_click has 0 probabilities"),
        (lambda: theory.Browsing(CLICK, ((1,), (1,))), r"examine\[1\] has 1 probabilities"),
        (lambda: theory.Cascade(CLICK, CLICK, go_on_after_skip=()), "go_on_after_skip has 0 probabilities"),
        (lambda: list(theory.exact(MODELS["browsing"]).law([3])), "grade 3, and this user knows grades 0 to 2"),
        (lambda: theory.exact("navigational"), "user is a str; expected a model of multileave.clicks"),
    ],
)
def test_users_that_make_no_sense_are_refused(make, message):
    with pytest.raises(DataError, match=message):
        make()


def test_exact_users_come_back_from_plain_values():
    for model in MODELS.values():
        user = theory.exact(model)
        assert theory.users.user_from_dict(user.to_dict()) == user
