"""The table behind every decision: a method's preferences for each list and each click vector.

For an instance and k, let p(l) be the probability of the list l and P(l, c) the preferences for the
click vector c, a mask of clicked positions. The table holds p(l) P(l, c) for every l and c, as
integers over one common denominator, so that every expectation is an exact sum of integers:

    E[P] = sum over l of the sum over c of P(c | l) p(l) P(l, c).
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import Any, TypeAlias

import numpy as np

from multileave.methods.base import Method, get_method, infer
from multileave.methods.exact import Documents, ExactRankings, exact_preferences
from multileave.theory.enumeration import has_definition

__all__ = ["Table", "make_table"]

Array: TypeAlias = np.ndarray[Any, Any]

SIMULATED_DRAWS = 4000


@dataclass(frozen=True, eq=False)
class Table:
    """p(l) P(l, c) of one method, instance and k.

    rankings: the lists that rankers returned. full: their rankings of all documents, of which these are the tops, and
    asked: how many results were asked for; by these it is judged who is better.
    lists: the visible documents of each list. values: (L, 2**k, R, R) integers, or floats where the
    method was simulated. probabilities: p(l), the same scale. scale: the common denominator.
    """

    rankings: ExactRankings
    k: int
    lists: tuple[Documents, ...]
    values: Array
    probabilities: Array
    scale: int
    draws: int | None = None
    full: ExactRankings = ()
    asked: int = 0

    @property
    def page(self) -> int:
        """How many results were asked for."""
        return self.asked or self.k

    @property
    def judged(self) -> tuple[ExactRankings, int]:
        """The rankings, and the number of results, by which a ranker dominates another."""
        return self.full or self.rankings, self.page

    @property
    def exact(self) -> bool:
        """Whether the table was computed and not simulated."""
        return self.draws is None

    def relevance(self, relevant: frozenset[object]) -> Array:
        """Return for each list the mask of the positions of relevant documents."""
        return np.array(
            [sum((d in relevant) << x for x, d in enumerate(shown)) for shown in self.lists], dtype=np.int64
        )

    def fraction(self, value: Any) -> Fraction:
        """Return an entry, or a sum of entries, as a number."""
        return Fraction(value) if self.draws is not None else Fraction(int(value), self.scale)

    @property
    def linear(self) -> bool:
        """Whether the preferences for every click vector are the sum of those for its clicks."""
        for mask in range(self.values.shape[1]):
            parts = sum(
                (self.values[:, 1 << x] for x in range(self.k) if mask >> x & 1), start=np.zeros_like(self.values[:, 0])
            )
            if self.draws is None:
                if not np.array_equal(parts, self.values[:, mask]):
                    return False
            elif not np.allclose(parts, self.values[:, mask], rtol=1e-9, atol=1e-12):
                return False
        return True


def make_table(method: Method, rankings: ExactRankings, k: int, *, seed: int = 0, full: ExactRankings = ()) -> Table:
    """Compute the table from the definition, or simulate it for a method that has none.

    full: the rankings of all documents, where `rankings` are only what was returned of them.
    """
    visible = min(k, len({document for ranking in rankings for document in ranking}))
    if full:
        table = _make_table(method, rankings, visible, k, seed)
        return replace(table, full=full, asked=k)
    return _make_table(method, rankings, visible, visible, seed)


def _make_table(method: Method, rankings: ExactRankings, k: int, asked: int, seed: int) -> Table:
    """Compute a table of k visible ranks, of lists for which more may have been asked."""
    if not has_definition(method):
        return _simulate(method, rankings, k, asked, seed)
    merged: dict[Documents, list[tuple[Fraction, list[list[list[Fraction]]]]]] = {}
    for drawn, note, probability in method.lists(rankings, asked):  # type: ignore[attr-defined]
        outcomes = [
            exact_preferences(method.outcome, method.score(rankings, drawn, note, _positions(mask), asked))  # type: ignore[attr-defined]
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
    return Table(
        rankings,
        k,
        tuple(weighted),
        values.reshape(len(weighted), 2**k, len(rankings), len(rankings)),
        np.array([int(p * scale) for p in probabilities], dtype=dtype),
        scale,
    )


def _positions(mask: int) -> list[int]:
    return [x for x in range(mask.bit_length()) if mask >> x & 1]


def _simulate(method: Method, rankings: ExactRankings, k: int, asked: int, seed: int) -> Table:
    """Draw many lists by the kernels; each drawn list and note is a row with its frequency."""
    counts: dict[tuple[Documents, bytes], tuple[int, Any]] = {}
    rng = np.random.default_rng(seed)
    for _ in range(SIMULATED_DRAWS):
        impression = method.combine(rankings, asked, seed=rng)
        key = impression.drawn, impression.note.tobytes()
        before = counts.get(key)
        counts[key] = (before[0] + 1 if before else 1, before[1] if before else impression)
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
    return Table(rankings, k, lists, values, probabilities, 1, SIMULATED_DRAWS)


def table_for(spec: str, rankings: ExactRankings, k: int, seed: int) -> Table:
    """Compute a table in a worker process."""
    return make_table(get_method(spec), rankings, k, seed=seed)
