"""Ranking kernels: the documents of every query by a score, highest first, ties in random order.

Queries are in flat arrays, as `QuerySet` describes.
"""

from multileave.kernels import kernel
from multileave.random import below

RUN = 128  # documents that are sorted by counting; with more, merging is faster


@kernel
def rank_queries(offsets, scores, columns, rng, rankings, order, keys):  # type: ignore[no-untyped-def]
    """Fill the rankings of every query, one ranker per named column of scores.

    scores: (documents, F), finite. columns: (R,). rng: the generator's four words.
    order, keys: room for twice the largest query.
    """
    rankers = len(columns)
    for q in range(len(offsets) - 1):
        first, size = offsets[q], offsets[q + 1] - offsets[q]
        for r in range(rankers):
            column = columns[r]
            for document in range(size):
                keys[document] = scores[first + document, column]
                order[document] = document
            start = _sort_descending(order, keys, size)
            _shuffle_ties(order[start : start + size], keys[start : start + size], rng)
            at = rankers * first + r * size
            for x in range(size):
                rankings[at + x] = order[start + x]


@kernel
def _sort_descending(order, keys, size):  # type: ignore[no-untyped-def]
    """Sort the first documents by their keys, equal ones left in place; return where the result starts.

    Runs are sorted by counting, for each key, those that precede it: quadratic, but vectorised and without branches.
    They are merged back and forth between the two halves of the room, so the result starts at 0 or at size.
    """
    for begin in range(0, size, RUN):
        run = keys[begin : min(begin + RUN, size)]  # a slice, so that indices are known not to be negative
        for i in range(len(run)):
            key = run[i]
            before = 0
            for j in range(len(run)):
                before += (run[j] > key) | ((run[j] == key) & (j < i))
            keys[size + begin + before] = key
            order[size + begin + before] = order[begin + i]
    source, target = size, 0
    width = RUN
    while width < size:
        for begin in range(0, size, 2 * width):
            left, middle, end = source + begin, source + min(begin + width, size), source + min(begin + 2 * width, size)
            right = middle
            for i in range(target + begin, target + begin + end - left):
                if right == end or (left < middle and keys[left] >= keys[right]):
                    keys[i] = keys[left]
                    order[i] = order[left]
                    left += 1
                else:
                    keys[i] = keys[right]
                    order[i] = order[right]
                    right += 1
        source, target = target, source
        width *= 2
    return source


@kernel
def _shuffle_ties(order, keys, rng):  # type: ignore[no-untyped-def]
    """Shuffle documents with equal keys, which are adjacent."""
    begin = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or keys[end] != keys[begin]:
            for i in range(begin, end - 1):
                other = i + below(rng, end - i)
                document = order[other]
                order[other] = order[i]
                order[i] = document
            begin = end


@kernel
def misranked_query(offsets, rankings, rankers, seen):  # type: ignore[no-untyped-def]
    """Return the first query in which a ranker does not rank every document once, or -1.

    seen: zeros, as many as the largest query has documents.
    """
    mark = 0
    for q in range(len(offsets) - 1):
        first, size = offsets[q], offsets[q + 1] - offsets[q]
        for r in range(rankers):
            mark += 1
            at = rankers * first + r * size
            for x in range(size):
                document = rankings[at + x]
                if document < 0 or document >= size or seen[document] == mark:
                    return q
                seen[document] = mark
    return -1
