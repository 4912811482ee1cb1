"""NDCG: how good a ranking is, judged by its documents' labels [jarvelin2002]."""

import numpy as np

from multileave.data.queries import QuerySet
from multileave.errors import DataError
from multileave.outcome import Floats

__all__ = ["ndcg"]


def ndcg(data: QuerySet, cutoff: int = 10) -> Floats:
    """Return every ranker's NDCG at a cutoff, shape (R,), the mean over all queries.

        DCG = sum over ranks x to the cutoff of (2^label - 1) / log2(x + 1),

    divided by that of the best possible ranking; 0 for a query without relevant documents.
    """
    if cutoff < 1:
        raise DataError(f"cutoff is {cutoff}; expected a rank from 1.")
    discount = 1.0 / np.log2(np.arange(2, cutoff + 2))
    total = np.zeros(len(data.rankers))
    for q in range(len(data)):
        labels, rankings = data.query(q)
        gain = np.exp2(labels.astype(np.float64)) - 1.0
        seen = discount[: len(gain)]
        best = float(np.sort(gain)[::-1][: len(seen)] @ seen)
        if best > 0.0:
            total += gain[rankings[:, : len(seen)]] @ seen / best
    return total / len(data)
