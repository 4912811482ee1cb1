"""dpm: what the depth does, and that without it it is ppm with all pairs."""

import os
from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import multileave as ml
from multileave import theory

pytestmark = pytest.mark.fast


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    rankings=st.lists(st.permutations(range(8)), min_size=2, max_size=4),
    k=st.integers(1, 9),
    seed=st.integers(0, 2**32),
    data=st.data(),
)
def test_without_depth_it_is_ppm_with_all_pairs(rankings, k, seed, data):
    none = ml.DepthPreference(depth="none").combine(rankings, k, seed=seed)
    ppm = ml.PairwisePreference(pairs="all").combine(rankings, k, seed=seed)
    assert none.drawn == ppm.drawn
    clicks = data.draw(st.sets(st.integers(0, len(none.shown) - 1)))
    np.testing.assert_allclose(
        ml.infer(none, positions=clicks).values, ml.infer(ppm, positions=clicks).values, rtol=1e-12
    )


def scores(depth, clicks, k=2):
    """Return S_n for ABCD / BACD / CDAB, all of which are drawn in the order BADC."""
    rankings = tuple(map(tuple, ("ABCD", "BACD", "DCAB")))
    return ml.DepthPreference(depth=depth).score(rankings, tuple("BADC"), (), clicks, k)


def test_a_ranker_is_judged_on_what_it_would_have_shown():
    """B is clicked, k = 2. Best ranks: A 1, B 1, D 1, C 2; every pair counts but those above rbar with C."""
    # B before A: rbar 1, weight 1. Ranker 1 has A above B at 1; ranker 2 B above A at 1; ranker 3 A above B at 3.
    # B before D: rbar 1. Ranker 1 B at 2, D at 4; ranker 2 B at 1; ranker 3 D at 1.
    # B stands at 1, above rbar(B, C) = 2: no pair.
    assert scores("none", [0]) == [-1 + 1, 1 + 1, -1 - 1]
    assert scores("top", [0]) == [-1 + 1, 1 + 1, 0 - 1]
    half = F(1, 2)
    assert scores("linear", [0]) == [-1 + half, 1 + 1, 0 - 1]


def test_the_default_is_top():
    assert str(ml.DepthPreference()) == "dpm"
    assert ml.get_method("dpm").depth == "top"
    with pytest.raises(ml.MethodError, match="depth is 'topp'; expected one of 'top', 'linear', 'none'"):
        ml.get_method("dpm(depth='topp')")


@pytest.mark.parametrize("depth", ["top", "linear"])
def test_it_keeps_its_fidelity_where_ppms_rule_loses_it(depth):
    """A better ranker over six documents that the paper's pair rule lets lose, under independent clicks."""
    report = theory.check(f"dpm(depth='{depth}')", documents=3, rankers=3)
    assert all(finding.proved and finding.holds for finding in report.findings)
    assert "depends only on the rank and relevance" in report.pareto.covers


@pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="a search takes compiled code, and NUMBA_DISABLE_JIT=1 is set"
)
def test_cascades_are_not_covered():
    """The instance of docs/theory.md that defeats ppm under the paper's navigational user; dpm's own is there too."""
    report = theory.check("dpm", documents=6, rankers=3, user="navigational", search=600, seed=3, jobs=1)
    found = report.pareto.counterexample
    assert found is not None
    n, m = found.pair
    assert (
        theory.expectation("dpm", found.rankings, "navigational", found.relevant, found.k)[n][m]
        == found.expectation
        < 0
    )
