"""Exact distributions and expectations, and what has none."""

from fractions import Fraction as F

import numpy as np
import pytest

import multileave as ml
from multileave import theory

pytestmark = pytest.mark.fast


def test_distributions_known_by_hand():
    assert theory.distribution("tdm", ["AB", "BA", "BA"]) == {("A", "B"): F(1, 3), ("B", "A"): F(2, 3)}
    assert theory.distribution(ml.PairwisePreference(), ["ABC", "BCA"]) == {
        tuple(shown): F(1, 4) for shown in ("ABC", "ACB", "BAC", "BCA")
    }
    oi = theory.distribution("om(samples='all')", {"a": "ABC", "b": "BCA"})
    assert oi == {tuple("ABC"): F(3, 7), tuple("BAC"): F(13, 35), tuple("BCA"): F(1, 5)}
    assert theory.distribution("pm", ["AB", "BA", "BA"])["A", "B"] == F(10, 27)


def test_a_page_shorter_than_the_rankings():
    assert theory.distribution("ppm", ["ABC", "BCA"], k=1) == {("A",): F(1, 2), ("B",): F(1, 2)}


def test_arrays_and_integers():
    assert theory.distribution("tdm", np.array([[1, 2], [2, 1]])) == {(1, 2): F(1, 2), (2, 1): F(1, 2)}


def test_expectations_known_by_hand():
    sees_first = theory.Independent(relevant=(1,), other=(0,))
    assert theory.expectation("ppm", ["AB", "BA"], sees_first, {"A"}, k=1) == ((0, 1), (-1, 0))
    assert theory.expectation("ppm(hidden=False)", ["AB", "BA"], sees_first, {"A"}, k=1) == ((0, 0), (0, 0))
    p1, p2 = F(3, 5), F(1, 5)
    rank_only = theory.Independent(relevant=(p1, p2), other=(p1, p2))
    assert theory.expectation("sosm", ["AB", "BA", "BA"], rank_only, ())[0][1] == -(p1 - p2) / 3


def test_an_expectation_agrees_with_simulation():
    user = theory.Cascade(click=(F(1, 4), F(3, 4)), stop=(F(0), F(1, 2)))
    rankings = [["a", "b", "c", "d"], ["c", "a", "d", "b"], ["d", "b", "a", "c"]]
    exact = np.array(theory.expectation("ppm", rankings, user, {"a", "d"}, k=2), dtype=float)
    rng = np.random.default_rng(1)
    total = np.zeros((3, 3))
    draws = 4000
    method = ml.PairwisePreference()
    for _ in range(draws):
        impression = method.combine(rankings, k=2, seed=rng)
        clicks = []
        for position, document in enumerate(impression.shown):
            relevant = document in ("a", "d")
            if rng.random() < (0.75 if relevant else 0.25):
                clicks.append(position)
                if relevant and rng.random() < 0.5:
                    break
        total += ml.infer(impression, positions=clicks).preferences
    assert np.abs(total / draws - exact).max() < 0.12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.distribution("pm(tau=2.5)", ["AB", "BA"]), "pm.*has no exact form.*Use an integer tau"),
        (lambda: theory.distribution("sosm(tau=0.5)", ["AB", "BA"]), None),
        (lambda: theory.distribution("bi", ["AB", "BA", "AB"]), "exactly 2 rankers"),
        (lambda: theory.distribution("ppm", ["AB", "BA"], k=0), "k is 0"),
        (lambda: theory.distribution("ppm", ["AA", "BA"]), "twice"),
        (lambda: theory.expectation("ppm", ["AB", "BA"], "independent", {"A"}), "needs one user"),
        (lambda: theory.check("ppm", documents=1), "documents is 1"),
        (lambda: theory.check("pm(tau=2.5)"), "has no exact form"),
        (lambda: theory.check("ppm", user="nobody"), "no user 'nobody'"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    if message is None:
        call()
        return
    with pytest.raises(ml.MultileaveError, match=message):
        call()
