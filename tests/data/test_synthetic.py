"""Synthetic data: rankers of chosen quality, as a query set and as a fold; arrays that make sense."""

import math
import os

import numpy as np
import pytest

from multileave.data import QuerySet, ndcg, synthetic, synthetic_fold
from multileave.errors import DataError

pytestmark = pytest.mark.fast
too_slow_uncompiled = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="it ranks too many documents for NUMBA_DISABLE_JIT=1"
)


@too_slow_uncompiled
def test_better_rankers_have_a_higher_ndcg() -> None:
    data = synthetic(queries=400, documents=30, rankers=(0.0, 1.0, 0.4, 0.7), seed=1)
    assert np.argsort(-ndcg(data)).tolist() == [1, 3, 2, 0]
    assert ndcg(data)[1] == pytest.approx(1.0)


@too_slow_uncompiled
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
        ({"rankers": ("a", "a")}, "names must be unique"),
        ({"offsets": np.array([0])}, "no queries"),
        ({"offsets": np.array([0, 2])}, "expected 0 to 3"),
        ({"offsets": np.array([0, 0, 3])}, "Query 0 has no documents"),
        ({"grades": 2}, "There is a label 2"),
        ({"rankings": np.zeros(5, dtype=np.int32)}, "Rankings hold 5 documents"),
        ({"rankings": np.array([0, 0, 0, 1, 1, 1], dtype=np.int32)}, "rankings of query 1 are invalid"),
        ({"rankings": np.array([0, 5, 0, 1, 1, 0], dtype=np.int32)}, "rankings of query 0 are invalid"),
        ({"rankings": np.array([0, 0, 0, 1, -1, 0], dtype=np.int32)}, "rankings of query 1 are invalid"),
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
        ({"documents": 0}, "Documents are 0"),
        ({"documents": (5, 3)}, "Documents are"),
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


def test_a_synthetic_fold_has_rankers_of_chosen_quality() -> None:
    fold = synthetic_fold(queries=(300, 100), documents=(10, 20), rankers=(0.4, 0.9, 0.0), grades=3, seed=1)
    assert (len(fold.users), len(fold.heldout), fold.grades, fold.rankers) == (300, 100, 3, (1, 2, 3))
    assert fold.users.qids + fold.heldout.qids == tuple(str(number) for number in range(1, 401))
    assert fold.users.features.shape[1] == fold.heldout.features.shape[1] == 3
    for part in (fold.users, fold.heldout):
        assert part.sizes.min() == 10
        assert part.sizes.max() == 20
        noise, weak, strong = (ndcg(part.rank([feature]))[0] for feature in (3, 1, 2))
        assert noise < weak - 0.02 < strong - 0.04


def test_a_synthetic_fold_is_the_same_for_the_same_seed() -> None:
    fold, again = (synthetic_fold(queries=(100, 30), documents=3, rankers=2, seed="a") for _ in range(2))
    everything = np.concatenate([fold.users.features, fold.heldout.features])
    assert np.array_equal(everything, np.concatenate([again.users.features, again.heldout.features]))
    assert np.array_equal(everything, np.round(everything, 6))
    other = synthetic_fold(queries=(100, 30), documents=3, rankers=2, seed="b")
    assert not np.array_equal(fold.users.features, other.users.features)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"queries": (0, 1)}, "Queries are"),
        ({"documents": 0}, "Documents are 0"),
        ({"grades": 1}, "grades is 1"),
    ],
)
def test_settings_of_a_fold_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        synthetic_fold(**settings)  # type: ignore[arg-type]
