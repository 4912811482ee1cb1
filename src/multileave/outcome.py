"""Outcome: what one impression says about every pair of rankers."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np

from multileave.kernels import Kernel, kernel

Kind: TypeAlias = Literal["difference", "sign", "matrix"]
Floats: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

# Equal credits may differ by rounding if their parts were added in another order; smaller differences are ties.
TOLERANCE = 1e-14


@dataclass(frozen=True, eq=False, slots=True)
class Outcome:
    """One impression's preferences between rankers.

    values: one credit per ranker, shape (R,), whose differences ("difference") or signs of differences ("sign") are the
        preferences; or the preferences themselves ("matrix"), shape (R, R).
    alone: float (3, R), what the impression says about each ranker's own page (see `methods._alone`); None if the
        method has no rates. valued: it adds up values, which may be negative, instead of clicks. Outcomes are equal if
        they prefer the same rankers, whatever these two say.

    >>> Outcome(("bm25", "dense"), "difference", np.array([1.0, 0.25])).preferences
    array([[ 0.  ,  0.75],
           [-0.75,  0.  ]])
    """

    rankers: tuple[str, ...]
    kind: Kind
    values: Floats
    alone: "Floats | None" = field(default=None, repr=False)
    valued: bool = field(default=False, repr=False)

    @property
    def preferences(self) -> Floats:
        """Antisymmetric (R, R) array: [n, m] > 0 if ranker n is preferred to m."""
        return preference_matrix(self.kind, self.values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Outcome):
            return NotImplemented
        return (self.rankers, self.kind) == (other.rankers, other.kind) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((self.rankers, self.kind, self.values.tobytes()))

    def __str__(self) -> str:
        matrix = self.preferences
        order = np.argsort(-matrix.sum(axis=1), kind="stable")
        if not matrix.any():
            return "no preference between " + ", ".join(self.rankers)
        parts = [self.rankers[order[0]]]
        for above, below in pairwise(order):
            parts.append((">" if matrix[above, below] > 0 else "=") + " " + self.rankers[below])
        return " ".join(parts)


def preference_matrix(kind: Kind, values: Floats) -> Floats:
    """Return the (R, R) preferences for a method's credits or matrix."""
    if kind == "matrix":
        return values
    difference = values[:, None] - values[None, :]
    if kind == "difference":
        return difference
    difference[np.abs(difference) <= TOLERANCE * np.abs(values).max(initial=0.0)] = 0.0
    return np.sign(difference)


@kernel
def how_to_compare(credits):  # type: ignore[no-untyped-def]
    """Return the largest difference that counts as a tie, and whether few rankers have credit."""
    largest = 0.0
    some = 0
    for n in range(len(credits)):
        largest = max(largest, abs(credits[n]))
        some += credits[n] != 0.0
    return TOLERANCE * largest, 8 * some < len(credits)


@kernel
def add_signs(values, total):  # type: ignore[no-untyped-def]
    """Add the signs of the differences of one impression's (1, R) credits to an (R, R) total.

    If few rankers have credit, only their rows and columns change. Otherwise all R columns are added: rows of equal
    length are faster than a triangle.
    """
    rankers = total.shape[0]
    credits = values[0]
    least, few = how_to_compare(credits)
    for n in range(rankers):
        ours, row = credits[n], total[n]
        if few and ours == 0.0:
            continue
        for m in range(rankers):
            difference = ours - credits[m]
            row[m] += (1.0 if difference > least else 0.0) - (1.0 if difference < -least else 0.0)
        if few:
            sign = (1.0 if ours > least else 0.0) - (1.0 if ours < -least else 0.0)
            for m in range(rankers):
                if credits[m] == 0.0:
                    total[m, n] -= sign


@kernel
def add_values(values, total):  # type: ignore[no-untyped-def]
    """Add one impression's (1, R) credits, or (R, R) preferences, to a total of the same shape."""
    for n in range(values.shape[0]):
        for m in range(values.shape[1]):
            total[n, m] += values[n, m]


# The kernels that add up the values of impressions, by kind.
ADDING: dict[Kind, Kernel] = {"difference": add_values, "sign": add_signs, "matrix": add_values}
