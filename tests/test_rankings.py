"""Rankings are read alike however they are given, and as much of them as a method needs."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest

import multileave as ml
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


def test_threads_draw_what_one_thread_draws():
    rng = np.random.default_rng(1)
    cases = [(rng.permuted(np.tile(np.arange(30), (4, 1)), axis=1), int(rng.integers(100))) for _ in range(200)]

    def draw(case):
        array, seed = case
        return [ml.get_method(spec).combine(array, 5, seed=seed) for spec in ("ppm", "tdm", "om")]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(draw, cases)) == list(map(draw, cases))
