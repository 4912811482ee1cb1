"""What makes no sense is refused with what was found, what was expected and what to do."""

import numpy as np
import pytest

import multileave as ml

pytestmark = pytest.mark.fast

GOOD = {"bm25": ["d1", "d2", "d3"], "dense": ["d3", "d1", "d4"]}


@pytest.mark.parametrize(
    ("rankings", "message"),
    [
        ({}, "no rankings; a comparison needs two or more"),
        ([], "no rankings"),
        (np.zeros((0, 3), dtype=int), "no rankings"),
        ({"bm25": ["d1"]}, "one ranking; a comparison needs two or more"),
        (np.array([[1, 2]]), "one ranking"),
        ({"bm25": ["d1"], "dense": []}, r"rankings\['dense'\] is empty"),
        (np.zeros((2, 0), dtype=int), "is empty"),
        ({"bm25": ["d1", "d2", "d1"], "dense": ["d1"]}, r"'bm25'\] lists document 'd1' twice \(positions 0 and 2\)"),
        (np.array([[1, 2, 3], [3, 1, 3]]), r"'1'\] lists document 3 twice \(positions 0 and 2\)"),
        ({"bm25": ["d1"], "dense": [["d1"]]}, r"'dense'\] holds a list at position 0; a document id must be hashable"),
        ({"bm25": ["d1"], "dense": {"d1", "d2"}}, r"'dense'\] is a set; a ranking is a sequence"),
        ({"bm25": ["d1"], "dense": {"d1": 0.5}}, r"'dense'\] is a dict"),
        ({"bm25": ["d1"], "dense": 7}, r"'dense'\] is a int"),
        ({1: ["d1"], 2: ["d1"]}, "Ranker 1 is a int; a ranker's name is a string"),
        ("AB", "rankings are a str"),
        (None, "rankings are a NoneType"),
        (np.array([1, 2, 3]), "two dimensions"),
        (np.array([[0.1, 0.2], [0.3, 0.1]]), "array of float64; expected document ids"),
        ([np.array([0.5, 0.2]), np.array([0.1, 0.3])], "array of float64"),
    ],
)
@pytest.mark.parametrize("method", ["ppm", "tdm", "pm"])
def test_rankings(method, rankings, message):
    with pytest.raises(ml.RankingsError, match=message):
        ml.get_method(method).combine(rankings, k=3, seed=1)


def test_tdm_checks_only_what_it_reaches():
    rankings = {"bm25": ["d1", "d2", "d3", "d1"], "dense": ["d1", "d3", "d2", "d4"]}
    assert len(ml.TeamDraft().combine(rankings, k=3, seed=1).shown) == 3
    with pytest.raises(ml.RankingsError, match="twice"):
        ml.TeamDraft().combine(rankings, k=4, seed=1)


@pytest.mark.parametrize("k", [0, -1, 1.5, "ten", None])
def test_k(k):
    with pytest.raises(ml.RankingsError, match=r"k is .*; expected an integer of at least 1"):
        ml.PairwisePreference().combine(GOOD, k=k)


@pytest.mark.parametrize(
    ("pinned", "message"),
    [
        ({3: "ad"}, "pinned position is 3; with k=3 positions are 0 to 2"),
        ({-1: "ad"}, "pinned position is -1"),
        ({"top": "ad"}, "pinned position is 'top'"),
        ({0: "ad", 1: "ad"}, "holds a document twice"),
        ({0: ["ad"]}, "not hashable"),
        (["ad"], "pinned is a list; expected positions mapped to documents"),
    ],
)
def test_pinned(pinned, message):
    with pytest.raises(ml.RankingsError, match=message):
        ml.PairwisePreference().combine(GOOD, k=3, pinned=pinned)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("pppm", "no method 'pppm'; expected one of .*Did you mean 'ppm'"),
        ("ppm(pair='all')", "no parameter 'pair'; it has pairs, hidden. Did you mean 'pairs'"),
        ("tdm(tau=3)", "tdm has no parameter 'tau'; it has prefix"),
        ("bi(tau=3)", "bi has no parameter 'tau'; it has none"),
        ("ppm(pairs='al')", "pairs is 'al'; expected one of 'equation', 'local', 'all'. Did you mean 'all'"),
        ("ppm(hidden=1)", "hidden is 1; expected one of True, False"),
        ("pm(tau=-1)", "tau is -1; expected a number from 0 to 30"),
        ("pm(tau='3')", "tau is '3'"),
        ("sosm(tau=True)", "tau is True; expected a number from 0 to 10"),
        ("pm(3.0)", "does not name a method"),
        ("ppm(", "does not name a method"),
        ("", "does not name a method"),
        ("__import__('os').getcwd()", "does not name a method"),
        ("om(samples=0)", "samples is 0"),
        ("om(credit='rank')", "credit is 'rank'"),
    ],
)
def test_methods_and_parameters(spec, message):
    with pytest.raises(ml.MethodError, match=message):
        ml.get_method(spec)


def test_what_is_not_a_name_is_not_a_method():
    with pytest.raises(ml.MethodError, match="method is a list; expected a Method or a string"):
        ml.get_method(["ppm"])


@pytest.mark.parametrize("method", ["bi", "pbi"])
def test_two_ranker_methods_name_those_that_take_more(method):
    with pytest.raises(ml.MethodError, match=f"{method} compares exactly 2 rankers, and there are 3.*tdm.*ppm"):
        ml.get_method(method).combine(["ab", "ba", "ab"], k=2)


def test_clicks_on_what_was_not_shown():
    impression = ml.PairwisePreference().combine(GOOD, k=2, seed=1)
    with pytest.raises(ml.ClicksError, match="Document 'd9' was clicked but not shown; shown were"):
        ml.infer(impression, clicks=["d9"])
    with pytest.raises(ml.ClicksError, match="clicked but not shown"):
        ml.infer(impression, clicks=impression.hidden)
    for position in (2, -1, "1", 0.5):
        with pytest.raises(ml.ClicksError, match="positions 0 to 1"):
            ml.infer(impression, positions=[position])
    with pytest.raises(ml.ClicksError, match="positions 0 to 1"):
        ml.infer(impression, clicks=[5])


def test_integer_ids_are_ids_and_not_positions():
    impression = ml.PairwisePreference().combine([[7, 8, 9], [9, 8, 7]], k=3, seed=1)
    with pytest.raises(ml.ClicksError, match="Document 0 was clicked"):
        ml.infer(impression, clicks=[0])
    first = impression.shown[0]
    assert ml.infer(impression, clicks=[first]) == ml.infer(impression, positions=[0])


def test_all_errors_have_one_root():
    for name in ml.errors.__all__:
        if name != "MultileaveWarning":
            assert issubclass(getattr(ml, name), ml.MultileaveError)
