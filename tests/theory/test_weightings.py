"""Weightings of pairs: one is found where one is known, and refuted, in Fractions, where none can be."""

import runpy
from fractions import Fraction as F
from pathlib import Path

import pytest

import multileave as ml
from multileave import theory
from multileave.theory.instances import dominators, instances, relevant_sets
from multileave.theory.users import PRESETS

RESEARCH = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "weightings.py"), run_name="weightings")
Condition, coefficients, decide = (RESEARCH[name] for name in ("Condition", "coefficients", "decide"))
FIRST_AND_GONE = theory.Cascade(click=(0, 1), stop=(0, 1))
IMPOSSIBLE = [
    Condition(tuple(map(tuple, rankings)), 4, frozenset(relevant), (0, 1), user, strict)
    for rankings, relevant, user, strict in (
        (("KMIJXVW", "KMJIXVW", "WJXVKIM"), "I", PRESETS["perfect"], True),
        (("XJIVKMW", "XKIJVMW", "KMWJVIX"), "XIV", FIRST_AND_GONE, False),
        (("XJIVKMW", "XKIJVMW", "KMJWXIV"), "XIV", FIRST_AND_GONE, False),
        (("XJIVKMW", "XKIJVMW", "JMIXKVW"), "XIV", FIRST_AND_GONE, False),
    )
]


def conditions(documents, rankers, k, *users):
    for rankings in instances(documents, rankers, reorder=True):
        for relevant in relevant_sets(tuple(sorted(rankings[0]))):
            for better in dominators(rankings, relevant, k):
                for worse in range(rankers):
                    if worse != better:
                        yield from (Condition(rankings, k, relevant, (better, worse), user) for user in users)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_coefficients_with_ppms_weights_give_ppms_expectation(k):
    for condition in conditions(3, 2, k, PRESETS["informational"]):
        n, m = condition.pair
        expected = theory.expectation("ppm(pairs='all')", condition.rankings, condition.user, condition.relevant, k)
        found = sum(value * ((x in c) - (y in c)) for (x, y, _, _, c), value in coefficients(condition).items())
        assert found == expected[n][m]


def test_a_weighting_for_the_papers_users_is_found_and_meets_every_condition():
    asked = list(conditions(3, 3, 2, *(PRESETS[name] for name in ("perfect", "navigational", "informational"))))
    decision = decide(asked)
    assert decision
    for condition in asked:
        assert sum(v * decision.weighting.get(key, 0) for key, v in coefficients(condition).items()) > 0


def test_seven_documents_leave_no_weighting_for_all_cascades():
    for condition in IMPOSSIBLE:
        assert 0 in dominators(condition.rankings, condition.relevant, condition.k)
    decision = decide(IMPOSSIBLE)
    assert not decision
    assert decision.certificate == {0: 1, 1: 8, 2: 3, 3: F(9, 2)}
    total = {}
    for place, multiplier in decision.certificate.items():
        for key, value in coefficients(IMPOSSIBLE[place]).items():
            total[key] = total.get(key, 0) + multiplier * value
    assert set(total.values()) == {0}


@pytest.mark.parametrize("left_out", range(4))
def test_no_condition_of_the_four_can_be_spared(left_out):
    asked = [condition for place, condition in enumerate(IMPOSSIBLE) if place != left_out]
    if left_out == 0:
        asked[0] = Condition(**{**vars(asked[0]), "strict": True})
    assert decide(asked)


def test_opm_keeps_all_four_conditions():
    for condition in IMPOSSIBLE:
        expected = theory.expectation(ml.OpposedPreference(), condition.rankings, condition.user, condition.relevant, 4)
        assert expected[0][1] > 0 if condition.strict else expected[0][1] >= 0
