"""Synthetic learning-to-rank data with rankers of known quality."""

from collections.abc import Sequence

import numpy as np

from multileave.data.letor import Fold, Letor
from multileave.data.queries import Labels, QuerySet, check_grades
from multileave.errors import DataError
from multileave.outcome import Floats
from multileave.random import Seed, seed_state

# Each grade is this much rarer than the one below, which is close to web search data.
RARER = 0.5

SHARES = (0.8, 0.12, 0.08)  # of the grades of `search_engines`
SIGNALS = (0.9, 1.0, 0.5)  # how much a grade adds to words, meaning and popularity, whose noise has variance 1
# The rankers of `search_engines`: name, weights of the signals, and whether it is nearly a copy of another.
ENGINES: tuple[tuple[str, tuple[float, ...], bool], ...] = (
    ("bm25", (1.0, 0.0, 0.0), False),
    ("ltr", (1.0, 1.0, 0.7), False),
    ("hybrid", (1.0, 1.0, 0.0), False),
    ("dense", (0.0, 1.0, 0.0), False),
    ("bm25-tuned", (1.0, 0.0, 0.0), True),
)

BLOCK = 64  # queries that are drawn at a time; the data depend on it
DECIMALS = 6  # of features, as in LETOR


def synthetic(
    *,
    queries: int = 1000,
    documents: int | tuple[int, int] = 50,
    rankers: int | Sequence[float] = 5,
    grades: int = 5,
    seed: Seed = 0,
) -> QuerySet:
    """Return synthetic queries and the rankings of rankers "r1", "r2", ...

    A ranker of quality c scores a document by c * relevance + (1 - c) * noise. Relevance is the label scaled to
    0 .. 1. Half of the variance of the noise is shared by all rankers, as real rankers make similar errors.

    documents: the number per query, or its minimum and maximum.
    rankers: the number of rankers, with qualities from .55 down to .45, or their qualities from 0 (noise) to 1 (ideal).

    >>> data = synthetic(queries=3, documents=(4, 8), rankers=2, seed=1)
    >>> len(data), data.rankers, data.grades
    (3, ('r1', 'r2'), 5)
    """
    if queries < 1:
        raise DataError(f"The number of queries is {queries}; expected at least 1.")
    sizes = _document_range(documents)
    check_grades(grades)
    qualities = _qualities(rankers)
    random = np.random.default_rng(seed_state(seed).tolist())
    offsets = np.concatenate([[0], np.cumsum(random.integers(*sizes, size=queries))])
    labels, scores = _documents(random, int(offsets[-1]), qualities, grades)
    names = [f"r{r + 1}" for r in range(len(qualities))]
    return QuerySet.from_scores(names, offsets, labels, scores, grades=grades, seed=random)


def search_engines(*, queries: int = 1000, documents: int = 50, rankers: int = 5, seed: Seed = 0) -> QuerySet:
    """Return synthetic queries and rankers that resemble those of a search team.

    Most documents are irrelevant, and some queries are harder than others. Rankers share three signals: how well the
    words match, how well the meaning does, and popularity. So they make similar errors, some combine others, and one
    is nearly a copy. From the sixth on, rankers are random mixtures of the signals, every other one nearly a copy.

    >>> search_engines(queries=3, rankers=3).rankers
    ('bm25', 'ltr', 'hybrid')
    """
    if queries < 1 or documents < 1 or rankers < 2:
        raise DataError(
            f"There are {queries} queries of {documents} documents and {rankers} rankers; expected at least one query, "
            "one document and two rankers."
        )
    random = np.random.default_rng(seed_state(seed).tolist())
    total = queries * documents
    labels = np.searchsorted(np.cumsum(SHARES)[:-1], random.random(total), side="right")
    ease = np.repeat(random.uniform(0.4, 1.6, queries), documents)
    signals = np.outer(labels * ease, SIGNALS) + random.standard_normal((total, len(SIGNALS)))
    names, weights, copies = [list(column) for column in zip(*ENGINES[:rankers], strict=True)]
    for number in range(len(names) + 1, rankers + 1):
        is_copy = number % 2 == 1
        names.append(f"mix{number}")
        weights.append(weights[-1] if is_copy else tuple(random.random(len(SIGNALS))))
        copies.append(is_copy)
    scores = signals @ np.array(weights).T + np.where(copies, 0.15, 0.0) * random.standard_normal((total, rankers))
    offsets = np.arange(0, total + 1, documents)
    return QuerySet.from_scores(names, offsets, labels.astype(np.uint8), scores, grades=len(SHARES), seed=random)


