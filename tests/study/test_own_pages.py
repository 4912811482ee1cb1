"""Own pages: metrics equal those of an A/B test's pages, and so many impressions find the difference as promised."""

import math

import numpy as np
import pytest

from multileave.clicks import PositionBased, user
from multileave.data import QuerySet, synthetic
from multileave.errors import DataError
from multileave.study.own_pages import PAGE_METRICS, simulate_own_pages

CLICK, EXAMINE = (0.1, 0.6), (1.0, 0.5, 0.25)
# Two queries of three documents; the second ranker returns only two documents of the second query.
DATA = QuerySet(
    ("a", "b"), 2, np.array([0, 3, 6]), np.array([1, 0, 0, 0, 1, 1], dtype=np.uint8),
    np.array([0, 1, 2, 2, 1, 0, 1, 0, 2, 0, 2, 1], dtype=np.int32), np.array([[3, 3], [3, 2]], dtype=np.int32),
)  # fmt: skip
GRADES = {"a": ([1, 0, 0], [1, 0, 1]), "b": ([0, 0, 1], [0, 1])}


def exact(ranker):
    """Return means and variances of the three metrics of position-based users, from all patterns of clicks."""
    first, second = np.zeros(3), np.zeros(3)
    for grades in GRADES[ranker]:
        chances = [CLICK[grade] * seen for grade, seen in zip(grades, EXAMINE, strict=False)]
        for pattern in range(1 << len(chances)):
            clicked = [x for x in range(len(chances)) if pattern >> x & 1]
            weight = math.prod(p if x in clicked else 1 - p for x, p in enumerate(chances)) / 2
            found = np.array([len(clicked), 1, 1 / (clicked[0] + 1)]) if clicked else np.zeros(3)
            first, second = first + weight * found, second + weight * found**2
    return first, second - first**2


def test_metrics_are_those_of_every_ranker_s_own_pages():
    found = simulate_own_pages(DATA, PositionBased(CLICK, EXAMINE), 400_000, k=3, seed=1)
    assert found.pages == 400_000
    for r, ranker in enumerate(DATA.rankers):
        means, variances = exact(ranker)
        np.testing.assert_allclose(found.means[:, r], means, atol=0.004)
        np.testing.assert_allclose(found.variances[:, r], variances, atol=0.004)


def test_an_ab_test_of_so_many_impressions_finds_the_difference_as_often_as_promised():
    """With three rankers, an arm gets a third of the impressions."""
    data = synthetic(queries=40, rankers=3, seed=4)
    found = simulate_own_pages(data, user("perfect"), 40_000, seed=2)
    rng = np.random.default_rng(5)
    for place, metric in enumerate(PAGE_METRICS):
        arm = math.ceil(found.ab_impressions(metric)[0, 2] / 3)
        means, errors = found.means[place], np.sqrt(found.variances[place] / arm)
        z = (means[0] - means[2] + rng.normal(size=(4000, 2)) @ errors[[0, 2]]) / np.hypot(errors[0], errors[2])
        assert np.mean(np.abs(z) > 1.96) == pytest.approx(0.8, abs=0.02)


def test_equal_rankers_take_infinitely_many():
    data = QuerySet(("a", "b"), 2, np.array([0, 2]), np.array([1, 0], dtype=np.uint8),
                    np.array([0, 1, 0, 1], dtype=np.int32))  # fmt: skip
    found = simulate_own_pages(data, PositionBased((0.0, 1.0), (1.0, 1.0)), 10, k=1)
    assert found.means.tolist() == [[1.0, 1.0]] * 3
    assert np.isinf(found.ab_impressions()).all()


def test_what_makes_no_sense_is_refused():
    with pytest.raises(DataError, match="pages is 0"):
        simulate_own_pages(DATA, user("perfect", 2), 0)
    with pytest.raises(DataError, match="grades of relevance"):
        simulate_own_pages(synthetic(queries=5, grades=5, seed=1), user("perfect", 2), 10)
    with pytest.raises(DataError, match="expected one of clicks, success"):
        simulate_own_pages(DATA, user("perfect", 2), 10).ab_impressions("abandonment")
