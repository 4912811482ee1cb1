"""Position-based users click as their law says."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chisquare

from multileave.clicks import PositionBased, position_clicks
from multileave.errors import DataError
from multileave.random import seed_state, uniform

pytestmark = pytest.mark.fast

SOME = PositionBased(click=(0.2, 0.5, 0.9), examine=(1.0, 0.6, 0.3))


def clicks_of(model, labels, visible, rng):
    clicks = np.full(len(labels), 7, dtype=np.uint8)
    count = position_clicks(np.array(labels, dtype=np.uint8), visible, model.parameters, rng, clicks)
    assert count == clicks.sum()
    return tuple(clicks.tolist())


def test_the_kernel_equals_its_slow_twin_to_the_bit():
    rng, twin = seed_state(3), seed_state(3)
    random = np.random.default_rng(5)
    for _ in range(200):
        labels = random.integers(0, 3, size=random.integers(1, 6)).tolist()
        visible = int(random.integers(0, len(labels) + 2))
        slow = [0] * len(labels)
        for x in range(min(visible, len(labels), 3)):
            slow[x] = int(uniform(twin) < SOME.examine[x] * SOME.click[labels[x]])
        assert clicks_of(SOME, labels, visible, rng) == tuple(slow)


def test_click_vectors_have_the_frequencies_of_the_law():
    labels, draws = [2, 0, 1], 6000
    chances = [examine * SOME.click[grade] for examine, grade in zip(SOME.examine, labels, strict=True)]
    law = {
        vector: math.prod(chance if clicked else 1 - chance for clicked, chance in zip(vector, chances, strict=True))
        for vector in itertools.product((1, 0), repeat=3)
    }
    rng = seed_state(11)
    seen = dict.fromkeys(law, 0)
    for _ in range(draws):
        seen[clicks_of(SOME, labels, 3, rng)] += 1
    assert chisquare(list(seen.values()), [draws * law[vector] for vector in seen]).pvalue > 1e-3


def test_ranks_past_the_end_are_never_seen():
    eager = PositionBased(click=(1.0,), examine=(1.0, 1.0))
    assert clicks_of(eager, [0, 0, 0], 3, seed_state(1)) == (1, 1, 0)


def test_examination_that_falls_with_the_rank():
    assert PositionBased.falling((0.1, 0.9), k=3).examine == (1.0, 1 / 2, 1 / 3)
    with pytest.raises(DataError, match="k is 0"):
        PositionBased.falling((0.1, 0.9), k=0)
    with pytest.raises(DataError, match="a probability lies between 0 and 1"):
        PositionBased(click=(2.0,), examine=(1.0,))
