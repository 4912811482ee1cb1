"""Propensities: formula and kernel equal enumeration, and what each ranker earns alone is estimated without bias."""

import dataclasses
import json
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import multileave as ml
from multileave import theory
from multileave.errors import ClicksError, ImpressionError

SPECS = ["ppm", "dpm", "opm", "ppm(hidden=False)", "rpm", "rpm(group=2, lead=3)"]
SHARED = [*product(permutations("ABC"), repeat=3)]
PAIRS = [("ABCD", "".join(other)) for other in permutations("ABCD")]  # renaming documents gives all the others
DIFFERENT = [("ABC", "DEF"), ("ABC", "BD"), ("A", "BCDE"), ("AB", "BA", "CDE"), ("ABCD", "EBAF", "C")]
CASES = [*SHARED, *PAIRS, *DIFFERENT]


def pages(method, rankings, k):
    """Return the probability of every page."""
    return theory.distribution(method, rankings, k)


def by_enumeration(method, rankings, k):
    """Return the probability of every document at every rank."""
    found = {}
    for shown, probability in pages(method, rankings, k).items():
        for rank, document in enumerate(shown, start=1):
            found[document, rank] = found.get((document, rank), Fraction(0)) + probability
    return found


def sizes(rankings):
    return range(1, len({document for ranking in rankings for document in ranking}) + 1)


@pytest.mark.parametrize("spec", [*SPECS, "tdm", "tdm(prefix='drafted')"])
def test_the_formula_equals_enumeration(spec):
    method = ml.get_method(spec)
    for rankings in [*SHARED[::5], *PAIRS, *DIFFERENT]:
        for k in sizes(rankings):
            found = by_enumeration(method, rankings, k)
            for document in {document for ranking in rankings for document in ranking}:
                for rank in range(1, k + 1):
                    expected = found.get((document, rank), 0)
                    assert method.propensity(rankings, document, rank, k) == expected, (rankings, document, rank, k)


@pytest.mark.parametrize("spec", SPECS)
def test_every_rankers_own_page_can_be_shown_at_its_ranks(spec):
    method = ml.get_method(spec)
    for rankings in CASES:
        for k in sizes(rankings):
            for ranking in rankings:
                for rank, document in enumerate(ranking[:k], start=1):
                    assert method.propensity(rankings, document, rank, k) > 0


def test_a_team_draft_cannot_show_every_page():
    """After one pick of each, the second document of a ranker is at rank 3 or below."""
    assert ml.TeamDraft().propensity(("AB", "CD"), "B", 2, 4) == 0
    assert ml.RoundPreference(lead=0).propensity(("AB", "CD"), "B", 2, 4) == 0


def assert_unbiased(method, lists, k, case):
    """Assert that for chances of clicks that depend on the document and its rank, in any way, rates are exact."""

    def chance(document, rank):
        return Fraction((7 * ord(document) + 5 * rank + 3 * case + rank * ord(document)) % 11, 11)

    alone = [sum(chance(d, x) for x, d in enumerate(ranking[:k], start=1)) for ranking in lists]
    estimated = [Fraction(0)] * len(lists)
    for (document, rank), probability in by_enumeration(method, lists, k).items():
        for r, ranking in enumerate(lists):
            if tuple(ranking[rank - 1 : rank]) == (document,):
                estimated[r] += probability * chance(document, rank) / method.propensity(lists, document, rank, k)
    assert estimated == alone, (method, lists, k)


@pytest.mark.parametrize("spec", ["ppm", "dpm", "opm", "rpm"])
@pytest.mark.parametrize("rankings", [SHARED, PAIRS, DIFFERENT], ids=["3 by 3", "4 by 2", "different documents"])
def test_what_a_ranker_earns_alone_is_unbiased_for_independent_clicks(spec, rankings):
    for case, lists in enumerate(rankings):
        for k in sizes(lists):
            assert_unbiased(ml.get_method(spec), lists, k, case)


@pytest.mark.acceptance
@pytest.mark.parametrize("spec", [*SPECS, "rpm(lead=2)"])
def test_rates_are_unbiased_for_all_rankings_of_three_documents_by_three_and_of_four_by_two(spec):
    """All 216 and all 576, at every k, with two kinds of users each."""
    method = ml.get_method(spec)
    for lists in (*SHARED, *product(permutations("ABCD"), repeat=2)):
        for k in sizes(lists):
            for case in (1, 2):
                assert_unbiased(method, lists, k, case)


