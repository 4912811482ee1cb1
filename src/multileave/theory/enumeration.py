"""Exact distributions and expectations, from the methods' definitions and never from the kernels."""

from collections.abc import Hashable
from fractions import Fraction
from typing import TypeAlias

from multileave.errors import MethodError
from multileave.methods.base import Method, get_method
from multileave.methods.exact import ExactRankings, exact_preferences
from multileave.rankings import RankingsLike, read_rankings
from multileave.theory.users import Relevant, User, as_user, grades_of

Matrix: TypeAlias = tuple[tuple[Fraction, ...], ...]


def distribution(
    method: str | Method, rankings: RankingsLike, k: int | None = None
) -> dict[tuple[Hashable, ...], Fraction]:
    """Return the exact probability of every list that the method may show.

    k: how many documents are shown; all by default.

    >>> distribution("tdm", ["AB", "BA", "BA"])
    {('A', 'B'): Fraction(1, 3), ('B', 'A'): Fraction(2, 3)}
    """
    method, exact, k = _prepare(method, rankings, k)
    total: dict[tuple[Hashable, ...], Fraction] = {}
    for drawn, _, probability in method.lists(exact, k):  # type: ignore[attr-defined]
        total[drawn[:k]] = total.get(drawn[:k], Fraction(0)) + probability
    return dict(sorted(total.items(), key=lambda item: repr(item[0])))


def expectation(
    method: str | Method, rankings: RankingsLike, user: str | User, relevant: Relevant, k: int | None = None
) -> Matrix:
    """Return the exact expected preferences E[P] of a user, R by R.

    relevant: the relevant documents, or a mapping of documents to grades.

    >>> from multileave.theory import Independent
    >>> expectation("ppm", ["AB", "BA"], Independent(relevant=(1,), other=(0,)), {"A"}, k=1)[0][1]
    Fraction(1, 1)
    """
    method, exact, k = _prepare(method, rankings, k)
    person = as_user(user)
    if person is None:
        raise MethodError(
            "An expectation needs one user; 'independent' stands for a whole class. Pass a theory.Independent."
        )
    everyone = range(len(exact))
    total = [[Fraction(0) for _ in everyone] for _ in everyone]
    for drawn, note, probability in method.lists(exact, k):  # type: ignore[attr-defined]
        laws: dict[tuple[int, ...], Fraction] = {}
        for clicks, chance in person.law(grades_of(drawn[:k], relevant)):
            laws[clicks] = laws.get(clicks, Fraction(0)) + chance
        for clicks, chance in laws.items():
            if not clicks:
                continue
            values = method.score(exact, drawn, note, clicks, k)  # type: ignore[attr-defined]
            matrix = exact_preferences(method.outcome, values)
            for n in everyone:
                for m in everyone:
                    total[n][m] += probability * chance * matrix[n][m]
    return tuple(map(tuple, total))


def has_definition(method: Method) -> bool:
    """Return whether a method can be judged exactly."""
    return hasattr(method, "lists") and hasattr(method, "score")


def _prepare(method: str | Method, rankings: RankingsLike, k: int | None) -> tuple[Method, ExactRankings, int]:
    method = get_method(method)
    if not has_definition(method):
        raise MethodError(
            f"{method} has no definition (lists and score), so nothing can be computed exactly. "
            "theory.check judges it by simulation."
        )
    source = read_rankings(rankings)
    rows = zip(source.read(source.longest), source.lengths, strict=True)
    exact = tuple(tuple(source.decoded(codes[:length])) for codes, length in rows)
    for row, ranking in enumerate(exact):
        if len(set(ranking)) < len(ranking):
            raise source.repeat(row)
    method.check_rankers(len(exact))
    if k is not None and k < 1:
        raise MethodError(f"k is {k}; expected an integer of at least 1.")
    return method, exact, len({document for ranking in exact for document in ranking}) if k is None else k
