"""Rankings are read alike however they are given, and as much of them as a method needs."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields

import numpy as np
import pytest

import multileave as ml
from multileave.impression import ABSENT
from multileave.methods import base

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("spec", ["tdm", "ppm", "om"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.uint64])
def test_an_array_of_any_integers_shows_what_the_same_lists_show(spec, dtype):
    largest = np.iinfo(dtype).max
    array = np.array([[1, largest, 3], [largest, 4, 1]], dtype=dtype)
    method = ml.get_method(spec)
    shown = method.combine(array, 3, seed=5).shown
    assert shown == method.combine(array.tolist(), 3, seed=5).shown
    assert set(shown) <= {1, 3, 4, int(largest)}


def test_a_repeat_in_an_array_of_unsigned_integers_is_named_as_it_was_given():
    with pytest.raises(ml.RankingsError, match=f"document {2**63} twice"):
        ml.TeamDraft().combine(np.array([[1, 2], [2**63, 2**63]], dtype=np.uint64), 2, seed=1)


def test_a_method_whose_draw_reads_ranks_may_keep_none():
    @dataclass(frozen=True)
    class Forgetful(ml.Optimized):
        name = "forgetful"
        keeps_ranks = False

    ml.register(Forgetful)
    try:
        rankings = [list("abcdefgh"), list("hgfedcba"), list("bdfhaceg")]
        impression = Forgetful().combine(rankings, 2, seed=3)
        assert impression.shown == ml.Optimized().combine(rankings, 2, seed=3).shown
        assert impression.ranks.shape == (0, 3)
    finally:
        base._registry.pop("forgetful")
        base._from_string.cache_clear()


@pytest.mark.parametrize("flags", [{}, {"keeps_ranks": False}, {"draw_reads_ranks": True}])
def test_a_draw_of_whole_rankings_may_keep_and_read_ranks_or_not(flags):
    cls = dataclass(frozen=True)(type("Whole", (ml.Probabilistic,), {"name": "whole", **flags}))
    rankings = [list("abcdefgh"), list("hgf"), list("bdfhacegi")]
    impression, plain = (method.combine(rankings, 5, seed=3) for method in (cls(), ml.Probabilistic()))
    assert impression.shown == plain.shown
    assert impression.ranks.tolist() == (plain.ranks.tolist() if cls.keeps_ranks else [])
    with pytest.raises(ml.RankingsError, match="lists document 'h' twice"):
        cls().combine([*rankings, list("ahh")], 2, seed=3)


@pytest.mark.parametrize("other", ["a\0b", "", "é", "\ud800", 1, None, b"a", ("a",)])
def test_strings_are_compared_with_anything_as_python_does(other):
    rankings = {"x": ["a", other, "b"], "y": ["b", other, "a"]}
    assert set(ml.PairwisePreference().combine(rankings, 3, seed=1).drawn) == {"a", other, "b"}


def test_a_string_of_another_class_is_shown_as_it_was_given():
    class Key(str):
        pass

    key = Key("b")
    rankings = {"x": ["a", key, "c"], "y": ["c", "b", "a"]}
    shown = ml.TeamDraft().combine(rankings, 3, seed=2).shown
    assert sorted(shown) == ["a", "b", "c"]
    assert next(d for d in shown if d == "b") is key


def test_of_equal_documents_that_are_no_strings_the_first_is_shown():
    rankings = [["a", 1.0, None], [1, "a", None], [True, None, "a"]]
    for seed in range(5):
        shown = ml.TeamDraft().combine(rankings, 3, seed=seed).shown
        assert type(next(document for document in shown if document == 1)) is float


def test_a_parameter_may_be_a_list_and_what_is_remembered_is_not_sent():
    @dataclass(frozen=True)
    class Listed(ml.TeamDraft):
        name = "listed"
        weights: list[float] = field(default_factory=list)

    method = Listed(weights=[1.0])
    rankings = [list("abc"), list("cba")]
    assert method.combine(rankings, 2, seed=1).shown == ml.TeamDraft().combine(rankings, 2, seed=1).shown
    used = ml.PairwisePreference()
    shown = used.combine(rankings, 2, seed=1)
    sent = pickle.loads(pickle.dumps(used))
    assert sent == used
    assert vars(sent) == {f.name: getattr(used, f.name) for f in fields(used)}
    assert sent.combine(rankings, 2, seed=1) == shown


def test_threads_draw_what_one_thread_draws():
    rng = np.random.default_rng(1)
    cases = [(rng.permuted(np.tile(np.arange(30), (4, 1)), axis=1), int(rng.integers(100))) for _ in range(200)]

    def draw(case):
        array, seed = case
        return [ml.get_method(spec).combine(array, 5, seed=seed) for spec in ("ppm", "tdm", "om")]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(draw, cases)) == list(map(draw, cases))


kinds_of_ids = pytest.mark.parametrize(
    "rename",
    [int, str, lambda d: d + 2**62, lambda d: d - 2**63, lambda d: d + 2**64, lambda d: float(d), lambda d: (d,)],
    ids=["int", "str", "large", "lowest", "beyond 64 bits", "float", "tuple"],
)


@pytest.mark.fast
@kinds_of_ids
@pytest.mark.parametrize("lengths", [(9, 9, 9), (9, 2, 5), (3, 9)])
def test_the_kind_of_id_changes_nothing(rename, lengths):
    rng = np.random.default_rng(3)
    numbers = [rng.permutation(9).tolist()[:length] for length in lengths]
    renamed = [[rename(d) for d in ranking] for ranking in numbers]
    for method in ("tdm", "ppm", "pm", "om"):
        expected = ml.get_method(method).combine(numbers, 6, seed=5)
        found = ml.get_method(method).combine(renamed, 6, seed=5)
        assert found.shown == tuple(map(rename, expected.shown))
        assert [type(d) for d in found.shown] == [type(rename(d)) for d in expected.shown]
        np.testing.assert_array_equal(found.ranks, expected.ranks)
        if ml.get_method(method).keeps_ranks:
            slow = [[r.index(d) + 1 if d in r else ABSENT for r in renamed] for d in found.drawn]
            assert found.ranks.tolist() == slow


@pytest.mark.fast
@kinds_of_ids
@pytest.mark.parametrize("method", ["tdm", "ppm", "pm", "om"])
def test_a_repeat_is_found_whatever_the_kind_of_id(rename, method):
    last = 4 if method == "tdm" else 8  # tdm reads no more than it shows
    for row in range(3):
        numbers = [list(range(9)), list(range(9, 18)), list(range(18, 27))]
        numbers[row][last] = numbers[row][1]
        renamed = [[rename(d) for d in ranking] for ranking in numbers]
        with pytest.raises(ml.RankingsError, match=rf"'{row}'\] lists document .* \(positions 1 and {last}\)"):
            ml.get_method(method).combine(renamed, 5)


@pytest.mark.fast
def test_integers_among_others_are_told_apart_as_python_does():
    rankings = [[1, "1", 2.5, None, 3], [3, None, "1", 1, 2.5], [1, 2.5, 3, "1", None]]
    impression = ml.PairwisePreference().combine(rankings, 5, seed=1)
    assert set(impression.drawn) == {1, "1", 2.5, None, 3}
    with pytest.raises(ml.RankingsError, match="lists document 7 twice"):
        ml.PairwisePreference().combine([[1, 7], [7, 7]], 2)
    with pytest.raises(ml.RankingsError, match="lists document 7 twice"):
        ml.PairwisePreference().combine([[7, 7], [1, 7]], 2)
