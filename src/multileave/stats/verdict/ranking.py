"""Orders of rankers from preferences between pairs: Condorcet winner, Copeland scores, and cycles."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from multileave.outcome import Floats

Name = TypeVar("Name", str, int)


def copeland(rankers: Sequence[Name], preferences: Floats) -> dict[Name, float]:
    """Return how many others each ranker is preferred to on average, ties half; best first.

    >>> import numpy as np
    >>> copeland("abc", np.array([[0, 1, 1], [-1, 0, 0], [-1, 0, 0]]))
    {'a': 2.0, 'b': 0.5, 'c': 0.5}
    """
    counts = (preferences > 0.0).sum(axis=1) + 0.5 * ((preferences == 0.0).sum(axis=1) - 1)
    order = sorted(range(len(rankers)), key=lambda n: (-counts[n], -preferences[n].sum()))
    return {rankers[n]: float(counts[n]) for n in order}


def condorcet(rankers: Sequence[Name], preferences: Floats) -> Name | None:
    """Return the ranker that is preferred to every other on average, significantly or not, if there is one."""
    others = len(rankers) - 1
    counts = zip(rankers, (preferences > 0.0).sum(axis=1), strict=True)
    return next((name for name, count in counts if count == others), None)


def circles(wins: Mapping[str, set[str]]) -> tuple[tuple[str, ...], ...]:
    """Return the largest groups of rankers that are all preferred to each other, directly or via others.

    >>> circles({"a": {"b", "d"}, "b": {"c"}, "c": {"a"}, "d": set()})
    (('a', 'b', 'c'),)
    """
    reached = {name: set(beaten) for name, beaten in wins.items()}
    for via in wins:  # Warshall's closure
        for beaten in reached.values():
            if via in beaten:
                beaten |= reached[via]
    found: list[tuple[str, ...]] = []
    seen: set[str] = set()
    for name in wins:
        if name in reached[name] and name not in seen:
            group = tuple(other for other in wins if other in reached[name] and name in reached[other])
            seen.update(group)
            found.append(group)
    return tuple(found)
