"""Metrics: how good rankings are according to their documents' labels. They are the truth of a study.

Each returns one number per ranker, the mean over all queries; queries without relevant documents count as 0. A document
is relevant if its label is above 0. One that a ranker did not return earns it nothing, but counts among those that it
could have returned. They are our own, as they score all rankers of a `QuerySet` at once in compiled loops.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from multileave.data.queries import QuerySet
from multileave.errors import DataError
from multileave.kernels import kernel
from multileave.outcome import Floats

GAINS: Floats = np.exp2(np.arange(256.0)) - 1.0
"""The gain of every label: 2^label - 1."""


def ndcg(data: QuerySet, cutoff: int = 10) -> Floats:
    """Return every ranker's NDCG at a cutoff, shape (R,): its DCG divided by that of the best ranking [jarvelin2002].

    >>> data = QuerySet.from_scores(["good", "bad"], [0, 2], [0, 1], [[1, 2], [2, 1]], grades=2)
    >>> ndcg(data)
    array([1.        , 0.63092975])
    """
    return _mean_dcg(data, cutoff, normalised=True)


def dcg(data: QuerySet, cutoff: int = 10) -> Floats:
    """Return every ranker's DCG at a cutoff, shape (R,).

    DCG = sum over ranks x to the cutoff of (2^label - 1) / log2(x + 1)
    """
    return _mean_dcg(data, cutoff, normalised=False)


def precision(data: QuerySet, cutoff: int = 10) -> Floats:
    """Return every ranker's precision at a cutoff, shape (R,): relevant documents up to it, divided by it."""
    found, _, _ = _mean_binary(data, cutoff)
    return found / cutoff


def average_precision(data: QuerySet) -> Floats:
    """Return every ranker's average precision, shape (R,).

    AP = sum over the ranks x of relevant documents of (relevant documents up to x) / x, divided by all relevant ones
    """
    _, average, _ = _mean_binary(data, 1)
    return average


def reciprocal_rank(data: QuerySet) -> Floats:
    """Return every ranker's reciprocal rank, shape (R,): 1 / rank of the first relevant document."""
    _, _, reciprocal = _mean_binary(data, 1)
    return reciprocal


METRICS: Mapping[str, Callable[[QuerySet], Floats]] = MappingProxyType(
    {"ndcg@10": ndcg, "dcg@10": dcg, "p@10": precision, "ap": average_precision, "rr": reciprocal_rank}
)
"""Metrics by name, as truths to compare verdicts with."""


def _check_cutoff(cutoff: int) -> None:
    if cutoff < 1:
        raise DataError(f"The cutoff is {cutoff}; expected a rank, at least 1.")


def ideal_dcg(data: QuerySet, cutoff: int = 10) -> Floats:
    """Return the DCG at a cutoff of the best ranking of every query, shape (Q,)."""
    _check_cutoff(cutoff)
    best = np.zeros(len(data))
    fill_ideals(data.offsets, data.labels, GAINS, discounts(cutoff), np.zeros(256, dtype=np.int64), best)
    return best


def discounts(cutoff: int) -> Floats:
    """Return the discounts of DCG, from rank 1 to the cutoff."""
    values: Floats = 1.0 / np.log2(np.arange(2, cutoff + 2))
    return values


def _mean_dcg(data: QuerySet, cutoff: int, *, normalised: bool) -> Floats:
    _check_cutoff(cutoff)
    cutoff = min(cutoff, int(data.sizes.max()))
    best = ideal_dcg(data, cutoff) if normalised else np.ones(len(data))
    total = np.zeros(len(data.rankers))
    add_dcg(data.offsets, data.labels, data.rankings, data.lengths, best, GAINS, discounts(cutoff), total)
    return total / len(data)


def _mean_binary(data: QuerySet, cutoff: int) -> tuple[Floats, Floats, Floats]:
    """Return the mean relevant documents to the cutoff, average precision and reciprocal rank, each (R,)."""
    _check_cutoff(cutoff)
    total = np.zeros((3, len(data.rankers)))
    add_binary(data.offsets, data.labels, data.rankings, data.lengths, cutoff, total)
    total /= len(data)
    return total[0], total[1], total[2]


@kernel
def fill_ideals(offsets, labels, gain, discount, counts, best):  # type: ignore[no-untyped-def]
    """Fill best (Q,) with every query's DCG of its documents ordered by their labels.

    gain: by label. discount: by position, up to the cutoff. counts: zeros, one per possible label.
    """
    for q in range(len(best)):
        highest = 0
        for document in range(offsets[q], offsets[q + 1]):
            counts[labels[document]] += 1
            highest = max(highest, labels[document])
        x = 0
        for label in range(highest, -1, -1):
            for _ in range(min(counts[label], len(discount) - x)):
                best[q] += gain[label] * discount[x]
                x += 1
            counts[label] = 0


@kernel
def add_dcg(offsets, labels, rankings, lengths, best, gain, discount, total):  # type: ignore[no-untyped-def]
    """Add every query's DCG, divided by its best (Q,), to the rankers' total (R,); gain and discount as above."""
    rankers = len(total)
    for q in range(len(offsets) - 1):
        first, size = offsets[q], offsets[q + 1] - offsets[q]
        seen = min(size, len(discount))
        if best[q] > 0.0:
            for r in range(rankers):
                at = rankers * first + r * size
                found = 0.0
                for x in range(min(seen, lengths[q, r])):
                    found += gain[labels[first + rankings[at + x]]] * discount[x]
                total[r] += found / best[q]


@kernel
def add_binary(offsets, labels, rankings, lengths, cutoff, total):  # type: ignore[no-untyped-def]
    """Add every query's relevant documents to the cutoff, average precision and reciprocal rank to total (3, R)."""
    rankers = total.shape[1]
    for q in range(len(offsets) - 1):
        first, size = offsets[q], offsets[q + 1] - offsets[q]
        relevant = 0
        for document in range(first, first + size):
            relevant += labels[document] > 0
        if relevant == 0:
            continue
        for r in range(rankers):
            at = rankers * first + r * size
            found = 0
            precisions = 0.0
            for x in range(lengths[q, r]):
                if labels[first + rankings[at + x]] > 0:
                    found += 1
                    precisions += found / (x + 1)
                    if found == 1:
                        total[2, r] += 1.0 / (x + 1)
                    if x < cutoff:
                        total[0, r] += 1.0
                    if found == relevant:
                        break
            total[1, r] += precisions / relevant
