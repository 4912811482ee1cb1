"""Scoring: inferred preferences against the truth."""

import numpy as np

from multileave.errors import DataError
from multileave.outcome import Floats
from multileave.stats.verdict.ranking import condorcet, copeland


def score_differences(scores: Floats) -> Floats:
    """Return the true preferences P_nm = score_n - score_m of rankers with known NDCG, shape (R, R)."""
    return scores[:, None] - scores[None, :]


def binary_error(inferred: Floats, truth: Floats) -> float:
    """Return the share of ordered pairs n != m whose inferred preference has the wrong sign.

        E_bin = sum over n != m of [sgn(inferred_nm) != sgn(truth_nm)] / (R (R - 1))

    Missing a preference is an error, and so is finding one that does not exist [schuth2014].

    >>> truth = score_differences(np.array([0.5, 0.4, 0.3]))
    >>> binary_error(np.array([[0, 2, 1], [-2, 0, -1], [-1, 1, 0]]), truth) == 2 / 6
    True
    """
    if inferred.shape != truth.shape or truth.ndim != 2 or len(truth) != truth.shape[1] or len(truth) < 2:
        raise DataError(
            f"Preferences have the shapes {inferred.shape} and {truth.shape}; expected the same square shape (R, R), "
            "with two or more rankers."
        )
    wrong = np.sign(inferred) != np.sign(truth)
    np.fill_diagonal(wrong, False)
    return float(wrong.sum() / (len(truth) * (len(truth) - 1)))


def best_first(preferences: Floats) -> list[int]:
    """Return the rankers by how many others they beat, then by how clearly.

    >>> best_first(np.array([[0.0, -1.0], [1.0, 0.0]]))
    [1, 0]
    """
    return list(copeland(range(len(preferences)), preferences))


def winner(preferences: Floats) -> int | None:
    """Return the ranker that is preferred to every other, or None."""
    return condorcet(range(len(preferences)), preferences)
