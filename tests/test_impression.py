"""An impression holds all that inference needs, and comes back from JSON as it was."""

import json
import subprocess
import sys

import numpy as np
import pytest

import multileave as ml
from multileave.impression import ABSENT

pytestmark = pytest.mark.fast

RANKINGS = {"bm25": list("abcdef"), "dense": list("cfbga"), "ltr": list("hab")}
SPECS = [
    "tdm", "tdm(prefix='drafted')", "sosm", "sosm(tau=1)", "pm", "pm(credit='sign')", "pm(tau=2.5)",
    "rpm", "rpm(group=2, lead=0)", "opm", "opm(pairs='below')", "dpm", "dpm(depth='linear')", "ppm",
    "ppm(pairs='local')", "ppm(pairs='all')", "ppm(hidden=False)", "om", "om(credit='linear')", "om(samples=3)",
    "om(samples='all')", "bi", "pbi",
]  # fmt: skip


def rankings_for(method):
    return dict(list(RANKINGS.items())[: method.most_rankers])


def data(**changes):
    impression = ml.PairwisePreference().combine(RANKINGS, k=3, seed=7, pinned={1: "ad"}).to_dict()
    return {**impression, **changes}


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("pinned", [None, {0: "ad", 2: "a"}])
def test_json_round_trip_infers_the_same(spec, pinned):
    method = ml.get_method(spec)
    for seed in range(5):
        impression = method.combine(rankings_for(method), k=4, seed=seed, pinned=pinned)
        read = ml.Impression.from_dict(json.loads(json.dumps(impression.to_dict())))
        assert read == impression
        assert hash(read) == hash(impression)
        assert read.drawn == impression.drawn
        for clicks in ([], [0], [1, 3], [0, 1, 2, 3]):
            clicks = [click for click in clicks if click < len(impression.shown)]
            assert ml.infer(read, positions=clicks) == ml.infer(impression, positions=clicks)


