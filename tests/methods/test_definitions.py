"""The kernels equal the definitions in Fractions: small cases exhaustively, larger ones drawn by hypothesis."""

from itertools import combinations_with_replacement, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import multileave as ml
from multileave.methods.base import methods
from multileave.methods.exact import exact_preferences

SPECS = [
    "rpm", "rpm(group=2, lead=2)", "rpm(lead=0)",
    "tdm", "tdm(prefix='drafted')", "sosm", "sosm(tau=1)", "sosm(tau=0)", "pm", "pm(tau=1)", "pm(tau=0)",
    "pm(credit='sign')",
    "opm", "opm(pairs='below')",
    "dpm", "dpm(depth='linear')", "dpm(depth='none')", "ppm", "ppm(pairs='local')", "ppm(pairs='all')",
    "ppm(hidden=False)",
    "ppm(pairs='all', hidden=False)", "om", "om(credit='linear')", "om(samples='all')", "bi", "pbi",
]  # fmt: skip


def small_sets(method, documents="abc"):
    """Yield every pair and triple of rankings, the first fixed by renaming documents."""
    orders = ["".join(order) for order in permutations(documents)]
    for rankers in (2, 3):
        if method.most_rankers is None or rankers <= method.most_rankers:
            for others in combinations_with_replacement(orders, rankers - 1):
                yield (documents, *others)


def exact(rankings):
    return tuple(tuple(ranking) for ranking in rankings)


def assert_scores_equal(method, rankings, impression, k):
    """Compare inference with the definition for every click vector on the visible documents."""
    note = tuple(impression.note.tolist())
    for vector in product((0, 1), repeat=len(impression.shown)):
        clicks = [position for position, clicked in enumerate(vector) if clicked]
        found = ml.infer(impression, positions=clicks).preferences
        score = method.score(exact(rankings), impression.drawn, note, clicks, k)
        expected = np.array(exact_preferences(method.outcome, score), dtype=float)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12, err_msg=f"{method} {rankings} {clicks}")


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_every_pair_and_triple_over_three_documents(spec, k):
    method = ml.get_method(spec)
    for rankings in small_sets(method):
        lists = {}
        for drawn, note, probability in method.lists(exact(rankings), k):
            assert probability > 0
            lists[drawn, note if method.keeps_note else ()] = probability
        assert sum(lists.values()) == 1
        seen = set()
        for seed in range(60):
            impression = method.combine(rankings, k, seed=seed)
            case = impression.drawn, tuple(impression.note.tolist())
            assert case in lists, f"{spec} drew {case} for {rankings}"
            if case not in seen:
                assert_scores_equal(method, rankings, impression, k)
            seen.add(case)


def test_every_method_is_tested_here():
    assert {spec.split("(")[0] for spec in SPECS} == set(methods())


@st.composite
def larger_cases(draw, most=5, rankers=4, equal=False):
    size = draw(st.integers(2, most))
    documents = list(range(size))
    rankings = []
    for _ in range(draw(st.integers(2, rankers))):
        ranking = draw(st.permutations(documents))
        length = size if equal else draw(st.integers(1, size))
        rankings.append(ranking[:length])
    return rankings, draw(st.integers(1, size + 1)), draw(st.integers(0, 2**64 - 1))


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(case=larger_cases())
def test_scores_of_larger_and_unequal_cases(spec, case):
    method = ml.get_method(spec)
    rankings, k, seed = case
    rankings = rankings[: method.most_rankers]
    impression = method.combine(rankings, k, seed=seed)
    assert_scores_equal(method, rankings, impression, k)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if not spec.startswith("om")])
@settings(max_examples=25, deadline=None, derandomize=True)
@given(case=larger_cases(most=4, rankers=3))
def test_lists_of_larger_and_unequal_cases(spec, case):
    method = ml.get_method(spec)
    rankings, k, seed = case
    rankings = rankings[: method.most_rankers]
    lists = {(drawn, note) for drawn, note, _ in method.lists(exact(rankings), k)}
    assert sum(probability for *_, probability in method.lists(exact(rankings), k)) == 1
    impression = method.combine(rankings, k, seed=seed)
    assert (impression.drawn, tuple(impression.note.tolist())) in {
        (drawn, note if method.keeps_note else ()) for drawn, note in lists
    }


@pytest.mark.parametrize("tau", [0.0, 1.0, 2.5, 3.0, 30.0])
@pytest.mark.parametrize("length", [1, 5, 40, 1024, 1025, 5000])
def test_power_sums_are_exact_far_down(tau, length):
    from math import fsum

    from multileave.methods.probabilistic import power_sum

    expected = fsum(rank**-tau for rank in range(1, length + 1))
    assert power_sum(length, ml.Probabilistic(tau=tau).parameters) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("spec", ["pm", "pm(tau=30)", "pm(credit='sign')"])
def test_pm_keeps_its_digits_when_almost_all_is_shown(spec):
    """Credit for the last of many documents divides by what is left of a mass that is almost gone."""
    method = ml.get_method(spec)
    rankings = [list(range(60)), list(range(59, -1, -1)), list(range(30)) + list(range(59, 29, -1))]
    impression = method.combine(rankings, k=60, seed=3)
    clicks = [57, 58, 59]
    score = method.score(exact(rankings), impression.drawn, (), clicks, 60)
    expected = np.array(exact_preferences(method.outcome, score), dtype=float)
    np.testing.assert_allclose(ml.infer(impression, positions=clicks).preferences, expected, rtol=1e-9, atol=1e-12)
