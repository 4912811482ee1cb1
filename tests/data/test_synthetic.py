"""Data: rankers of chosen quality, NDCG against an obvious computation, and arrays that make sense."""

import math

import numpy as np
import pytest

from multileave.data import QuerySet, ndcg, synthetic
from multileave.errors import DataError

pytestmark = pytest.mark.fast


def slow_ndcg(labels: list[int], ranking: list[int], cutoff: int) -> float:
    def dcg(grades: list[int]) -> float:
        return sum((2**grade - 1) / math.log2(rank + 1) for rank, grade in enumerate(grades[:cutoff], 1))

    best = dcg(sorted(labels, reverse=True))
    return dcg([labels[document] for document in ranking]) / best if best else 0.0


@pytest.mark.parametrize("cutoff", [1, 3, 10])
def test_ndcg_equals_the_obvious_computation(cutoff: int) -> None:
    data = synthetic(queries=30, documents=(1, 15), rankers=4, grades=3, seed=8)
    expected = np.zeros(4)
    for q in range(len(data)):
        labels, rankings = data.query(q)
        expected += [slow_ndcg(labels.tolist(), ranking, cutoff) for ranking in rankings.tolist()]
    assert ndcg(data, cutoff) == pytest.approx(expected / 30, rel=1e-12)


def test_ndcg_counts_queries_without_relevant_documents_as_zero() -> None:
    data = QuerySet.from_scores(["good", "bad"], [0, 2, 4], [0, 1, 0, 0], [[0, 1], [1, 0], [0, 1], [1, 0]], grades=2)
    assert ndcg(data) == pytest.approx([1 / 2, 1 / math.log2(3) / 2])


def test_better_rankers_have_a_higher_ndcg() -> None:
    data = synthetic(queries=400, documents=30, rankers=(0.0, 1.0, 0.4, 0.7), seed=1)
    assert np.argsort(-ndcg(data)).tolist() == [1, 3, 2, 0]
    assert ndcg(data)[1] == pytest.approx(1.0)


def test_the_order_of_five_rankers_is_that_of_their_names() -> None:
    assert (np.diff(ndcg(synthetic(rankers=5, queries=1000, documents=50, seed=42))) < 0).all()


def test_every_ranker_ranks_every_document_once() -> None:
    data = synthetic(queries=20, documents=(1, 9), rankers=3, seed=2)
    assert data.sizes.min() >= 1
    assert data.sizes.max() <= 9
    assert len(set(data.sizes.tolist())) > 1
    for q in range(len(data)):
        labels, rankings = data.query(q)
        assert labels.max() < data.grades
        assert rankings.shape == (3, len(labels))
        assert (np.sort(rankings, axis=1) == np.arange(len(labels))).all()


def test_the_same_seed_gives_the_same_data() -> None:
    one, same, other = (synthetic(queries=10, documents=8, seed=seed) for seed in (4, 4, 5))
    assert np.array_equal(one.rankings, same.rankings)
    assert np.array_equal(one.labels, same.labels)
    assert not np.array_equal(one.rankings, other.rankings)


def test_scores_rank_highest_first_and_ties_fall_at_random() -> None:
    scores = [[3.0, 0.0], [9.0, 0.0], [5.0, 0.0]]
    firsts = set()
    for seed in range(30):
        _, rankings = QuerySet.from_scores(["a", "b"], [0, 3], [0, 0, 0], scores, grades=2, seed=seed).query(0)
        assert rankings[0].tolist() == [1, 2, 0]
        firsts.add(int(rankings[1, 0]))
    assert firsts == {0, 1, 2}


def test_ties_are_broken_for_each_ranker_alone() -> None:
    zeros = np.zeros((6, 2))
    rankings = [QuerySet.from_scores("ab", [0, 6], [0] * 6, zeros, grades=2, seed=s).query(0)[1] for s in range(5)]
    assert any((first != second).any() for first, second in rankings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rankers": ()}, "no rankers"),
        ({"rankers": ("a", "a")}, "name of its own"),
        ({"offsets": np.array([0])}, "no queries"),
        ({"offsets": np.array([0, 2])}, "expected 0 to 3"),
        ({"offsets": np.array([0, 0, 3])}, "query 0 has no documents"),
        ({"grades": 2}, "there is a label 2"),
        ({"rankings": np.zeros(5, dtype=np.int32)}, "rankings hold 5 documents"),
        ({"rankings": np.array([0, 0, 0, 1, 1, 1], dtype=np.int32)}, "rankings of query 1 are wrong"),
        ({"rankings": np.array([0, 5, 0, 1, 1, 0], dtype=np.int32)}, "rankings of query 0 are wrong"),
        ({"rankings": np.array([0, 0, 0, 1, -1, 0], dtype=np.int32)}, "rankings of query 1 are wrong"),
    ],
)
def test_arrays_that_make_no_sense_are_refused(change: dict[str, object], message: str) -> None:
    right: dict[str, object] = {
        "rankers": ("a", "b"),
        "grades": 3,
        "offsets": np.array([0, 1, 3]),
        "labels": np.array([0, 2, 1], dtype=np.uint8),
        "rankings": np.array([0, 0, 0, 1, 1, 0], dtype=np.int32),
    }
    QuerySet(**right)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=message):
        QuerySet(**right | change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"queries": 0}, "queries is 0"),
        ({"documents": 0}, "documents is 0"),
        ({"documents": (5, 3)}, "documents is"),
        ({"rankers": 0}, "rankers is 0"),
        ({"rankers": (0.5, 1.5)}, "between 0 and 1"),
        ({"grades": 1}, "grades is 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        synthetic(**settings)  # type: ignore[arg-type]


def test_scores_that_make_no_sense_are_refused() -> None:
    with pytest.raises(DataError, match="shape"):
        QuerySet.from_scores(["a", "b"], [0, 2], [0, 1], [[1.0], [2.0]], grades=2)
    with pytest.raises(DataError, match="finite"):
        QuerySet.from_scores(["a"], [0, 2], [0, 1], [[1.0], [math.nan]], grades=2)
    with pytest.raises(DataError, match="labels"):
        QuerySet.from_scores(["a"], [0, 2], [0, -1], [[1.0], [2.0]], grades=2)
    with pytest.raises(DataError, match="cutoff is 0"):
        ndcg(synthetic(queries=1), cutoff=0)
