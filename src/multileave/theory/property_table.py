"""The table behind every decision: a method's preferences for each list and each click vector.

For an instance and k, let p(l) be the probability of the list l and P(l, c) the preferences for the click vector c, a
mask of clicked positions. The table holds p(l) P(l, c) for every l and c, as integers over one common denominator, so
that every expectation is an exact sum of integers:

    E[P] = sum over l of the sum over c of P(c | l) p(l) P(l, c).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import lcm
from typing import Any, TypeAlias

import numpy as np

from multileave.methods.base import Method, infer
from multileave.methods.exact import Documents, ExactRankings, exact_preferences
from multileave.theory.enumeration import has_definition
from multileave.theory.instances import dominators, relevant_sets

Array: TypeAlias = np.ndarray[Any, Any]

SIMULATED_DRAWS = 4000


@dataclass(frozen=True, eq=False)
class PropertyTable:
    """p(l) P(l, c) of one method, instance and k.

    rankings: the lists that rankers returned. full: their rankings of all documents, if these are only the tops.
    page: how many results were asked for, of which k are visible; full and page decide which ranker is better.
    lists: the visible documents of each list. values: (L, 2**k, R, R) integers, or floats if they are not exact.
    probabilities: p(l), on the same scale. scale: the common denominator.
    draws: how many lists were simulated; 0 if the table was computed in floats, None if it is exact.
    """

    rankings: ExactRankings
    page: int
    k: int
    lists: tuple[Documents, ...]
    values: Array
    probabilities: Array
    scale: int
    draws: int | None = None
    full: ExactRankings = ()

    def dominations(self) -> Iterator[tuple[frozenset[object], int]]:
        """Yield every set of relevant documents for which a ranker dominates all others, and the ranker."""
        judged = self.full or self.rankings
        for relevant in relevant_sets(tuple(sorted(judged[0], key=str))):
            for ranker in dominators(judged, relevant, self.page):
                yield relevant, ranker

    @property
    def exact(self) -> bool:
        """Whether the table was computed in Fractions."""
        return self.draws is None

    def relevance(self, relevant: frozenset[object]) -> Array:
        """Return for each list the mask of positions with relevant documents."""
        return np.array(
            [sum((d in relevant) << x for x, d in enumerate(shown)) for shown in self.lists], dtype=np.int64
        )

    def fraction(self, value: Any) -> Fraction:
        """Return an entry, or a sum of entries, as a number."""
        return Fraction(int(value), self.scale) if self.exact else Fraction(value)

    @property
    def linear(self) -> bool:
        """Whether the preferences for every click vector are the sum of those for its clicks."""
        same = np.array_equal if self.exact else partial(np.allclose, rtol=1e-9, atol=1e-12)
        none = np.zeros_like(self.values[:, 0])
        return all(
            same(sum((self.values[:, 1 << x] for x in _positions(mask)), start=none), self.values[:, mask])
            for mask in range(self.values.shape[1])
        )


def make_table(
    method: Method, rankings: ExactRankings, k: int, *, seed: int = 0, full: ExactRankings = ()
) -> PropertyTable:
    """Compute the table from the definition, or simulate it for a method that has none.

    full: the rankings of all documents, if `rankings` are only what was returned of them.
    """
    visible = min(k, len({document for ranking in rankings for document in ranking}))
    page, k = k if full else visible, visible
    if not has_definition(method):
        return _simulate(method, rankings, page, k, seed, full)
    merged: dict[Documents, list[tuple[Fraction, list[list[list[Fraction]]]]]] = {}
    for drawn, note, probability in method.lists(rankings, page):  # type: ignore[attr-defined]
        outcomes = [
            exact_preferences(method.outcome, method.score(rankings, drawn, note, _positions(mask), page))  # type: ignore[attr-defined]
            for mask in range(2**k)
        ]
        merged.setdefault(drawn[:k], []).append((probability, outcomes))
    weighted = {
        shown: [
            [
                [sum((p * outcomes[mask][n][m] for p, outcomes in parts), Fraction(0)) for m in range(len(rankings))]
                for n in range(len(rankings))
            ]
            for mask in range(2**k)
        ]
        for shown, parts in merged.items()
    }
    probabilities = [sum((p for p, _ in parts), Fraction(0)) for parts in merged.values()]
    entries = [x for matrices in weighted.values() for matrix in matrices for row in matrix for x in row]
    scale = lcm(*(x.denominator for x in (*entries, *probabilities)))
    largest = max(abs(x) for x in entries) * scale
    small = largest * len(weighted) * 4 < 2**62 and scale < 2**62
    dtype: Any = np.int64 if small else object
    values = np.array([int(x * scale) for x in entries], dtype=dtype)
    return PropertyTable(
        rankings,
        page,
        k,
        tuple(weighted),
        values.reshape(len(weighted), 2**k, len(rankings), len(rankings)),
        np.array([int(p * scale) for p in probabilities], dtype=dtype),
        scale,
        full=full,
    )


def _positions(mask: int) -> list[int]:
    return [x for x in range(mask.bit_length()) if mask >> x & 1]


def _simulate(
    method: Method, rankings: ExactRankings, page: int, k: int, seed: int, full: ExactRankings
) -> PropertyTable:
    """Draw many lists by the kernels; each drawn list and note is a row with its frequency."""
    counts: dict[tuple[Documents, bytes], tuple[int, Any]] = {}
    rng = np.random.default_rng(seed)
    for _ in range(SIMULATED_DRAWS):
        impression = method.combine(rankings, page, seed=rng)
        key = impression.drawn, impression.note.tobytes()
        count, first = counts.get(key, (0, impression))
        counts[key] = count + 1, first
    values = np.array(
        [
            [
                infer(impression, positions=_positions(mask)).preferences * count / SIMULATED_DRAWS
                for mask in range(2**k)
            ]
            for count, impression in counts.values()
        ]
    )
    probabilities = np.array([count / SIMULATED_DRAWS for count, _ in counts.values()])
    lists = tuple(impression.shown for _, impression in counts.values())
    return PropertyTable(rankings, page, k, lists, values, probabilities, 1, SIMULATED_DRAWS, full)
