"""Metrics: equal to their obvious computation."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from multileave.data import METRICS, QuerySet, average_precision, dcg, ndcg, precision, reciprocal_rank, synthetic
from multileave.errors import DataError

pytestmark = pytest.mark.fast


def slow_dcg(labels: list[int], cutoff: int = 10) -> float:
    return sum((2**label - 1) / math.log2(rank + 1) for rank, label in enumerate(labels[:cutoff], 1))


def slow_ndcg(labels: list[int], cutoff: int = 10) -> float:
    best = slow_dcg(sorted(labels, reverse=True), cutoff)
    return slow_dcg(labels, cutoff) / best if best else 0.0


def slow_precision(labels: list[int], cutoff: int = 10) -> float:
    return sum(label > 0 for label in labels[:cutoff]) / cutoff


def slow_average_precision(labels: list[int]) -> float:
    ranks = [rank for rank, label in enumerate(labels, 1) if label > 0]
    return sum(found / rank for found, rank in enumerate(ranks, 1)) / len(ranks) if ranks else 0.0


def slow_reciprocal_rank(labels: list[int]) -> float:
    return next((1 / rank for rank, label in enumerate(labels, 1) if label > 0), 0.0)


SLOW: dict[str, Callable[[list[int]], float]] = {
    "ndcg@10": slow_ndcg,
    "dcg@10": slow_dcg,
    "p@10": slow_precision,
    "ap": slow_average_precision,
    "rr": slow_reciprocal_rank,
}


def slow_mean(data: QuerySet, metric: Callable[[list[int]], float]) -> list[float]:
    total = np.zeros(len(data.rankers))
    for q in range(len(data)):
        labels, rankings = data.query(q)
        total += [metric(labels[ranking].tolist()) for ranking in rankings]
    return list(total / len(data))


@pytest.mark.parametrize("name", list(METRICS))
@pytest.mark.parametrize("grades", [2, 3, 5, 40])
def test_a_metric_equals_its_obvious_computation(name: str, grades: int) -> None:
    data = synthetic(queries=40, documents=(1, 25), rankers=4, grades=grades, seed=8)
    assert not all(data.query(q)[0].any() for q in range(40))  # some queries have no relevant document
    assert METRICS[name](data) == pytest.approx(slow_mean(data, SLOW[name]), rel=1e-12)


@pytest.mark.parametrize("cutoff", [1, 3, 1000])
def test_metrics_take_a_cutoff(cutoff: int) -> None:
    data = synthetic(queries=30, documents=(1, 15), rankers=4, grades=3, seed=8)
    for metric, slow in ((ndcg, slow_ndcg), (dcg, slow_dcg), (precision, slow_precision)):
        expected = slow_mean(data, lambda labels, slow=slow: slow(labels, cutoff))  # type: ignore[misc]
        assert metric(data, cutoff) == pytest.approx(expected, rel=1e-12)
        with pytest.raises(DataError, match="cutoff is 0"):
            metric(data, 0)


def test_queries_without_relevant_documents_count_as_zero() -> None:
    data = QuerySet.from_scores(["good", "bad"], [0, 2, 4], [0, 1, 0, 0], [[0, 1], [1, 0], [0, 1], [1, 0]], grades=2)
    assert ndcg(data) == pytest.approx([1 / 2, 1 / math.log2(3) / 2])
    assert reciprocal_rank(data) == pytest.approx([1 / 2, 1 / 4])
    assert average_precision(data) == pytest.approx([1 / 2, 1 / 4])
    assert precision(data) == pytest.approx([1 / 20, 1 / 20])
