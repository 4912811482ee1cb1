"""Ranking: equal to a sort with ties in every order equally often, for queries of any size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multileave.data import Letor, QuerySet
from multileave.data.ranking import RUN

pytestmark = pytest.mark.fast


def ranked(scores: "np.ndarray[tuple[int, int], np.dtype[np.float64]]", seed: int = 0) -> QuerySet:
    names = [f"r{r}" for r in range(scores.shape[1])]
    return QuerySet.from_scores(names, [0, len(scores)], [0] * len(scores), scores, grades=2, seed=seed)


@pytest.mark.parametrize("size", [1, 2, 5, RUN - 1, RUN, RUN + 1, 2 * RUN + 3])
def test_without_ties_a_ranking_is_a_sort(size: int) -> None:
    scores = np.random.default_rng(size).standard_normal((size, 2))
    expected = np.argsort(-scores, axis=0, kind="stable").T
    assert np.array_equal(ranked(scores).query(0)[1], expected)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.sampled_from([-1.5, -0.0, 0.0, 2.0, 1e300]), min_size=1, max_size=30), st.integers(0, 9))
def test_with_ties_scores_do_not_rise_and_every_document_is_there(values: list[float], seed: int) -> None:
    (ranking,) = ranked(np.array(values)[:, None], seed).query(0)[1]
    assert sorted(ranking.tolist()) == list(range(len(values)))
    assert (np.diff(np.array(values)[ranking]) <= 0).all()


def test_large_queries_of_ties_are_ranked_whole() -> None:
    scores = np.random.default_rng(1).integers(0, 3, size=(2 * RUN + 9, 1)).astype(float)
    (ranking,) = ranked(scores).query(0)[1]
    assert len(set(ranking.tolist())) == len(scores)
    assert (np.diff(scores[ranking, 0]) <= 0).all()


def test_ties_fall_in_every_order_equally_often() -> None:
    queries = 2400
    scores = np.tile([1.0, 3.0, 1.0, 1.0], queries)[:, None]
    offsets = np.arange(0, 4 * queries + 1, 4)
    data = QuerySet.from_scores(["a"], offsets, np.zeros(4 * queries, int), scores, grades=2, seed=5)
    rows = data.rankings.reshape(queries, 4)
    assert (rows[:, 0] == 1).all()
    orders, counts = np.unique(rows, axis=0, return_counts=True)
    assert len(orders) == 6
    assert ((counts - queries / 6) ** 2 / (queries / 6)).sum() < 20.5  # chi-square, 5 degrees, p = .001


def test_ties_fall_the_same_on_every_machine_and_in_every_version() -> None:
    (ranking,) = ranked(np.array([[1.0], [0.0], [1.0], [0.0], [1.0], [0.0], [0.0], [0.0]]), seed=42).query(0)[1]
    assert ranking.tolist() == [4, 2, 0, 7, 6, 1, 5, 3]


def test_features_rank_as_scores_of_their_columns_do() -> None:
    random = np.random.default_rng(2)
    features = random.integers(0, 4, size=(40, 5)).astype(float)
    offsets = np.array([0, 7, 20, 40])
    labels = random.integers(0, 3, size=40).astype(np.uint8)
    data = Letor(3, offsets, labels, features, (2, 3, 5, 8, 13), ("a", "b", "c"))
    expected = QuerySet.from_scores(["f13", "f3"], offsets, labels, features[:, [4, 1]], grades=3, seed=9)
    found = data.rank([13, 3], seed=9)
    assert found.rankers == expected.rankers
    assert np.array_equal(found.rankings, expected.rankings)
    assert not np.array_equal(found.rankings, data.rank([13, 3], seed=10).rankings)
    assert data.rank().rankers == ("f2", "f3", "f5", "f8", "f13")


def test_a_part_ranks_its_own_queries() -> None:
    features = np.random.default_rng(3).standard_normal((10, 1))
    data = Letor(2, np.array([0, 4, 10]), np.zeros(10, np.uint8), features, (1,), ("a", "b"))
    part = data.part(1, 2)
    assert (part.qids, part.offsets.tolist()) == (("b",), [0, 6])
    assert np.array_equal(part.rank().query(0)[1], data.rank().query(1)[1])
    assert np.shares_memory(part.features, data.features)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.zeros((3, 1))}, "Features have the shape"),
        ({"qids": ("a",)}, "There are 1 query ids"),
        ({"grades": 2}, "There is a label 2"),
        ({"offsets": np.array([0, 1])}, "expected 0 to 3"),
    ],
)
def test_letor_arrays_that_make_no_sense_are_refused(change: dict[str, object], message: str) -> None:
    right: dict[str, object] = {
        "grades": 3,
        "offsets": np.array([0, 1, 3]),
        "labels": np.array([0, 2, 1], dtype=np.uint8),
        "features": np.zeros((3, 2)),
        "numbers": (1, 2),
        "qids": ("a", "b"),
    }
    Letor(**right)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        Letor(**right | change)  # type: ignore[arg-type]
