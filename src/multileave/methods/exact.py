"""Helpers of the definitions: exact ranks, powers, lists and preferences, in Fractions."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from multileave.errors import MethodError
from multileave.outcome import Kind

Documents: TypeAlias = tuple[Hashable, ...]
ExactRankings: TypeAlias = tuple[Documents, ...]
Note: TypeAlias = tuple[int, ...]
Clicks: TypeAlias = Sequence[int]  # clicked positions
Lists: TypeAlias = Iterator[tuple[Documents, Note, Fraction]]  # with their notes and probabilities


def exact_power(method: object, tau: float) -> int:
    """Return tau as an integer, or raise an error if powers of ranks are not rational."""
    if tau != int(tau):
        raise MethodError(
            f"{method} has no exact form, as a rank to the power of {tau} is not rational. Use an integer tau."
        )
    return int(tau)


def exact_preferences(kind: Kind, values: Any) -> list[list[Fraction]]:
    """Return the exact (R, R) preferences for exact credits or a matrix."""
    if kind == "matrix":
        return [list(row) for row in values]
    if kind == "difference":
        return [[n - m for m in values] for n in values]
    return [[Fraction((n > m) - (n < m)) for m in values] for n in values]


def rank_in(ranking: Documents, document: Hashable) -> float:
    """Return a document's rank from 1 in a ranking, infinity if it is absent."""
    return ranking.index(document) + 1 if document in ranking else float("inf")


def merged(lists: Iterable[tuple[Documents, Note, Fraction]]) -> Lists:
    """Yield every (list, note) once, with the sum of its probabilities."""
    total: dict[tuple[Documents, Note], Fraction] = {}
    for drawn, note, probability in lists:
        total[drawn, note] = total.get((drawn, note), Fraction(0)) + probability
    yield from ((drawn, note, probability) for (drawn, note), probability in total.items())
