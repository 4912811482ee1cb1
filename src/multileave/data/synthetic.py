"""Synthetic learning-to-rank data with rankers of known quality, for demonstrations and tests."""

from collections.abc import Sequence

import numpy as np

from multileave.data.queries import QuerySet
from multileave.errors import DataError
from multileave.random import Seed, seed_state

__all__ = ["synthetic"]

# Most documents are not relevant, and few are perfect: each grade is this much rarer than the one
# below, which is near what web search data have.
RARER = 0.5


def synthetic(
    *,
    queries: int = 1000,
    documents: int | tuple[int, int] = 50,
    rankers: int | Sequence[float] = 5,
    grades: int = 5,
    seed: Seed = 0,
) -> QuerySet:
    """Return made-up queries and the rankings of rankers "r1", "r2", ...

    A ranker of quality c scores a document by c * relevance + (1 - c) * noise. Relevance is the label,
    scaled to 0 .. 1. Half of the noise's variance is shared by all rankers, as real rankers err alike.

    documents: how many each query has, or the least and the most.
    rankers: how many, of qualities from .55 down to .45, or their qualities from 0 (noise) to 1 (ideal).

    >>> data = synthetic(queries=3, documents=(4, 8), rankers=2, seed=1)
    >>> len(data), data.rankers, data.grades
    (3, ('r1', 'r2'), 5)
    """
    least, most = (documents, documents) if isinstance(documents, int) else documents
    if queries < 1:
        raise DataError(f"queries is {queries}; expected a number from 1.")
    if not 1 <= least <= most:
        raise DataError(f"documents is {documents}; expected a number from 1, or the least and the most.")
    if not 2 <= grades <= 256:
        raise DataError(f"grades is {grades}; expected a number of grades of relevance, from 2 to 256.")
    qualities = _qualities(rankers)
    random = np.random.default_rng(seed_state(seed).tolist())
    offsets = np.concatenate([[0], np.cumsum(random.integers(least, most + 1, size=queries))])
    total = int(offsets[-1])
    shares = RARER ** np.arange(grades)
    labels = np.searchsorted(np.cumsum(shares / shares.sum())[:-1], random.random(total), side="right")
    shared = random.standard_normal(total)
    own = random.standard_normal((total, len(qualities)))
    noise = (shared[:, None] + own) / np.sqrt(2.0)
    scores = qualities * (labels / (grades - 1))[:, None] + (1.0 - qualities) * noise
    names = [f"r{r + 1}" for r in range(len(qualities))]
    return QuerySet.from_scores(names, offsets, labels, scores, grades=grades, seed=random)


def _qualities(rankers: int | Sequence[float]) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    if isinstance(rankers, int):
        if rankers < 1:
            raise DataError(f"rankers is {rankers}; expected a number from 1.")
        return np.linspace(0.55, 0.45, rankers)
    qualities = np.array(rankers, dtype=np.float64)
    if qualities.ndim != 1 or not len(qualities) or not ((qualities >= 0) & (qualities <= 1)).all():
        raise DataError(f"rankers is {rankers!r}; expected qualities between 0 and 1, or a number of rankers.")
    return qualities
