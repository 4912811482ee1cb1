"""200,000 draws of every method have the exact distribution: chi-square, fixed seeds."""

import os
from itertools import product

import numpy as np
import pytest
from scipy.stats import chisquare

import multileave as ml
from multileave.kernels import kernel
from multileave.random import seed_state
from multileave.rankings import read_rankings
from numbered_rankings import NumberedRankings

DRAWS = 200_000

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1",
    reason="200,000 draws need compiled code, and NUMBA_DISABLE_JIT=1 is set",
)


def draw(*arguments):
    """Stand for the draw kernel that is bound in its place."""


@kernel
def count_lists(draws, base, counts, top, entering, ranks, lengths, k, params, rng, shown, note, stat, work_i, work_f):
    for _ in range(draws):
        m = draw(top, entering, ranks, lengths, k, params, rng, shown, note, stat, work_i, work_f)
        code = 0
        for x in range(min(m, k)):
            code = code * base + shown[x]
        counts[code] += 1


def frequencies(method, rankings, k, seed):
    """Return how often each visible list is drawn, by the method's own kernel."""
    source = read_rankings(rankings)
    table = NumberedRankings(source, method.read_depth(k, source.longest))
    base = table.documents
    counts = np.zeros(base**k, dtype=np.int64)
    length = k + method.beyond()
    integers, floats = method.workspace(len(rankings), table.documents, k)
    count_lists.bind(draw=method.draw_kernel)(
        DRAWS, base, counts, table.top, table.entering, table.ranks, source.lengths, k, method.parameters,
        seed_state(seed), np.empty(length, dtype=np.int32), np.empty(length, dtype=np.int32), np.zeros(2),
        np.empty(integers, dtype=np.int32), np.empty(floats),
    )  # fmt: skip
    found = {}
    for code in np.flatnonzero(counts):
        numbers, rest = [], int(code)
        for _ in range(k):
            rest, number = divmod(rest, base)
            numbers.append(number)
        shown = tuple(table.ids(np.array(numbers[::-1], dtype=np.int32)))
        found[shown] = int(counts[code])
    return found


SPECS = [
    "tdm", "tdm(prefix='drafted')", "sosm", "pm", "pm(tau=1)", "ppm", "ppm(hidden=False)", "dpm", "opm",
    "rpm", "rpm(group=2, lead=3)",
    "om(samples='all')",
    "om(samples=2)", "bi", "pbi",
]  # fmt: skip
CASES = {
    "two": (["ABCD", "BDCA"], 3),
    "three": (["ABCD", "BDCA", "ABDC"], 3),
    "unequal": (["AB", "BDCA", "CA"], 3),
}


@pytest.mark.parametrize(
    ("spec", "case"),
    [
        *product(SPECS, CASES),
        *product(["om"], ["two", "three"]),  # with more than 10 lists the exact law of samples=10 takes minutes
    ],
)
def test_lists_have_their_probabilities(spec, case):
    method = ml.get_method(spec)
    rankings, k = CASES[case]
    rankings = rankings[: method.most_rankers]
    expected = {}
    for drawn, _, probability in method.lists(tuple(tuple(r) for r in rankings), k):
        expected[drawn[:k]] = expected.get(drawn[:k], 0) + probability
    found = frequencies(method, rankings, k, seed=f"{spec}/{case}")
    assert sum(found.values()) == DRAWS
    assert set(found) <= set(expected), "a list without probability was drawn"
    lists = sorted(expected)
    counts = [found.get(shown, 0) for shown in lists]
    if len(lists) == 1:
        assert counts == [DRAWS]
    else:
        assert chisquare(counts, [float(expected[shown]) * DRAWS for shown in lists]).pvalue > 0.001
