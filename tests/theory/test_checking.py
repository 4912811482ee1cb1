"""The verdicts of the paper's Table 1, recomputed, and where guarantees end."""

import json
from dataclasses import dataclass
from fractions import Fraction as F

import numpy as np
import pytest

import multileave as ml
from multileave import theory
from multileave.kernels import kernel
from multileave.methods import base
from multileave.methods.exact import rank_in
from multileave.methods.pairwise_preference import choice_set, preferred_pairs
from multileave.theory.decide import corners
from multileave.theory.findings import Counterexample
from multileave.theory.instances import dominators, instances
from multileave.theory.property_table import make_table


@pytest.mark.fast
@pytest.mark.parametrize(
    ("documents", "rankers", "count", "reordered"), [(3, 2, 6, 5), (3, 3, 21, 10), (4, 2, 24, 17), (4, 3, 300, 111)]
)
def test_instances_up_to_renaming(documents, rankers, count, reordered):
    assert sum(1 for _ in instances(documents, rankers)) == count
    assert sum(1 for _ in instances(documents, rankers, reorder=True)) == reordered


@pytest.mark.parametrize(
    ("spec", "considerate", "unbiased", "pareto"),
    [
        ("bi", True, False, False),
        ("pbi", True, False, False),
        ("tdm", True, True, False),
        ("sosm", True, False, False),
        ("om", True, True, True),
        ("om(credit='linear')", True, True, True),
        ("pm", False, True, True),
        ("ppm", True, True, True),
        ("ppm(pairs='local')", True, True, True),
        ("ppm(pairs='all')", True, True, True),
        ("ppm(hidden=False)", True, True, False),
        ("dpm", True, True, True),
        ("dpm(depth='linear')", True, True, True),
        ("opm", True, True, True),
        ("rpm", True, True, True),
        ("rpm(group=2)", True, True, True),
        ("rpm(lead=0)", True, True, False),
        ("opm(pairs='below')", True, True, True),
    ],
)
def test_verdicts_at_three_documents(spec, considerate, unbiased, pareto):
    report = theory.check(spec, documents=3, rankers=3)
    assert [finding.holds for finding in report.findings[:3]] == [considerate, unbiased, pareto]
    for finding in report.findings[:3]:
        assert bool(finding) == (finding.counterexample is None)
        assert (finding.violations > 0) == (finding.counterexample is not None)
        if finding.counterexample is not None:
            assert_reproduces(spec, finding.counterexample)


def assert_reproduces(spec, example):
    """A counterexample, through JSON, gives its expectation again and breaks what it says."""
    data = json.loads(json.dumps(example.to_dict()))
    again = Counterexample.from_dict(data)
    assert again == example
    if example.requirement == "considerate":
        assert example.shown in theory.distribution(spec, example.rankings, example.k)
        document = example.shown[example.rank - 1]
        assert all(rank_in(ranking, document) > example.rank for ranking in example.rankings)
        return
    n, m = data["rankers"]
    value = theory.expectation(spec, data["rankings"], again.user, set(data["relevant"]), data["k"])[n][m]
    assert value == F(data["expectation"])
    if example.requirement == "unbiased":
        assert value != 0
        assert again.user.relevant == again.user.other
    else:
        assert value <= 0
        assert n in dominators(example.rankings, example.relevant, example.k)
        if isinstance(again.user, theory.Independent):
            assert all(a > b for a, b in zip(again.user.relevant, again.user.other, strict=True))


def test_om_is_infeasible_for_six_triples_over_three_documents():
    report = theory.check("om", documents=3, rankers=3, k=3)
    assert len({rankings for rankings, _ in report.infeasible if len(rankings[0]) == 3}) == 6
    assert report.unbiased.holds


def test_pm_breaks_pareto_from_four_documents_on():
    rankings = tuple(map(tuple, ("ABCD", "ABCD", "BCAD")))
    from multileave.theory.decide import break_of_pareto

    found = break_of_pareto(make_table(ml.Probabilistic(), rankings, 3), None)
    assert found is not None
    assert_reproduces("pm", found)


@pytest.mark.parametrize(("k", "count"), [(1, 18), (2, 10), (3, 0)])
def test_without_the_hidden_document_pareto_is_lost(k, count):
    report = theory.check("ppm(hidden=False)", documents=3, rankers=3, k=k)
    assert report.pareto.by_size[3, k] == (count, 21)


def test_linear_credit_covers_dependent_clicks():
    assert "depends only on the rank and relevance" in theory.check("ppm(pairs='all')").pareto.covers
    assert theory.check("ppm").pareto.covers == "users with independent clicks"


