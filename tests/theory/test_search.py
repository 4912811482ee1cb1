"""Search finds what cannot be enumerated, confirms it exactly and makes it small."""

import pytest

import multileave as ml
from multileave import theory
from multileave.theory.decide import break_of_pareto
from multileave.theory.property_table import make_table
from multileave.theory.search import confirmed, float_table, mutated

NAVIGATIONAL = theory.Cascade(click=("1/20", "19/20"), stop=("1/5", "9/10"))


@pytest.mark.parametrize("spec", ["ppm", "tdm", "sosm", "pm", "pm(credit='sign')", "om(samples='all')", "bi"])
def test_floats_agree_with_fractions(spec):
    import numpy as np

    method = ml.get_method(spec)
    rankings = ((0, 1, 2, 3), (2, 0, 3, 1), (3, 1, 0, 2))[: method.most_rankers]
    exact = make_table(method, rankings, 2)
    quick = float_table(method, rankings, 2)
    total = np.array(exact.values.sum(axis=0), dtype=float) / exact.scale
    np.testing.assert_allclose(quick.values.sum(axis=0), total, atol=1e-12)


def test_search_finds_that_navigational_users_defeat_ppm():
    report = theory.check("ppm", documents=6, rankers=3, user="navigational", search=600, seed=6, jobs=2)
    found = report.pareto.counterexample
    assert found is not None
    assert found.user == NAVIGATIONAL
    n, m = found.pair
    value = theory.expectation("ppm", found.rankings, NAVIGATIONAL, found.relevant, found.k)[n][m]
    assert value == found.expectation
    assert value < 0
    assert report.searched <= 600
    assert report.unbiased.holds


def test_search_finds_small_breaks_and_makes_them_smaller():
    report = theory.check("sosm", documents=5, rankers=4, search=20, seed=0)
    assert len(report.unbiased.counterexample.rankings[0]) == 2
    report = theory.check("pm", documents=4, rankers=2, search=20, seed=0)
    assert len(report.considerate.counterexample.rankings[0]) == 2


def test_what_floats_suspect_wrongly_is_not_reported():
    assert confirmed(ml.PairwisePreference(), "pareto", ((0, 1), (1, 0)), 2, None) is None


def test_seeds_and_processes():
    one = theory.check("tdm", documents=4, rankers=3, search=450, seed=5, jobs=1)
    two = theory.check("tdm", documents=4, rankers=3, search=450, seed=5, jobs=2)
    assert one.to_dict() == two.to_dict()


def test_mutations_stay_rankings():
    import numpy as np

    rng = np.random.default_rng(0)
    rankings = ((0, 1, 2, 3), (3, 2, 1, 0))
    for _ in range(50):
        rankings = mutated(rankings, rng)
        assert all(sorted(ranking) == [0, 1, 2, 3] for ranking in rankings)


def test_searching_nonsense_is_refused():
    with pytest.raises(ml.MethodError, match="search is 0"):
        theory.check("ppm", search=0)


@pytest.mark.parametrize("pairs", ["equation", "local", "all"])
def test_a_cascade_breaks_every_pair_rule(pairs):
    """Shown in docs/theory.md: three rankers over six documents under the paper's navigational user."""
    rankings = tuple(map(tuple, ("ABCDEF", "ADCEFB", "BECADF")))
    table = make_table(ml.PairwisePreference(pairs=pairs), rankings, 5)
    found = break_of_pareto(table, NAVIGATIONAL)
    assert found is not None
    assert found.expectation < 0
    assert found.relevant == {"A", "C", "F"}