def test_another_process_infers_the_same(tmp_path):
    cases = []
    for spec in SPECS:
        method = ml.get_method(spec)
        impression = method.combine(rankings_for(method), k=4, seed=spec)
        outcome = ml.infer(impression, positions=[1, 2])
        cases.append({"impression": impression.to_dict(), "preferences": outcome.preferences.tolist()})
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    code = (
        "import json, sys, numpy as np, multileave as ml\n"
        "for case in json.load(open(sys.argv[1])):\n"
        "    outcome = ml.infer(ml.Impression.from_dict(case['impression']), positions=[1, 2])\n"
        "    assert outcome.preferences.tolist() == case['preferences'], case\n"
        "print('same')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "cases.json")], capture_output=True, text=True)
    assert done.stdout.strip() == "same", done.stderr


def test_what_it_holds():
    impression = ml.PairwisePreference().combine(RANKINGS, k=3, seed=7)
    assert impression.rankers == ("bm25", "dense", "ltr")
    assert impression.method == "ppm(pairs='equation', hidden=True)"
    assert len(impression.shown) == 3
    assert len(impression.hidden) == 1
    assert impression.lengths.tolist() == [6, 5, 3]
    for document, row in zip(impression.drawn, impression.ranks.tolist(), strict=True):
        expected = [r.index(document) + 1 if document in r else ABSENT for r in RANKINGS.values()]
        assert row == expected


def test_tdm_stores_no_ranks():
    impression = ml.TeamDraft().combine(RANKINGS, k=3, seed=7)
    assert impression.ranks.shape == (0, 3)
    assert len(impression.note) == 3


def test_pinned_documents_stand_where_they_were_put_and_leave_the_draw():
    impression = ml.PairwisePreference().combine(RANKINGS, k=5, seed=3, pinned={0: "ad", 3: "a"})
    assert impression.shown[0] == "ad"
    assert impression.shown[3] == "a"
    assert len(impression.shown) == 5
    assert "a" not in impression.drawn
    assert impression.lengths.tolist() == [5, 4, 2]
    assert not ml.infer(impression, clicks=["ad", "a"]).preferences.any()


def test_a_pin_moves_up_where_there_is_too_little_to_show():
    impression = ml.PairwisePreference().combine(["ab", "ba"], k=10, seed=3, pinned={9: "ad"})
    assert impression.shown[2:] == ("ad",)
    assert ml.Impression.from_dict(impression.to_dict()) == impression


def test_a_page_of_pins_alone():
    impression = ml.PairwisePreference().combine(["ab", "ba"], k=1, seed=3, pinned={0: "ad"})
    assert impression.shown == ("ad",)
    assert not ml.infer(impression, clicks=["ad"]).preferences.any()


def test_k_larger_than_what_there_is_gives_a_shorter_list():
    for spec in SPECS:
        method = ml.get_method(spec)
        impression = method.combine(rankings_for(method), k=50, seed=1)
        there = {d for ranking in rankings_for(method).values() for d in ranking}
        assert sorted(impression.shown) == sorted(there)
        assert impression.hidden == ()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], "is a list; expected a dictionary"),
        ({}, "'version' is None; expected 1"),
        (data(version=2), "format version 2; this multileave reads up to 1. Upgrade"),
        (data(version="1"), "'version' is '1'"),
        (data(version=True), "'version' is True"),
        ({key: value for key, value in data().items() if key != "ranks"}, "no 'ranks'"),
        (data(rankers=["a"]), "'rankers' is"),
        (data(rankers=["a", "a", "b"]), "two or more distinct names"),
        (data(rankers=["a", [], "b"]), "'rankers' is"),
        (data(method=3), "'method' is 3; expected a str"),
        (data(k=-1), "'k' is -1"),
        (data(k=1), "at least the 2 documents shown"),
        (data(k=True), "'k' is True"),
        (data(shown="abc"), "'shown' is 'abc'; expected a list"),
        (data(shown=[["a"], "ad", "b"]), "strings or numbers"),
        (data(shown=["a", "ad", "a"]), "every document once"),
        (data(pinned=[[7, "ad"]]), "'pinned' is"),
        (data(pinned=[[1, "other"]]), "'pinned' is"),
        (data(pinned=[1]), "'pinned' is"),
        (data(pinned=[[1, "ad"], [1, "ad"]]), "every position once"),
        (data(lengths=[6, 5]), r"'lengths' is .* shape \(3,\)"),
        (data(ranks=[[1, 2, 3]]), r"shape \(3, 3\)"),
        (data(ranks=[[1, 2], [1]]), "'ranks' is"),
        (data(ranks=[[1, 2, 99], [2, 3, 0], [3, 1, 0]]), "no rank beyond a ranking's length"),
        (data(ranks=[[1, 2, 1], [1, 3, 0], [3, 1, 0]]), "every rank once in a ranking"),
        (data(ranks=[[1, 2, 1], [0, 0, 0], [3, 1, 0]]), "every document in at least one ranking"),
        (data(ranks=[[1.5, 2, 1], [1, 3, 0], [3, 1, 0]]), "'ranks' is"),
        (data(note=[1, 2]), "'note' is"),
        (data(note=[1, 2, 2**40]), "'note' is"),
        (data(stat=["x"]), "'stat' is"),
    ],
)
def test_malformed_dictionaries_are_refused(bad, message):
    with pytest.raises(ml.ImpressionError, match=message):
        ml.Impression.from_dict(bad)


def test_an_impression_without_the_evidence_of_its_method_is_refused():
    bare = data(ranks=[], note=[])
    with pytest.raises(ml.ImpressionError, match="0 rows of ranks and 0 notes for 3 drawn documents; ppm needs one"):
        ml.infer(ml.Impression.from_dict(bare), positions=[0])


def test_a_note_from_nowhere_cannot_touch_memory():
    impression = ml.TeamDraft().combine(RANKINGS, k=3, seed=7).to_dict()
    impression["note"] = [2_000_000_000, 5, -1]
    assert not ml.infer(ml.Impression.from_dict(impression), positions=[0, 1, 2]).preferences.any()


def test_an_unknown_method_is_told_when_inferring():
    with pytest.raises(ml.MethodError, match="no method 'ppn'"):
        ml.infer(ml.Impression.from_dict(data(method="ppn")), positions=[0])


def test_ids_that_json_cannot_hold_are_refused_when_written_only():
    impression = ml.PairwisePreference().combine([[(1, "a"), (2, "b")], [(2, "b"), (1, "a")]], k=2, seed=1)
    assert ml.infer(impression, clicks=[(2, "b")]).preferences.any()
    with pytest.raises(ml.ImpressionError, match=r"is a tuple; .* Use str ids"):
        impression.to_dict()


def test_integer_arrays_give_plain_integers():
    impression = ml.PairwisePreference().combine(np.array([[1, 2, 3], [3, 2, 1]], dtype=np.int16), k=3, seed=1)
    assert all(type(document) is int for document in impression.shown)
    json.dumps(impression.to_dict())


def test_an_impression_cannot_be_changed():
    impression = ml.TeamDraft().combine(RANKINGS, k=3, seed=7)
    with pytest.raises(AttributeError):
        impression.k = 5
