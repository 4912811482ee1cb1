"""opm: which pairs count, and that it keeps both requirements for users who read downwards and stop."""

from fractions import Fraction as F

import numpy as np
import pytest

import multileave as ml
from multileave import theory
from multileave.methods.opposed_preference import discount, fill_discounts
from multileave.theory.instances import dominators
from multileave.theory.proofs import proved

# Goes on after a relevant document more than after another, against what pairs="all" asks.
FORGIVING = theory.Cascade(click=(F(49, 100), F(1, 2)), stop=(F(99, 100), 0))
IMPATIENT = theory.Cascade(click=(F(1, 100), F(99, 100)), stop=(0, F(99, 100)))


def preference(clicks, pairs="all", drawn="ABC"):
    """Return P_12 for ABC / BCA, all of which can be drawn in this order, k = 3."""
    rankings = tuple(map(tuple, ("ABC", "BCA")))
    return ml.OpposedPreference(pairs=pairs).score(rankings, tuple(drawn), (), clicks, 3)[0][1]


def test_only_documents_that_move_in_opposite_directions_count():
    """From BCA to ABC, A moves up from 3 to 1, B down from 1 to 2, C down from 2 to 3; best ranks 1, 1, 2."""
    up_a, down_b, down_c = (discount(r, 3) - discount(s, 3) for r, s in ((1, 3), (1, 2), (2, 3)))
    assert up_a == F(1, 2) > down_b > down_c > 0
    assert preference([0]) == down_b  # A and C count from rank 2 on; B and C move in the same direction
    assert preference([1]) == -down_b
    assert preference([2]) == 0
    assert preference([1], drawn="BAC") == down_b + down_c
    assert preference([0, 1, 2]) == 0
    assert preference([0, 1, 2], pairs="below") == down_b
    assert preference([2], pairs="below", drawn="BCA") == 0


def test_discounts_of_kernel_and_definition_are_equal_to_the_bit_and_fall():
    discounts = np.zeros(10_002)
    fill_discounts(discounts)
    ranks = range(1, 10_001)
    assert [F(discounts[rank]) for rank in ranks] == [discount(rank, 10_000) for rank in ranks]
    assert (np.diff(discounts[1:]) < 0).all()
    assert discount(10_001, 10_000) == 0 == discount(float("inf"), 3)


@pytest.mark.parametrize(
    ("pairs", "user", "holds"),
    [
        ("all", "navigational", True),
        ("all", "informational", True),
        ("all", IMPATIENT, True),
        ("all", FORGIVING, False),
        ("below", "navigational", True),
        ("below", FORGIVING, True),
    ],
)
def test_a_better_ranker_wins_with_users_who_stop(pairs, user, holds):
    report = theory.check(f"opm(pairs={pairs!r})", documents=3, rankers=3, user=user)
    assert report.pareto.holds == report.pareto.proved == holds


def test_what_is_proved_of_cascades():
    everyone_goes_on = theory.Cascade(click=(0, 1), stop=(0, F(1, 2)), anywhere=True)
    nobody_goes_on = theory.Cascade(click=(0, 1), stop=(0, 1))
    random = theory.Cascade(click=(F(1, 2), F(1, 2)), stop=(0, 0))
    for user, expected in ((everyone_goes_on, True), (nobody_goes_on, False), (random, False)):
        assert ("pareto" in proved(ml.get_method("opm"), user)) == expected
    assert "pareto" in proved(ml.get_method("opm"))
    assert "pareto" not in proved(ml.get_method("dpm"), everyone_goes_on)


# Where cascade users make ppm or dpm prefer the dominated ranker: docs/theory.md, docs/research/cascade-users.md.
DEFEATS = [
    (("ABCDEF", "AFCEDB", "BDACEF"), "ACE", (1, 0), 4),
    (("XJIVKMW", "XKIJVMW", "KMJWXIV"), "XIV", (0, 1), 4),
]


@pytest.mark.parametrize(("rankings", "relevant", "pair", "k"), DEFEATS)
def test_it_holds_on_instances_that_defeat_dpm(rankings, relevant, pair, k):
    better, worse = pair
    assert theory.expectation("dpm", rankings, IMPATIENT, relevant, k)[better][worse] < 0
    assert theory.expectation("opm", rankings, IMPATIENT, relevant, k)[better][worse] > 0
    assert theory.expectation("opm(pairs='below')", rankings, IMPATIENT, relevant, k)[better][worse] > 0


def test_it_needs_no_ranker_that_dominates_all():
    """The first dominates the second and not the third; requirement 2 asks nothing, and opm still tells."""
    rankings = ("ABCD", "BACD", "CADB")
    assert 0 not in dominators(tuple(map(tuple, rankings)), frozenset("AC"), 3)
    assert theory.expectation("opm", rankings, "navigational", {"A", "C"}, 3)[0][1] > 0


def test_rankings_of_different_documents_never_prefer_the_dominated_one():
    users = ("navigational", IMPATIENT, theory.Independent(relevant=(1, 1), other=(0, 0)))
    assert [theory.expectation("opm", ["A", "AB"], user, {"B"}, 2)[1][0] for user in users] == [0, 0, 0]
    assert all(theory.expectation("opm", ["AC", "BA"], user, {"A"}, 2)[0][1] > 0 for user in users)
