"""Synthetic learning-to-rank data with rankers of known quality, for demonstrations and tests."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from multileave.data.letor import Fold, Letor
from multileave.data.queries import Labels, QuerySet
from multileave.errors import DataError
from multileave.outcome import Floats
from multileave.random import Seed, seed_state

__all__ = ["synthetic", "synthetic_fold", "synthetic_parts"]

# Most documents are not relevant, and few are perfect: each grade is this much rarer than the one
# below, which is near what web search data have.
RARER = 0.5

BLOCK = 64  # queries that are made at a time
DECIMALS = 6  # of features, as in LETOR


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
    if queries < 1:
        raise DataError(f"queries is {queries}; expected a number from 1.")
    sizes = _document_range(documents)
    _check_grades(grades)
    qualities = _qualities(rankers)
    random = np.random.default_rng(seed_state(seed).tolist())
    offsets = np.concatenate([[0], np.cumsum(random.integers(*sizes, size=queries))])
    labels, scores = _documents(random, int(offsets[-1]), qualities, grades)
    names = [f"r{r + 1}" for r in range(len(qualities))]
    return QuerySet.from_scores(names, offsets, labels, scores, grades=grades, seed=random)


def synthetic_fold(
    *,
    queries: tuple[int, int] = (600, 200),
    documents: int | tuple[int, int] = 120,
    rankers: int | Sequence[float] = 40,
    features: int | None = None,
    grades: int = 5,
    seed: Seed = 0,
    number: int = 1,
) -> Fold:
    """Return made-up data in the form of a fold, for studies where no data are given.

    Features 1, 2, ... are rankers as `synthetic` makes them; with six decimals, as in LETOR. A fold of the
    size of MSLR-WEB10K has ``queries=(6000, 2000), features=136``, and takes 1 GB.

    queries: how many users issue, and how many are held out.
    features: how many in all, those after the rankers being noise; None for the rankers alone.

    >>> fold = synthetic_fold(queries=(3, 2), documents=4, rankers=2, features=5)
    >>> len(fold.users), len(fold.heldout), fold.users.features.shape, fold.rankers
    (3, 2, (12, 5), (1, 2))
    """
    if len(queries) != 2 or min(queries) < 1:
        raise DataError(f"queries is {queries}; expected two numbers from 1: of users, and held out.")
    rest = {"documents": documents, "rankers": rankers, "features": features, "grades": grades, "seed": seed}
    parts = synthetic_parts(queries=sum(queries), **rest)  # type: ignore[arg-type]
    everything = _joined(parts, sum(queries) * (_document_range(documents)[1] - 1))
    users, heldout = everything.part(0, queries[0]), everything.part(queries[0], len(everything))
    return Fold("synthetic", number, users, heldout, tuple(range(1, len(_qualities(rankers)) + 1)))


def synthetic_parts(
    *,
    queries: int,
    documents: int | tuple[int, int] = 120,
    rankers: int | Sequence[float] = 40,
    features: int | None = None,
    grades: int = 5,
    seed: Seed = 0,
) -> Iterator[Letor]:
    """Yield the data of `synthetic_fold` a few queries at a time, for files larger than the memory."""
    sizes = _document_range(documents)
    _check_grades(grades)
    qualities = _qualities(rankers)
    width = len(qualities) if features is None else features
    if width < len(qualities):
        raise DataError(f"features is {features}; expected {len(qualities)} or more, as many as there are rankers.")
    everything = np.concatenate([qualities, np.zeros(width - len(qualities))])
    random = np.random.default_rng(seed_state(seed).tolist())
    return _parts(random, queries, sizes, everything, grades)


def _parts(
    random: np.random.Generator, queries: int, sizes: tuple[int, int], qualities: Floats, grades: int
) -> Iterator[Letor]:
    numbers = tuple(range(1, len(qualities) + 1))
    for first in range(0, queries, BLOCK):
        ids = range(first + 1, min(first + BLOCK, queries) + 1)
        offsets = np.concatenate([[0], np.cumsum(random.integers(*sizes, size=len(ids)))])
        labels, scores = _documents(random, int(offsets[-1]), qualities, grades)
        yield Letor(grades, offsets, labels, np.round(scores, DECIMALS), numbers, tuple(map(str, ids)))


def _documents(random: np.random.Generator, total: int, qualities: Floats, grades: int) -> tuple[Labels, Floats]:
    """Return labels, and scores by rankers of these qualities."""
    shares = RARER ** np.arange(grades)
    labels = np.searchsorted(np.cumsum(shares / shares.sum())[:-1], random.random(total), side="right")
    shared = random.standard_normal(total)
    own = random.standard_normal((total, len(qualities)))
    noise = (shared[:, None] + own) / np.sqrt(2.0)
    scores = qualities * (labels / (grades - 1))[:, None] + (1.0 - qualities) * noise
    return labels.astype(np.uint8), scores


def _joined(parts: Iterator[Letor], most: int) -> Letor:
    """Return the parts, of at most so many documents in all, as one, without a moment when they are there twice."""
    first = next(parts)
    features = np.empty((most, len(first.numbers)))  # its unused end is never touched, so costs nothing
    sizes, labels, end = [], [], 0
    qids: list[str] = []
    for part in itertools.chain([first], parts):
        features[end : end + len(part.labels)] = part.features
        end += len(part.labels)
        sizes.append(part.sizes)
        labels.append(part.labels)
        qids.extend(part.qids)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    return Letor(first.grades, offsets, np.concatenate(labels), features[:end], first.numbers, tuple(qids))


def _document_range(documents: int | tuple[int, int]) -> tuple[int, int]:
    """Return the least number of documents of a query and one more than the most."""
    least, most = (documents, documents) if isinstance(documents, int) else documents
    if not 1 <= least <= most:
        raise DataError(f"documents is {documents}; expected a number from 1, or the least and the most.")
    return least, most + 1


def _check_grades(grades: int) -> None:
    if not 2 <= grades <= 256:
        raise DataError(f"grades is {grades}; expected a number of grades of relevance, from 2 to 256.")


def _qualities(rankers: int | Sequence[float]) -> Floats:
    if isinstance(rankers, int):
        if rankers < 1:
            raise DataError(f"rankers is {rankers}; expected a number from 1.")
        return np.linspace(0.55, 0.45, rankers)
    qualities = np.array(rankers, dtype=np.float64)
    if qualities.ndim != 1 or not len(qualities) or not ((qualities >= 0) & (qualities <= 1)).all():
        raise DataError(f"rankers is {rankers!r}; expected qualities between 0 and 1, or a number of rankers.")
    return qualities
