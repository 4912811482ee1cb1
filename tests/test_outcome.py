"""What adds up outcomes says what the preferences of each say."""

import numpy as np
import pytest

from multileave.outcome import ADDING, preference_matrix

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("kind", ADDING)
@pytest.mark.parametrize("rankers", [2, 3, 9, 40])
@pytest.mark.parametrize("share", [0.03, 0.5, 1.0])
def test_totals_are_the_sums_of_preferences(kind, rankers, share):
    rng = np.random.default_rng(rankers)
    shape = (rankers, rankers) if kind == "matrix" else (1, rankers)
    total = np.zeros((1, rankers) if kind == "difference" else (rankers, rankers))
    expected = np.zeros((rankers, rankers))
    for _ in range(30):
        # Equal credits, opposed ones and some that differ by rounding only.
        values = rng.integers(-2, 3, shape) * (rng.random(shape) < share) * (1.0 + rng.integers(0, 2, shape) * 1e-16)
        values[0, rng.integers(rankers)] = 0.3
        ADDING[kind](values, total)
        expected += preference_matrix(kind, values if kind == "matrix" else values[0])
    found = preference_matrix("difference", total[0]) if kind == "difference" else total
    np.testing.assert_allclose(found, expected, atol=1e-12)
