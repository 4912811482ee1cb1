"""Rankers that return the top of their rankings, and copies of rankers: what check decides, against enumeration."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import multileave as ml
from multileave import theory
from multileave.cli import main
from multileave.errors import MethodError
from multileave.theory.findings import Counterexample
from multileave.theory.instances import dominators

DEEP = ("dpm", "dpm(depth='linear')", "opm", "opm(pairs='below')", "rpm", "rpm(lead=0)")


@pytest.mark.parametrize("spec", DEEP)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data(), rankers=st.integers(2, 6), k=st.integers(1, 6), seed=st.integers(0, 2**64 - 1))
def test_draws_notes_and_outcomes_are_those_of_the_whole_rankings(spec, data, rankers, k, seed):
    whole = [data.draw(st.permutations(range(15))) for _ in range(rankers)]
    cut = [ranking[: data.draw(st.integers(k + 1, 15))] for ranking in whole]
    method = ml.get_method(spec)
    assert method.reads_to(k) == k + 1
    seen, again = (method.combine(rankings, k, seed=seed) for rankings in (whole, cut))
    assert seen.drawn == again.drawn
    assert np.array_equal(seen.note, again.note)
    for clicks in ([0], range(0, k, 2), range(1, k, 2)):
        assert ml.infer(seen, positions=clicks) == ml.infer(again, positions=clicks)


@pytest.mark.parametrize("spec", DEEP)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(data=st.data(), k=st.integers(1, 3))
def test_exact_laws_and_scores_are_those_of_the_whole_rankings(spec, data, k):
    whole = tuple(tuple(data.draw(st.permutations(range(5)))) for _ in range(3))
    cut = tuple(ranking[: data.draw(st.integers(k + 1, 5))] for ranking in whole)
    method = ml.get_method(spec)
    laws = [{(d, n): p for d, n, p in method.lists(rankings, k)} for rankings in (whole, cut)]
    assert laws[0] == laws[1]
    for drawn, note in laws[0]:
        for clicks in ([0], range(k)):
            assert method.score(whole, drawn, note, clicks, k) == method.score(cut, drawn, note, clicks, k)


# The third ranker has A above B, below what is returned.
@pytest.mark.parametrize(
    ("spec", "rankings", "k"),
    [
        ("ppm", ("ABCD", "BACD", "CDAB"), 1),
        ("ppm(pairs='all')", ("ABCD", "BACD", "CDAB"), 1),
        ("dpm(depth='none')", ("ABCD", "BACD", "CDAB"), 1),
        ("pm", ("ABCD", "DCAB"), 1),
        ("sosm", ("ABCDE", "BACDE", "CDEAB"), 2),
        ("om(samples='all')", ("ABCDE", "BACDE", "CDEAB"), 2),
    ],
)
def test_other_methods_read_further_down(spec, rankings, k):
    method = ml.get_method(spec)
    assert method.reads_to(k) is None
    cut = [ranking[: k + 1] for ranking in rankings]
    user = theory.Independent(relevant=(1,) * k, other=(0,) * k)
    whole, top = (theory.expectation(method, lists, user, {"A", "D"}, k=k) for lists in (rankings, cut))
    assert whole != top


@pytest.mark.parametrize(("spec", "holds"), [("dpm", True), ("opm", True), ("rpm", True), ("tdm", False)])
def test_lists_of_k_plus_1_documents_are_enough(spec, holds):
    report = theory.check(spec, documents=4, rankers=2, k=2, returned=3)
    assert report.pareto.holds == holds
    assert report.pareto.proved == holds
    assert report.unbiased.holds
    assert report.to_dict()["returned"] == 3


@pytest.mark.parametrize("spec", ["dpm", "opm", "rpm"])
def test_shorter_lists_are_not_enough_and_no_proof_is_claimed(spec):
    report = theory.check(spec, documents=3, rankers=2, k=2, returned=1)
    assert not report.pareto.proved
    assert report.unbiased.holds
    example = report.pareto.counterexample
    assert example is not None
    assert [len(ranking) for ranking in example.rankings] == [1, 1]
    assert [len(ranking) for ranking in example.full] == [3, 3] or [len(r) for r in example.full] == [2, 2]
    n, m = example.pair
    assert n in set(dominators(example.full, example.relevant, 2))
    again = Counterexample.from_dict(json.loads(json.dumps(example.to_dict())))
    assert again == example
    assert theory.expectation(spec, again.rankings, again.user, again.relevant, again.k)[n][m] == again.expectation <= 0


@pytest.mark.parametrize("spec", ["dpm", "opm", "rpm", "ppm(pairs='all')"])
def test_lists_of_any_lengths_are_unbiased(spec):
    report = theory.check(spec, documents=3, rankers=2, returned="any")
    assert report.unbiased.holds
    assert report.unbiased.proved


def test_unequal_lists_bias_a_team_draft():
    report = theory.check("tdm", documents=3, rankers=2, returned="any")
    assert not report.unbiased.holds
    assert not report.unbiased.proved
    assert min(map(len, report.unbiased.counterexample.rankings)) < report.unbiased.counterexample.k


def test_a_search_takes_returned_lists():
    report = theory.check("sosm", documents=4, rankers=3, k=2, search=200, seed=1, returned=3)
    assert report.returned == 3
    assert all(len(ranking) <= 3 for ranking in report.pareto.counterexample.rankings)
    assert max(map(len, report.pareto.counterexample.full)) <= 4
    assert theory.check("rpm", documents=4, rankers=3, k=2, search=60, seed=1, returned=3).pareto.holds
    short = theory.check("rpm", documents=4, rankers=2, user="perfect", search=1500, seed=1, returned="any")
    assert short.unbiased.holds
    example = short.pareto.counterexample
    assert example.expectation <= 0
    assert min(map(len, example.rankings)) <= example.k
    n, m = example.pair
    assert n in set(dominators(example.full, example.relevant, example.k))
    found = theory.expectation("rpm", example.rankings, example.user, example.relevant, example.k)
    assert found[n][m] == example.expectation


@pytest.mark.parametrize("wrong", [0, -1, "all", 1.5])
def test_a_wrong_number_is_refused(wrong):
    with pytest.raises(MethodError, match="expected a number of documents"):
        theory.check("tdm", documents=2, returned=wrong)


@pytest.mark.parametrize(
    ("spec", "holds"),
    [("rpm", True), ("dpm", True), ("opm", True), ("ppm", True), ("tdm", False), ("pm", False), ("sosm", False)],
)
def test_what_copies_change(spec, holds):
    report = theory.check(spec, documents=3, rankers=3)
    assert report.clone_proof.holds == report.clone_proof.proved == holds == ml.get_method(spec).clone_proof
    assert report.clone_proof.instances > 0
    if not holds:
        example = report.clone_proof.counterexample
        assert example.rankings[-1] == example.rankings[example.copied]
        assert example.expectation != 0
        assert Counterexample.from_dict(json.loads(json.dumps(example.to_dict()))) == example
        assert "copies" in str(example)


def test_the_example_of_clones():
    rankings, relevant = ["ABCD", "ABCD", "CDAB"], {"A", "C"}
    perfect = theory.Independent(relevant=(1,) * 4, other=(0,) * 4)
    found = {spec: theory.expectation(spec, rankings, perfect, relevant)[0][2] for spec in ("rpm", "dpm", "opm", "ppm")}
    assert set(found.values()) == {0}
    assert theory.expectation("tdm", rankings, perfect, relevant)[0][2] < 0


def test_two_rankers_have_nobody_to_copy():
    report = theory.check("tdm", documents=2, rankers=2)
    assert report.clone_proof.covers.startswith("nobody")
    assert report.clone_proof.instances == 0


def test_the_command_line(capsys):
    options = ["--documents", "4", "--rankers", "2", "--k", "2", "--returned", "3", "--json"]
    assert main(["check", "dpm", "opm", "tdm", *options]) == 0
    reports = json.loads(capsys.readouterr().out)["reports"]
    assert [report["pareto"]["holds"] for report in reports] == [True, True, False]
    assert main(["check", "dpm", "--documents", "2", "--returned", "some"]) == 2
    assert "expected a number of documents" in capsys.readouterr().err