TEAMS = ["tdm", "tdm(prefix='drafted')"]


@pytest.mark.parametrize("spec", TEAMS)
def test_a_team_draft_of_two_keeps_exact_propensities(spec):
    """All rankings of three documents and of different ones, every k: probabilities are halves of halves, so exact."""
    method = ml.get_method(spec)
    for rankings in [*product(permutations("ABC"), repeat=2), *PAIRS, *DIFFERENT[:3]]:
        for k in range(1, 7):
            for seed in range(4):
                impression = method.combine(rankings, k, seed=seed, propensities=True)
                for rank, document in enumerate(impression.shown, start=1):
                    chance = method.propensity(rankings, document, rank, k)
                    assert impression.propensity(document) == float(chance), (rankings, document, rank, k)


@st.composite
def drafts(draw):
    documents = list(range(draw(st.integers(2, 14))))
    pair = [draw(st.permutations(documents))[: draw(st.integers(1, len(documents)))] for _ in range(2)]
    return tuple(map(tuple, pair)), draw(st.integers(1, 15)), draw(st.integers(0, 2**32))


@pytest.mark.parametrize("spec", TEAMS)
@settings(max_examples=300, deadline=None, derandomize=True)
@given(case=drafts())
def test_a_team_draft_of_different_documents_and_lengths_keeps_exact_propensities(spec, case):
    method = ml.get_method(spec)
    rankings, k, seed = case
    impression = method.combine(rankings, k, seed=seed, propensities=True)
    for rank, document in enumerate(impression.shown, start=1):
        assert impression.propensity(document) == float(method.propensity(rankings, document, rank, k))


@pytest.mark.parametrize("spec", TEAMS)
def test_a_team_draft_keeps_propensities_if_asked_and_still_has_no_rates(spec):
    method = ml.get_method(spec)
    lists = {"a": "abcdef", "b": "bacfed"}
    without, kept = (method.combine(lists, k=5, seed=4, propensities=asked) for asked in (False, True))
    assert (without.stat, len(kept.stat), method.keeps_propensities) == ((), 5, False)
    assert dataclasses.replace(kept, stat=()) == without
    assert ml.infer(kept, positions=[0]).alone is None
    assert ml.infer(kept, positions=[0]) == ml.infer(without, positions=[0])
    again = ml.Impression.from_dict(json.loads(json.dumps(kept.to_dict())))
    assert again == kept
    chances = [kept.propensity(document) for document in kept.shown]
    assert [again.propensity(document) for document in kept.shown] == chances
    shorter = kept.until(3)
    assert [shorter.propensity(document) for document in shorter.shown] == chances[:3]
    pinned = method.combine(lists, k=5, seed=4, pinned={1: "e"}, propensities=True)
    left = tuple("".join(one for one in ranking if one != "e") for ranking in lists.values())
    for rank, document in enumerate(pinned.drawn, start=1):
        assert pinned.propensity(document) == float(method.propensity(left, document, rank, 4))


@pytest.mark.parametrize("lists", [["abc", "bca", "cab"], {"a": "abc", "b": "bca", "c": None}])
def test_a_team_draft_of_three_has_no_propensities_and_says_what_to_do(lists):
    impression = ml.TeamDraft().combine(lists, k=3, seed=1, propensities=True)
    with pytest.raises(ImpressionError, match=r"of 3 rankers.*returned nothing.*Use ppm, dpm or opm.*tdm for two"):
        impression.propensity(impression.shown[0])


