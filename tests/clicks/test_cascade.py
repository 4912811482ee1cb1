"""Users: the kernel clicks as the cascade's law says, and the presets are the paper's."""

import numpy as np
import pytest
from scipy.stats import chisquare

from multileave import theory
from multileave.clicks import USERS, Cascade, cascade_clicks, user
from multileave.errors import DataError
from multileave.random import seed_state, uniform

pytestmark = pytest.mark.fast

SOME = Cascade(click=(0.2, 0.5, 0.9), stop=(0.1, 0.4, 0.7))


def clicks_of(model: Cascade, labels: list[int], visible: int, rng: np.ndarray) -> tuple[int, ...]:
    clicks = np.full(len(labels), 7, dtype=np.uint8)
    count = cascade_clicks(np.array(labels, dtype=np.uint8), visible, model.parameters, rng, clicks)
    assert count == clicks.sum()
    return tuple(clicks.tolist())


def slow_clicks(model: Cascade, labels: list[int], visible: int, rng: np.ndarray) -> tuple[int, ...]:
    """The cascade again, written from the paper's sentences."""
    clicks = [0] * len(labels)
    for position, grade in enumerate(labels[:visible]):
        clicks[position] = int(uniform(rng) < model.click[grade])
        may_stop = model.anywhere or clicks[position] == 1
        if may_stop and uniform(rng) < model.stop[grade]:
            break
    return tuple(clicks)


@pytest.mark.parametrize("anywhere", [False, True])
def test_the_kernel_equals_its_slow_twin_to_the_bit(anywhere: bool) -> None:
    model = Cascade(SOME.click, SOME.stop, anywhere)
    random = np.random.default_rng(5)
    rng, twin = seed_state(3), seed_state(3)
    for _ in range(300):
        labels = random.integers(0, 3, size=random.integers(1, 12)).tolist()
        visible = int(random.integers(0, len(labels) + 2))
        assert clicks_of(model, labels, visible, rng) == slow_clicks(model, labels, visible, twin)
    assert np.array_equal(rng, twin)


def law_of(model: Cascade, labels: list[int], visible: int) -> dict[tuple[int, ...], float]:
    """Return the probability of every click vector, from the same user in exact arithmetic."""
    law: dict[tuple[int, ...], float] = {}
    for positions, chance in theory.Cascade(model.click, model.stop, model.anywhere).law(labels[:visible]):
        vector = tuple(int(x in positions) for x in range(len(labels)))
        law[vector] = law.get(vector, 0.0) + float(chance)
    return law


@pytest.mark.parametrize("anywhere", [False, True])
def test_click_vectors_have_the_frequencies_of_the_law(anywhere: bool) -> None:
    model = Cascade(SOME.click, SOME.stop, anywhere)
    labels, visible, draws = [2, 0, 1, 2], 3, 8000
    law = law_of(model, labels, visible)
    rng = seed_state(11)
    seen = dict.fromkeys(law, 0)
    for _ in range(draws):
        seen[clicks_of(model, labels, visible, rng)] += 1
    assert chisquare(list(seen.values()), [draws * law[vector] for vector in seen]).pvalue > 1e-3


def test_the_law_by_hand() -> None:
    model = Cascade(click=(0.5, 1.0), stop=(0.0, 0.25))
    assert law_of(model, [1, 0], 2) == {
        (1, 0): 0.25 + 0.75 * 0.5,
        (1, 1): 0.75 * 0.5,
    }
    anywhere = Cascade(click=(0.5,), stop=(0.5,), anywhere=True)
    assert law_of(anywhere, [0, 0], 2) == {(0, 0): 0.25 + 0.125, (0, 1): 0.125, (1, 0): 0.25 + 0.125, (1, 1): 0.125}


def test_stopping_needs_a_click_unless_it_may_happen_anywhere() -> None:
    labels = [0, 0, 1]
    stops = {"click": (0.0, 1.0), "stop": (1.0, 1.0)}
    assert clicks_of(Cascade(**stops), labels, 3, seed_state(0)) == (0, 0, 1)
    assert clicks_of(Cascade(**stops, anywhere=True), labels, 3, seed_state(0)) == (0, 0, 0)


def test_hidden_documents_are_never_clicked() -> None:
    eager = Cascade(click=(1.0,), stop=(0.0,))
    assert clicks_of(eager, [0, 0, 0], 2, seed_state(0)) == (1, 1, 0)


def test_presets_are_those_of_the_paper() -> None:
    assert user("perfect", 5) == Cascade((0.0, 0.2, 0.4, 0.8, 1.0), (0.0,) * 5)
    assert user("navigational", 5) == Cascade((0.05, 0.3, 0.5, 0.7, 0.95), (0.2, 0.3, 0.5, 0.7, 0.9))
    assert user("informational", 5) == Cascade((0.4, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5))
    assert user("perfect", 3) == Cascade((0.0, 0.5, 1.0), (0.0,) * 3)
    assert user("navigational", 3) == Cascade((0.05, 0.5, 0.95), (0.2, 0.5, 0.9))
    assert user("informational", 3) == Cascade((0.4, 0.7, 0.9), (0.1, 0.3, 0.5))
    assert user("informational", 2) == Cascade((0.4, 0.9), (0.1, 0.5))
    assert user("almost_random", 3) == Cascade((0.4, 0.5, 0.6), (0.5,) * 3)
    assert user("random", 4) == Cascade((0.5,) * 4, (0.0,) * 4)
    assert user("navigational", 2, anywhere=True).anywhere


def test_users_are_named() -> None:
    assert set(USERS) == {"perfect", "navigational", "informational", "random", "almost_random"}
    for name in USERS:
        assert user(name, 5).grades == 5


@pytest.mark.parametrize(
    ("click", "stop", "message"),
    [
        ((0.1, 1.1), (0.0, 0.0), r"click\[1\] is 1.1"),
        ((0.1, 0.2), (0.0, -0.5), r"stop\[1\] is -0.5"),
        ((0.1, float("nan")), (0.0, 0.0), r"click\[1\] is nan"),
        ((0.1, "x"), (0.0, 0.0), r"click\[1\] is 'x'"),
        ((0.1, 0.2), (0.0,), "click has 2 probabilities and stop has 1"),
        ((), (), "click has 0 probabilities"),
        (0.5, (0.0,), "click is 0.5"),
    ],
)
def test_probabilities_are_checked(click: object, stop: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Cascade(click, stop)  # type: ignore[arg-type]


def test_other_numbers_of_grades_lie_between_those_of_five() -> None:
    four = user("navigational", 4)
    assert four.click == pytest.approx((0.05, 0.3 + 0.2 / 3, 0.5 + 0.4 / 3, 0.95))
    assert four.stop == pytest.approx((0.2, 0.3 + 0.2 / 3, 0.5 + 0.4 / 3, 0.9))
    nine = user("perfect", 9)
    assert nine.click[::2] == user("perfect", 5).click
    assert nine.click[1] == pytest.approx(0.1)


def test_unknown_users_and_grades_are_refused() -> None:
    with pytest.raises(DataError, match="Did you mean 'navigational'"):
        user("navigatonal", 5)
    with pytest.raises(DataError, match="grades is 1"):
        user("random", 1)
