"""Instances: sets of rankings, up to changes that the requirements ignore.

Renaming documents changes nothing, so the first ranking is fixed to A, B, C, ... The order of the other rankers changes
nothing, so they are sorted: 21 triples over 3 documents, 300 over 4. If the order of all rankers is ignored, there are
10 and 111.
"""

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement, permutations, product
from string import ascii_uppercase

from multileave.methods.exact import Documents, ExactRankings


def document_names(documents: int) -> Documents:
    """Return A, B, C, ... and D27, D28, ... past Z."""
    return tuple(ascii_uppercase[i] if i < 26 else f"D{i + 1}" for i in range(documents))


def instances(documents: int, rankers: int, *, reorder: bool = False) -> Iterator[ExactRankings]:
    """Yield all sets of rankings of the same documents, up to renaming documents.

    reorder: up to reordering all rankers as well, the first included.

    >>> [sum(1 for _ in instances(3, 3)), sum(1 for _ in instances(3, 3, reorder=True))]
    [21, 10]
    """
    names = document_names(documents)
    orders = list(permutations(range(documents)))
    for others in combinations_with_replacement(orders, rankers - 1):
        numbers = (orders[0], *others)
        if reorder and numbers != _least_form(numbers):
            continue
        yield tuple(tuple(names[d] for d in ranking) for ranking in numbers)


def _least_form(numbers: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Return the least of the forms that result from renaming by one of the rankings and sorting."""
    forms = []
    for first in numbers:
        name = {document: i for i, document in enumerate(first)}
        renamed = [tuple(name[document] for document in ranking) for ranking in numbers]
        renamed.remove(tuple(range(len(first))))
        forms.append((tuple(range(len(first))), *sorted(renamed)))
    return min(forms)


def returned_lists(rankings: ExactRankings, returned: int | str | None) -> Iterator[ExactRankings]:
    """Yield what rankers may return: the top of each ranking; "any" for every length from 1.

    >>> list(returned_lists((("A", "B"), ("B", "A")), 1))
    [(('A',), ('B',))]
    """
    if returned != "any":
        yield tuple(ranking[: None if returned is None else int(returned)] for ranking in rankings)
        return
    for lengths in product(range(1, len(rankings[0]) + 1), repeat=len(rankings)):
        yield tuple(ranking[:n] for ranking, n in zip(rankings, lengths, strict=True))


def relevant_sets(documents: Documents) -> Iterator[frozenset[object]]:
    """Yield every set of relevant documents for which a ranker can be better: some, but not all."""
    for size in range(1, len(documents)):
        yield from map(frozenset, combinations(documents, size))


def dominators(rankings: ExactRankings, relevant: frozenset[object], k: int) -> Iterator[int]:
    """Yield the rankers that Pareto dominate all others.

    Only relevant documents that some ranker places at rank k or above count: users see no others.
    """
    seen = [d for d in relevant if any(d in ranking[:k] for ranking in rankings)]
    ranks = [[ranking.index(d) for d in seen] for ranking in rankings]
    for i, mine in enumerate(ranks):
        if all(
            all(a <= b for a, b in zip(mine, theirs, strict=True)) and mine != theirs
            for j, theirs in enumerate(ranks)
            if j != i
        ):
            yield i
