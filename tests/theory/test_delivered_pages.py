"""Pages: users who stop decide how much is delivered, so inference must not be cut there."""

from fractions import Fraction as F
from itertools import permutations

import pytest

import multileave as ml
from multileave.theory.instances import dominators, relevant_sets

CLICK, STOP = (F(2, 5), F(1, 2)), (F(1, 10), F(9, 10))


def reading(grades):
    """Yield (clicked, how many results were asked for, probability) of a cascade user who turns pages of one result."""

    def examine(clicked, x, chance):
        if x == len(grades):
            yield clicked, x, chance
            return
        grade = grades[x]
        yield (*clicked, x), x + 1, chance * CLICK[grade] * STOP[grade]
        yield from examine((*clicked, x), x + 1, chance * CLICK[grade] * (1 - STOP[grade]))
        yield from examine(clicked, x + 1, chance * (1 - CLICK[grade]))

    return examine((), 0, F(1))


def expected(method, rankings, relevant, k, *, cut):
    """E[P_12], from what was delivered only (cut), or from all that was drawn."""
    total = F(0)
    for drawn, note, probability in method.lists(rankings, k):
        for clicked, delivered, chance in reading([int(d in relevant) for d in drawn[:k]]):
            if clicked:
                m = delivered + method.beyond() if cut else len(drawn)
                score = method.score(rankings, drawn[:m], note[:m], clicked, delivered if cut else k)
                total += probability * chance * score[0][1]
    return total


@pytest.mark.parametrize("spec", ["opm", "opm(pairs='below')", "rpm(lead=2)"])
def test_a_better_ranker_wins_if_all_that_was_drawn_counts(spec):
    method = ml.get_method(spec)
    for other in permutations("ABCD"):
        rankings = (tuple("ABCD"), other)
        for relevant in relevant_sets(tuple("ABCD")):
            if 0 in set(dominators(rankings, relevant, 3)):
                assert expected(method, rankings, relevant, 3, cut=False) > 0


def test_it_can_lose_if_only_what_was_delivered_counts():
    method, rankings = ml.get_method("opm(pairs='below')"), (tuple("ABCD"), tuple("ADCB"))
    assert 0 in set(dominators(rankings, frozenset("B"), 3))
    assert expected(method, rankings, {"B"}, 3, cut=True) < 0
    assert expected(method, rankings, {"B"}, 3, cut=False) > 0
