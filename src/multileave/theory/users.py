"""Users in exact arithmetic: the distribution of their clicks on a list, in Fractions.

There are two kinds in the paper. An `Independent` user clicks at each rank with a probability that depends on the rank
and on whether the document there is relevant, whatever else is on the page. A `Cascade` user reads from the top, clicks
by the document's grade, and may stop after a click. `PositionBased`, `Browsing` and
`Returning`, who goes back up, are the other models of `multileave.clicks`; `exact` makes any of them exact.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

from multileave import clicks
from multileave.errors import DataError, nearest

Number: TypeAlias = "int | Fraction | str"
Relevant: TypeAlias = "Collection[Hashable] | Mapping[Hashable, int]"


class User(Protocol):
    """A user whose clicks on a list have a known distribution."""

    def law(self, grades: Sequence[int]) -> "Law":
        """Yield (clicked positions, probability) for a list whose documents have these grades."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return the user as plain values; probabilities as strings such as "1/20"."""
        ...


Law: TypeAlias = Iterator[tuple[tuple[int, ...], Fraction]]


class _Chances:
    """A user given by tuples of probabilities."""

    paired: ClassVar[tuple[str, ...]] = ()  # fields of the same length

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, bool):
                object.__setattr__(self, name, _probabilities(name, value))
        lengths = {name: len(getattr(self, name)) for name in self.paired}
        if len({*lengths.values()}) > 1 or not all(lengths.values()):
            numbers = " and ".join(f"{count} probabilities in {name}" for name, count in lengths.items())
            raise DataError(
                f"The user has {numbers}; expected as many in both, at least one. Make them the same length."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the user as plain values."""
        return {"kind": type(self).__name__.lower(), **{name: _plain(value) for name, value in vars(self).items()}}


class _Graded(_Chances):
    """A user who clicks an examined document with a probability that depends on its grade."""

    click: tuple[Fraction, ...]
    simulated: ClassVar[type[clicks.ClickModel]]  # the same user, compiled

    def __post_init__(self) -> None:
        super().__post_init__()
        self.simulated(**vars(self))  # raises an error if the probabilities are too few

    @property
    def correlated(self) -> bool:
        """Whether documents of a higher grade are more likely to be clicked."""
        return all(low < high for low, high in pairwise(self.click))

    def _check(self, grades: Sequence[int]) -> None:
        if grades and max(grades) >= len(self.click):
            raise DataError(
                f"A document has grade {max(grades)}, and this user knows grades 0 to {len(self.click) - 1}. "
                "Give probabilities for every grade."
            )


@dataclass(frozen=True)
class Independent(_Chances):
    """A user who clicks at each rank independently.

    relevant, other: the probability of a click at rank 1, 2, ... on a relevant and on another
    document; 0 past the end.

    >>> list(Independent(relevant=(1, Fraction(1, 2)), other=(0, 0)).law([1, 0]))
    [((0,), Fraction(1, 1))]
    """

    relevant: tuple[Fraction, ...]
    other: tuple[Fraction, ...]

    paired = ("relevant", "other")

    @property
    def correlated(self) -> bool:
        """Whether relevant documents are more likely to be clicked, at every rank the user looks at."""
        looked_at = [(a, b) for a, b in zip(self.relevant, self.other, strict=True) if a or b]
        return bool(looked_at) and all(a > b for a, b in looked_at)

    def law(self, grades: Sequence[int]) -> Law:
        """Yield (clicked positions, probability)."""
        return _independent(
            [
                (self.relevant if grade else self.other)[x] if x < len(self.relevant) else Fraction(0)
                for x, grade in enumerate(grades)
            ]
        )


@dataclass(frozen=True)
class PositionBased(_Graded):
    """A user who examines each rank with its own probability.

    click: by grade, 0 first. examine: by rank; 0 past the end.

    >>> list(PositionBased(click=(0, 1), examine=(1, Fraction(1, 2))).law([1, 0]))
    [((0,), Fraction(1, 1))]
    """

    click: tuple[Fraction, ...]
    examine: tuple[Fraction, ...]

    simulated = clicks.PositionBased

    def law(self, grades: Sequence[int]) -> Law:
        """Yield (clicked positions, probability)."""
        self._check(grades)
        return _independent(
            [
                self.click[grade] * self.examine[x] if x < len(self.examine) else Fraction(0)
                for x, grade in enumerate(grades)
            ]
        )


@dataclass(frozen=True)
class Cascade(_Graded):
    """A user who reads from the top, clicks by grade, and may stop after a click.

    click, stop: probabilities by grade, 0 first.
    anywhere: the user may stop after any document, clicked or not.
    go_on_after_click, go_on_after_skip: the probability of not leaving after a click and after a document that was not
        clicked, by rank; the last holds for all further ranks.
    """

    click: tuple[Fraction, ...]
    stop: tuple[Fraction, ...]
    anywhere: bool = False
    go_on_after_click: tuple[Fraction, ...] = (Fraction(1),)
    go_on_after_skip: tuple[Fraction, ...] = (Fraction(1),)

    paired = ("click", "stop")
    simulated = clicks.Cascade

    def leaves(self, x: int, grade: int, *, clicked: bool) -> Fraction:
        """Return the probability of leaving after the document at position x."""
        by_rank = self.go_on_after_click if clicked else self.go_on_after_skip
        stop = self.stop[grade] if clicked or self.anywhere else 0
        return 1 - (1 - stop) * by_rank[min(x, len(by_rank) - 1)]

    def law(self, grades: Sequence[int]) -> Law:
        """Yield (clicked positions, probability), once for each place where the user may stop."""
        self._check(grades)

        def read(x: int, clicks: tuple[int, ...], chance: Fraction) -> Law:
            if x == len(grades):
                yield clicks, chance
                return
            click = self.click[grades[x]]
            for seen, weight, clicked in (((*clicks, x), click, True), (clicks, 1 - click, False)):
                leave = self.leaves(x, grades[x], clicked=clicked)
                if weight and leave:
                    yield seen, chance * weight * leave
                if weight and leave < 1:
                    yield from read(x + 1, seen, chance * weight * (1 - leave))

        return read(0, (), Fraction(1))


@dataclass(frozen=True)
class Returning(Cascade):
    """A cascade user who may go back up after a click; `multileave.clicks.returning` describes how.

    back: the probability of reading upwards after a click, of users who go on, by rank; the last holds for all further
        ranks.

    >>> user = Returning(click=(0, Fraction(1, 2)), stop=(0, 0), back=(1,))
    >>> sum(chance for clicks, chance in user.law([1, 1]) if clicks == (0, 1))  # 1/4 + 1/2 x 1/2 x 1/2
    Fraction(3, 8)
    """

    back: tuple[Fraction, ...] = (Fraction(0),)

    simulated = clicks.Returning

    def law(self, grades: Sequence[int]) -> Law:
        """Yield (clicked positions, probability), once for each place where the user may stop."""
        self._check(grades)
        walks = {(frozenset[int](), 0, 1): Fraction(1)}  # by what is clicked already, the next position, the direction
        while walks:
            later: dict[tuple[frozenset[int], int, int], Fraction] = {}

            def on(clicked: frozenset[int], x: int, step: int, chance: Fraction, later: Any = later) -> None:
                later[clicked, x + step, step] = later.get((clicked, x + step, step), Fraction(0)) + chance

            for (clicked, x, step), chance in walks.items():
                if not 0 <= x < len(grades):
                    yield tuple(sorted(clicked)), chance
                elif x in clicked:
                    on(clicked, x, step, chance)
                else:
                    click, seen = self.click[grades[x]], clicked | {x}
                    clicks, skips = chance * click, chance * (1 - click)
                    left, gone = (self.leaves(x, grades[x], clicked=which) for which in (True, False))
                    up = self.back[min(x, len(self.back) - 1)] if x else Fraction(0)
                    yield tuple(sorted(seen)), clicks * left
                    yield tuple(sorted(clicked)), skips * gone
                    on(seen, x, 1, clicks * (1 - left) * (1 - up))
                    on(seen, x, -1, clicks * (1 - left) * up)
                    on(clicked, x, step, skips * (1 - gone))
            walks = {key: chance for key, chance in later.items() if chance}


@dataclass(frozen=True)
class Browsing(_Graded):
    """A user whose attention depends on the rank of the last click.

    click: probabilities by grade, 0 first. examine: for each rank, by the rank of the last click above, 0 for none.

    >>> user = Browsing(click=(0, 1), examine=((Fraction(1, 2),), (1, Fraction(1, 3))))
    >>> [(clicks, str(chance)) for clicks, chance in user.law([1, 1])]
    [((1,), '1/2'), ((0,), '1/3'), ((0, 1), '1/6')]
    """

    click: tuple[Fraction, ...]
    examine: tuple[tuple[Fraction, ...], ...]

    simulated = clicks.Browsing

    def law(self, grades: Sequence[int]) -> Law:
        """Yield (clicked positions, probability)."""
        self._check(grades)
        end = min(len(grades), len(self.examine))

        def read(x: int, clicked: tuple[int, ...], chance: Fraction) -> Law:
            if x == end:
                yield clicked, chance
                return
            click = self.click[grades[x]] * self.examine[x][clicked[-1] + 1 if clicked else 0]
            if click < 1:
                yield from read(x + 1, clicked, chance * (1 - click))
            if click > 0:
                yield from read(x + 1, (*clicked, x), chance * click)

        return read(0, (), Fraction(1))


def _independent(chances: Sequence[Fraction]) -> Law:
    """Yield (clicked positions, probability) of clicks that are independent of each other."""

    def read(x: int, clicked: tuple[int, ...], chance: Fraction) -> Law:
        if x == len(chances):
            yield clicked, chance
            return
        if chances[x] < 1:
            yield from read(x + 1, clicked, chance * (1 - chances[x]))
        if chances[x] > 0:
            yield from read(x + 1, (*clicked, x), chance * chances[x])

    return read(0, (), Fraction(1))


KINDS: dict[str, Any] = {
    kind.__name__.lower(): kind for kind in (Independent, PositionBased, Cascade, Returning, Browsing)
}


def exact(model: clicks.ClickModel, *, digits: int | None = None) -> User:
    """Return a model of `multileave.clicks` in exact arithmetic; 0.05 means 1/20, not the float nearest to it.

    digits: how many decimals to keep; all by default.

    >>> exact(clicks.PositionBased((0.1, 0.5), (1.0, 0.3))) == PositionBased(("1/10", "1/2"), (1, "3/10"))
    True
    """
    for kind in KINDS.values():
        if type(model) is getattr(kind, "simulated", None):
            values = {field.name: _rounded(getattr(model, field.name), digits) for field in fields(kind)}
            user: User = kind(**values)
            return user
    raise DataError(f"The user is a {type(model).__name__}; expected a model of multileave.clicks.")


def as_user(user: "str | User | None") -> "User | None":
    """Return a user by name, a user itself, or None for all users with independent clicks."""
    if user is None or user == "independent":
        return None
    if isinstance(user, str):
        if user not in PRESETS:
            known = ["independent", *PRESETS]
            raise DataError(f"There is no user {user!r}; expected one of {', '.join(known)}.{nearest(user, known)}")
        return PRESETS[user]
    if not hasattr(user, "law"):
        raise DataError(f"The user is a {type(user).__name__}; expected a user of multileave.theory or a name.")
    return user


DIGITS = 3  # of the probabilities of fitted users, so that fractions stay small


def named_user(
    name: str | None, users_from: Sequence[str | Path] = (), *, attractiveness: str = "auto"
) -> "tuple[User | None, str]":
    """Return a preset, or a user of files that `multileave fit-users` wrote, for two grades, and its name.

    Probabilities of fitted users are rounded to three decimals. As many documents are relevant as are not.
    """
    if name is None:
        name = clicks.default_user(users_from) if users_from else "independent"
    if not users_from or name in ("independent", *PRESETS):
        return as_user(name), name
    model = clicks.find_user(name, 2, users_from, attractiveness=attractiveness)
    return exact(model, digits=DIGITS), name


def user_from_dict(data: Mapping[str, Any]) -> User:
    """Return the user that `to_dict` wrote."""
    try:
        user: User = KINDS[data["kind"]](**{key: value for key, value in data.items() if key != "kind"})
        return user
    except (KeyError, TypeError):
        raise DataError(f"{dict(data)!r} is not a user; expected what to_dict wrote.") from None


def grades_of(documents: Sequence[Hashable], relevant: Relevant) -> list[int]:
    """Return the grade of each document: 1 for a relevant one, or what a mapping says."""
    if isinstance(relevant, Mapping):
        return [int(relevant.get(document, 0)) for document in documents]
    return [int(document in relevant) for document in documents]


def _rounded(value: Any, digits: int | None) -> Any:
    if isinstance(value, tuple):
        return tuple(_rounded(part, digits) for part in value)
    return value if digits is None or isinstance(value, bool) else round(value, digits)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value if isinstance(value, bool) else str(value)


def _probabilities(name: str, values: Sequence[Any]) -> tuple[Any, ...]:
    found: list[Any] = []
    for value in values:
        if isinstance(value, Sequence) and not isinstance(value, str):
            found.append(_probabilities(name, value))
            continue
        if isinstance(value, float) and value not in (0.0, 1.0):
            value = str(value)  # 0.05 means 1/20, not the float nearest to it
        try:
            probability = Fraction(value)
        except (TypeError, ValueError):
            probability = Fraction(-1)
        if not 0 <= probability <= 1:
            raise DataError(f"{name} holds {value!r}; expected probabilities, such as Fraction(1, 20).")
        found.append(probability)
    return tuple(found)


# The paper's users for binary grades.
PRESETS = {name: exact(clicks.user(name, 2)) for name in ("perfect", "navigational", "informational", "random")}