@st.composite
def cases(draw):
    documents = list(range(draw(st.integers(2, 12))))
    rankings = [draw(st.permutations(documents)) for _ in range(draw(st.integers(2, 5)))]
    rankings = [ranking[: draw(st.integers(1, len(documents)))] for ranking in rankings]
    return rankings, draw(st.integers(1, 12)), draw(st.integers(0, 2**32))


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=80, deadline=None, derandomize=True)
@given(case=cases())
def test_kernels_equal_the_definition(spec, case):
    method = ml.get_method(spec)
    rankings, k, seed = case
    exact = tuple(map(tuple, rankings))
    impression = method.combine(rankings, k, seed=seed, propensities=True)
    earned = {document: float(1 + document % 3) for document in impression.shown}
    outcome = ml.infer(impression, impression.shown[:1], values=earned)
    expected = np.zeros((3, len(rankings)))
    for r, ranking in enumerate(exact):
        expected[2, r] = sum(rank**-0.5 for rank in range(1, min(k, len(ranking)) + 1))
        expected[1, r] = -expected[2, r]
    for rank, document in enumerate(impression.shown, start=1):
        chance = method.propensity(exact, document, rank, k)
        assert impression.propensity(document) == pytest.approx(float(chance), rel=1e-12)
        for r, ranking in enumerate(exact):
            if ranking[rank - 1 : rank] == (document,):
                expected[0, r] += earned[document] / float(chance)
                expected[1, r] += rank**-0.5 / float(chance)
    np.testing.assert_allclose(outcome.alone, expected, rtol=1e-12, atol=1e-12)


def test_clicks_earn_one_each_and_pinned_documents_nothing():
    impression = ml.PairwisePreference().combine(["abcd", "bcda"], k=4, seed=3, pinned={0: "ad"})
    clicked = ml.infer(impression, ["ad", impression.shown[1]])
    assert np.array_equal(clicked.alone, ml.infer(impression, [impression.shown[1]]).alone)
    assert np.array_equal(clicked.alone, ml.infer(impression, values={"ad": 9.0, impression.shown[1]: 1.0}).alone)
    with pytest.raises(ImpressionError, match="was not drawn"):
        impression.propensity("ad")


@pytest.mark.parametrize("spec", ["tdm", "om", "pm", "sosm"])
def test_methods_without_propensities_say_so(spec):
    impression = ml.get_method(spec).combine(["abc", "bca"], k=3, seed=1)
    assert ml.infer(impression, positions=[0]).alone is None
    with pytest.raises(ImpressionError, match="are unknown"):
        impression.propensity(impression.shown[0])


@pytest.mark.parametrize(("spec", "estimates"), [
    *((spec, True) for spec in ["ppm", "dpm", "opm", "rpm", "rpm(lead=2)"]),
    *((spec, False) for spec in ["tdm", "om", "pm", "sosm", "bi", "pbi", "rpm(lead=0)"]),
])  # fmt: skip
def test_methods_estimate_rates_only_if_every_page_can_be_shown(spec, estimates):
    method = ml.get_method(spec)
    impression = method.combine(["abc", "bca"], k=3, seed=1, propensities=True)
    assert method.estimates_rates == estimates
    assert (ml.infer(impression, positions=[0]).alone is not None) == estimates


def test_rpm_keeps_propensities_only_if_asked_and_for_few_rankers():
    lists = ["abcdefgh"[n:] + "abcdefgh"[:n] for n in range(7)]
    method = ml.RoundPreference()
    without, kept = (method.combine(lists[:6], k=5, seed=4, propensities=asked) for asked in (False, True))
    assert (without.stat, len(kept.stat)) == ((), 5)
    assert without.shown == kept.shown
    assert method.combine(lists, k=5, seed=4, propensities=True).stat == ()
    again = ml.Impression.from_dict(kept.to_dict())
    assert again.propensity(kept.shown[0]) == kept.propensity(kept.shown[0])
    shorter = kept.until(3)
    assert shorter.propensity(kept.shown[2]) == kept.propensity(kept.shown[2])


@pytest.mark.parametrize("lead", range(1, 5))
def test_rpm_keeps_propensities_if_rankers_lead_often(lead):
    method = ml.RoundPreference(lead=lead)
    assert method.combine(["abcd", "dcba"], k=3, seed=1).stat == ()
    impression = method.combine(["abcd", "dcba"], k=3, seed=1, propensities=method.keeps_propensities)
    assert len(impression.stat) == 3
    assert ml.infer(impression, positions=[0]).alone is not None


def test_nothing_is_said_if_a_ranker_did_not_answer():
    impression = ml.PairwisePreference().combine({"a": "abc", "b": "bca", "c": None}, k=3, seed=1)
    assert ml.infer(impression, positions=[0]).alone is None


@pytest.mark.parametrize("values", [{"x": 1.0}, {"a": float("nan")}, {"a": "9"}, [1.0]])
def test_values_are_checked(values):
    impression = ml.PairwisePreference().combine(["abc", "bca"], k=3, seed=1)
    with pytest.raises(ClicksError):
        ml.infer(impression, values=values)
