"""Sums of impressions in the engine: preferences and their squares, as cheaply as the kind of outcome allows."""

import numpy as np

from multileave.kernels import Kernel, kernel
from multileave.outcome import Floats, Kind, how_to_compare


@kernel
def add_differences(values, total, squares):  # type: ignore[no-untyped-def]
    """Add (1, R) credits to a total of that shape, and the products of every two to squares (R + 1, R + 1).

    The last row of squares holds the credits of one impression, and its corner 1, until the next one: the products of
    two impressions at a time cost little more than those of one. All R columns are added, although those above the
    diagonal would do, because rows of equal length are faster.
    """
    rankers = values.shape[1]
    credits = values[0]
    kept = squares[rankers]
    for n in range(rankers):
        total[0, n] += credits[n]
    if kept[rankers] == 0.0:
        for n in range(rankers):
            kept[n] = credits[n]
        kept[rankers] = 1.0
        return
    kept[rankers] = 0.0
    for n in range(rankers):
        ours, before, row = credits[n], kept[n], squares[n]
        for m in range(rankers):
            row[m] += ours * credits[m] + before * kept[m]


def products(squares: Floats) -> Floats:
    """Return the (R, R) sums of products that `add_differences` has added so far."""
    kept = squares[-1, :-1] * squares[-1, -1]
    return squares[:-1, :-1] + np.outer(kept, kept)


@kernel
def add_wins(values, total, squares):  # type: ignore[no-untyped-def]
    """Add 1 to total (R, R) at [n, m] if ranker n has more of the (1, R) credits than m; squares follow from it.

    If few rankers have credit, only their rows and columns change.
    """
    rankers = total.shape[0]
    credits = values[0]
    least, few = how_to_compare(credits)
    for n in range(rankers):
        ours, row = credits[n], total[n]
        if few and ours == 0.0:
            continue
        for m in range(rankers):
            row[m] += 1.0 if ours - credits[m] > least else 0.0
        if few and ours < -least:
            for m in range(rankers):
                total[m, n] += 1.0 if credits[m] == 0.0 else 0.0


@kernel
def add_preferences(values, total, squares):  # type: ignore[no-untyped-def]
    """Add the upper triangle of (R, R) preferences, and of their squares."""
    rankers = total.shape[0]
    for n in range(rankers):
        row, sums, products = values[n], total[n], squares[n]
        for m in range(n + 1, rankers):
            sums[m] += row[m]
            products[m] += row[m] * row[m]


ADDING: dict[Kind, Kernel] = {"difference": add_differences, "sign": add_wins, "matrix": add_preferences}
