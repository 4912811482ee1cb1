"""Users in exact arithmetic: the distribution of their clicks on a list, in Fractions.

There are two kinds, as in the paper. An `Independent` user clicks at each rank with a probability that depends on the
rank and on whether the document there is relevant, whatever else is on the page. A `Cascade` user reads from the top,
clicks by the document's grade, and may stop after a click.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

from multileave import clicks
from multileave.errors import DataError, nearest

Number: TypeAlias = "int | Fraction | str"
Relevant: TypeAlias = "Collection[Hashable] | Mapping[Hashable, int]"


class User(Protocol):
    """A user whose clicks on a list have a known distribution."""

    def law(self, grades: Sequence[int]) -> Iterator[tuple[tuple[int, ...], Fraction]]:
        """Yield (clicked positions, probability) for a list whose documents have these grades."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return the user as plain values; probabilities as strings such as "1/20"."""
        ...


class _Chances:
    """A user given by two tuples of probabilities of the same length."""

    def __post_init__(self) -> None:
        chances = {name: _probabilities(name, value) for name, value in vars(self).items() if name != "anywhere"}
        for name, values in chances.items():
            object.__setattr__(self, name, values)
        if len({*map(len, chances.values())}) > 1 or not all(chances.values()):
            numbers = " and ".join(f"{len(values)} probabilities in {name}" for name, values in chances.items())
            raise DataError(
                f"The user has {numbers}; expected as many in both, at least one. Make them the same length."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the user as plain values."""
        values = {name: list(map(str, v)) if isinstance(v, tuple) else v for name, v in vars(self).items()}
        return {"kind": type(self).__name__.lower(), **values}


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

    @property
    def correlated(self) -> bool:
        """Whether relevant documents are more likely to be clicked, at every rank the user looks at."""
        looked_at = [(a, b) for a, b in zip(self.relevant, self.other, strict=True) if a or b]
        return bool(looked_at) and all(a > b for a, b in looked_at)

    def law(self, grades: Sequence[int]) -> Iterator[tuple[tuple[int, ...], Fraction]]:
        """Yield (clicked positions, probability)."""
        chances = [
            (self.relevant if grade else self.other)[x] if x < len(self.relevant) else Fraction(0)
            for x, grade in enumerate(grades)
        ]

        def read(x: int, clicks: tuple[int, ...], chance: Fraction) -> Iterator[tuple[tuple[int, ...], Fraction]]:
            if x == len(grades):
                yield clicks, chance
                return
            if chances[x] < 1:
                yield from read(x + 1, clicks, chance * (1 - chances[x]))
            if chances[x] > 0:
                yield from read(x + 1, (*clicks, x), chance * chances[x])

        return read(0, (), Fraction(1))


@dataclass(frozen=True)
class Cascade(_Chances):
    """A user who reads from the top, clicks by grade, and may stop after a click.

    click, stop: probabilities by grade, 0 first.
    anywhere: the user may stop after any document, clicked or not.
    """

    click: tuple[Fraction, ...]
    stop: tuple[Fraction, ...]
    anywhere: bool = False

    @property
    def correlated(self) -> bool:
        """Whether documents of a higher grade are more likely to be clicked."""
        return all(low < high for low, high in zip(self.click, self.click[1:], strict=False))

    def law(self, grades: Sequence[int]) -> Iterator[tuple[tuple[int, ...], Fraction]]:
        """Yield (clicked positions, probability), once for each place where the user may stop."""
        if grades and max(grades) >= len(self.click):
            raise DataError(
                f"A document has grade {max(grades)}, and this user knows grades 0 to {len(self.click) - 1}. "
                "Give click and stop for every grade."
            )

        def read(x: int, clicks: tuple[int, ...], chance: Fraction) -> Iterator[tuple[tuple[int, ...], Fraction]]:
            if x == len(grades):
                yield clicks, chance
                return
            click, stop = self.click[grades[x]], self.stop[grades[x]]
            for seen, weight, may_stop in (((*clicks, x), click, True), (clicks, 1 - click, self.anywhere)):
                if weight and may_stop and stop:
                    yield seen, chance * weight * stop
                if weight and not (may_stop and stop == 1):
                    yield from read(x + 1, seen, chance * weight * (1 - stop if may_stop else 1))

        return read(0, (), Fraction(1))


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
        raise DataError(f"The user is a {type(user).__name__}; expected theory.Independent, theory.Cascade or a name.")
    return user


def user_from_dict(data: Mapping[str, Any]) -> User:
    """Return the user that `to_dict` wrote."""
    kinds = {"independent": Independent, "cascade": Cascade}
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items() if key != "kind"}
    try:
        user: User = kinds[data["kind"]](**values)
        return user
    except (KeyError, TypeError):
        raise DataError(f"{dict(data)!r} is not a user; expected what to_dict wrote.") from None


def grades_of(documents: Sequence[Hashable], relevant: Relevant) -> list[int]:
    """Return the grade of each document: 1 for a relevant one, or what a mapping says."""
    if isinstance(relevant, Mapping):
        return [int(relevant.get(document, 0)) for document in documents]
    return [int(document in relevant) for document in documents]


def _probabilities(name: str, values: Sequence[Any]) -> tuple[Fraction, ...]:
    found = []
    for value in values:
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
PRESETS = {
    name: Cascade(*((Fraction(str(p)) for p in part) for part in (preset.click, preset.stop)))  # type: ignore[arg-type]
    for name in ("perfect", "navigational", "informational", "random")
    for preset in [clicks.user(name, 2)]
}