@pytest.mark.fast
def test_corners_are_enough():
    """At random users the expectation is never below the least corner."""
    table = make_table(ml.PairwisePreference(), tuple(map(tuple, ("ABC", "BCA", "CAB"))), 2)
    relevant = frozenset("A")
    masks = table.relevance(relevant)
    rows = np.arange(len(masks))
    entries = table.values[:, :, 0, 1]
    least = min(F(int(entries[rows, b | (a & masks)].sum()), table.scale) for a, b in corners(2))
    rng = np.random.default_rng(3)
    for _ in range(50):
        high = rng.integers(0, 101, size=2)
        low = [int(rng.integers(0, h + 1)) for h in high]
        user = theory.Independent(tuple(F(int(h), 100) for h in high), tuple(F(x, 100) for x in low))
        assert theory.expectation("ppm", table.rankings, user, relevant, 2)[0][1] >= least


@pytest.mark.parametrize("user", ["perfect", "informational"])
def test_a_user_by_name(user):
    report = theory.check("tdm", documents=3, rankers=2, user=user)
    assert report.user == user
    assert user in report.pareto.covers
    if report.pareto.counterexample:
        assert_reproduces("tdm", report.pareto.counterexample)


def test_random_users_ask_for_no_winner():
    report = theory.check("ppm(hidden=False)", documents=3, rankers=2, user="random")
    assert report.pareto.holds
    assert report.pareto.covers.startswith("nobody")


def test_two_processes_find_what_one_finds():
    one, two = (theory.check("sosm", documents=3, rankers=3, jobs=jobs) for jobs in (1, 2))
    assert one.to_dict() == two.to_dict()


@pytest.fixture
def registered():
    before = dict(base._registry)
    yield
    base._registry.clear()
    base._registry.update(before)
    base._from_string.cache_clear()


@kernel
def credit_nothing(ranks, lengths, note, clicks, k, params, out, work_i, work_f):
    pass


def test_the_authors_normalised_ppm_breaks_both(registered):
    """Dividing by the number of pairs makes the score depend on the clicks in a way no swap cancels."""

    @ml.register
    @dataclass(frozen=True)
    class Normalised(ml.PairwisePreference):
        name = "normalised"
        credit_kernel = credit_nothing

        def score(self, rankings, drawn, note, clicks, k):
            counted = 0
            for i, j in preferred_pairs(self.pairs, len(drawn), clicks):
                best = [min(rank_in(r, drawn[x]) for r in rankings) for x in (i, j)]
                counted += min(i, j) + 1 >= max(best)
            return [s / counted if counted else s for s in super().score(rankings, drawn, note, clicks, k)]

    report = theory.check("normalised", documents=3, rankers=3)
    assert report.considerate.holds
    assert not report.unbiased.holds
    assert not report.pareto.holds
    two = theory.check("normalised", documents=3, rankers=2, k=3)
    assert two.unbiased.counterexample.rankings == (tuple("ABC"), tuple("BCA"))


def test_the_sign_of_pms_expected_credit_is_biased(registered):
    @ml.register
    @dataclass(frozen=True)
    class SignOfExpected(ml.Probabilistic):
        name = "sign_of_expected"
        outcome = "sign"

    report = theory.check("sign_of_expected", documents=2, rankers=3)
    assert not report.unbiased.holds
    assert theory.check("pm(credit='sign')", documents=2, rankers=3).unbiased.holds


@kernel
def draw_first_ranker(top, entering, ranks, lengths, k, params, rng, shown, note, stat, work_i, work_f):
    m = min(k, top.shape[1])
    for x in range(m):
        shown[x] = top[0, x]
    return m


@kernel
def credit_first_rank(ranks, lengths, note, clicks, k, params, out, work_i, work_f):
    for n in range(len(out)):
        for x in range(len(clicks)):
            if clicks[x] and ranks[x, n] == x + 1:
                out[n] += 1.0


def test_a_method_without_a_definition_is_judged_by_simulation(registered, monkeypatch):
    from multileave.theory import checking, property_table

    monkeypatch.setattr(property_table, "SIMULATED_DRAWS", 200)
    monkeypatch.setattr(checking, "SIMULATED_DRAWS", 200)

    @ml.register
    @dataclass(frozen=True)
    class FirstRanker(ml.Method):
        name = "first_ranker"
        draw_kernel = draw_first_ranker
        credit_kernel = credit_first_rank

    report = theory.check("first_ranker", documents=2, rankers=2)
    assert not report.exact
    assert report.draws == 200
    assert "not exact: 200 simulated draws" in str(report)
    assert report.considerate.holds
    assert not report.unbiased.holds

    @ml.register
    @dataclass(frozen=True)
    class Blind(ml.Method):
        name = "blind"
        draw_kernel = ml.PairwisePreference.draw_kernel
        credit_kernel = ml.PairwisePreference.credit_kernel
        keeps_note = True

        def params(self):
            return (2.0,)

        def beyond(self):
            return 1

    report = theory.check("blind", documents=3, rankers=2)
    assert report.unbiased.holds
    assert report.pareto.holds


def test_choice_sets_are_omega():
    assert choice_set((tuple("ABC"), tuple("BCA")), 1) == ("A", "B")