def synthetic_fold(
    *,
    queries: tuple[int, int] = (600, 200),
    documents: int | tuple[int, int] = 120,
    rankers: int | Sequence[float] = 40,
    grades: int = 5,
    seed: Seed = 0,
) -> Fold:
    """Return synthetic data in the form of a fold, for studies without data.

    Features 1, 2, ... are rankers as in `synthetic`, with six decimals as in LETOR.

    queries: how many users issue, and how many are held out.

    >>> fold = synthetic_fold(queries=(3, 2), documents=4, rankers=2)
    >>> len(fold.users), len(fold.heldout), fold.users.features.shape, fold.rankers
    (3, 2, (12, 2), (1, 2))
    """
    if len(queries) != 2 or min(queries) < 1:
        raise DataError(f"Queries are {queries}; expected two positive numbers: of users, and held out.")
    sizes = _document_range(documents)
    check_grades(grades)
    qualities = _qualities(rankers)
    random = np.random.default_rng(seed_state(seed).tolist())
    counts, labels, features = [], [], []
    total = sum(queries)
    for first in range(0, total, BLOCK):
        counts.append(random.integers(*sizes, size=min(BLOCK, total - first)))
        found, scores = _documents(random, int(counts[-1].sum()), qualities, grades)
        labels.append(found)
        features.append(np.round(scores, DECIMALS))
    numbers = tuple(range(1, len(qualities) + 1))
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    ids = tuple(str(query) for query in range(1, total + 1))
    everything = Letor(grades, offsets, np.concatenate(labels), np.concatenate(features), numbers, ids)
    return Fold("synthetic", 1, everything.part(0, queries[0]), everything.part(queries[0], total), numbers)


def _documents(random: np.random.Generator, total: int, qualities: Floats, grades: int) -> tuple[Labels, Floats]:
    """Return labels, and scores by rankers of these qualities."""
    shares = RARER ** np.arange(grades)
    labels = np.searchsorted(np.cumsum(shares / shares.sum())[:-1], random.random(total), side="right")
    shared = random.standard_normal(total)
    own = random.standard_normal((total, len(qualities)))
    noise = (shared[:, None] + own) / np.sqrt(2.0)
    scores = qualities * (labels / (grades - 1))[:, None] + (1.0 - qualities) * noise
    return labels.astype(np.uint8), scores


def _document_range(documents: int | tuple[int, int]) -> tuple[int, int]:
    """Return the least number of documents of a query, and the most plus one."""
    least, most = (documents, documents) if isinstance(documents, int) else documents
    if not 1 <= least <= most:
        raise DataError(f"Documents are {documents}; expected a positive number, or a minimum and a maximum.")
    return least, most + 1


def _qualities(rankers: int | Sequence[float]) -> Floats:
    if isinstance(rankers, int):
        if rankers < 1:
            raise DataError(f"The number of rankers is {rankers}; expected at least 1.")
        return np.linspace(0.55, 0.45, rankers)
    qualities = np.array(rankers, dtype=np.float64)
    if qualities.ndim != 1 or not len(qualities) or not ((qualities >= 0) & (qualities <= 1)).all():
        raise DataError(f"Rankers are {rankers!r}; expected qualities between 0 and 1, or a number of rankers.")
    return qualities
