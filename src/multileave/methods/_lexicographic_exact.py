"""The lexicographic programme of om in Fractions, exact and finite: the definition of `_lexicographic`.

Given N points a_l and costs s_l, the probabilities p on the simplex that (1) minimise |sum of p_l a_l|^2,
(2) among those have the least sum of p_l s_l, (3) among those the least sum of p_l^2.

(1) is the point of a polytope nearest to the origin [wolfe1976], for which it suffices to minimise linear
functions over the polytope; (2) is a linear programme, by the simplex method with the rule that cannot
cycle [bland1977]; (3) is (1) again, over the face that (2) leaves.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

Vector: TypeAlias = tuple[Fraction, ...]


def exact_optimum(points: Sequence[Vector], costs: Sequence[Fraction]) -> tuple[Vector, Fraction]:
    """Return the probabilities p and the optimum of (1)."""
    mean = exact_nearest(lambda x: min(points, key=lambda point: _dot(x, point)), len(points[0]))
    rows = [tuple(row) for row in zip(*points, strict=True)] + [(Fraction(1),) * len(points)]
    right = (*mean, Fraction(1))
    least = _dot(costs, ExactPolytope(rows, right).lowest(costs))
    face = ExactPolytope([*rows, tuple(costs)], (*right, least))
    return exact_nearest(face.lowest, len(points)), _dot(mean, mean)


def exact_nearest(lowest: Callable[[Vector], Vector], dimensions: int) -> Vector:
    """Return the point of a polytope nearest to the origin; lowest(x) is its vertex of least product with x."""
    corral = [lowest((Fraction(0),) * dimensions)]
    weights = [Fraction(1)]
    while True:
        nearest = tuple(_dot(weights, column) for column in zip(*corral, strict=True))
        vertex = lowest(nearest)
        if _dot(nearest, vertex) >= _dot(nearest, nearest):
            return nearest
        corral.append(vertex)
        weights.append(Fraction(0))
        while True:
            aim = _affine_nearest(corral)
            steps = [w / (w - a) for w, a in zip(weights, aim, strict=True) if a < 0]
            step = min(steps, default=Fraction(1))
            weights = [w + step * (a - w) for w, a in zip(weights, aim, strict=True)]
            corral = [point for point, w in zip(corral, weights, strict=True) if w]
            weights = [w for w in weights if w]
            if not steps:
                break


def _affine_nearest(points: Sequence[Vector]) -> list[Fraction]:
    """Return the weights, of sum 1, of the point nearest to the origin in the affine hull of independent points."""
    size = len(points)
    rows = [[_dot(a, b) for b in points] + [Fraction(1), Fraction(0)] for a in points]
    rows.append([Fraction(1)] * size + [Fraction(0), Fraction(1)])
    for column in range(size + 1):
        pivot = next(row for row in range(column, size + 1) if rows[row][column])
        rows[column], rows[pivot] = rows[pivot], rows[column]
        _eliminate(rows, column, column)
    return [row[-1] for row in rows[:size]]


def _eliminate(rows: list[list[Fraction]], row: int, column: int) -> None:
    """Make a column of a system of equations the unit vector of a row."""
    pivot = rows[row][column]
    rows[row] = [value / pivot for value in rows[row]]
    for other, values in enumerate(rows):
        factor = values[column]
        if other != row and factor:
            rows[other] = [v - factor * u if u else v for v, u in zip(values, rows[row], strict=True)]


def _dot(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True) if x and y), Fraction(0))


class ExactPolytope:
    """The p >= 0 with rows . p = right, which must not be empty."""

    def __init__(self, rows: Sequence[Vector], right: Vector) -> None:
        self.variables = len(rows[0])
        self.table = []  # first one artificial variable per row, driven out of the basis to find a vertex
        for i, (row, value) in enumerate(zip(rows, right, strict=True)):
            sign = -1 if value < 0 else 1
            unit = [Fraction(i == j) for j in range(len(rows))]
            self.table.append([sign * x for x in row] + unit + [sign * value])
        self.basis = [self.variables + i for i in range(len(rows))]
        self._simplex([Fraction(0)] * self.variables + [Fraction(1)] * len(rows))
        for i in range(len(rows)):
            if self.basis[i] >= self.variables:
                column = next((j for j in range(self.variables) if self.table[i][j]), None)
                if column is not None:
                    self._pivot(i, column)
        real = [i for i, variable in enumerate(self.basis) if variable < self.variables]
        self.table = [self.table[i][: self.variables] + self.table[i][-1:] for i in real]
        self.basis = [self.basis[i] for i in real]

    def lowest(self, costs: Sequence[Fraction]) -> Vector:
        """Return a vertex of least cost."""
        self._simplex(costs)
        vertex = [Fraction(0)] * self.variables
        for row, variable in zip(self.table, self.basis, strict=True):
            vertex[variable] = row[-1]
        return tuple(vertex)

    def _simplex(self, costs: Sequence[Fraction]) -> None:
        while True:
            prices = [costs[variable] for variable in self.basis]
            columns = zip(*(row[:-1] for row in self.table), strict=True)
            falling = (j for j, column in enumerate(columns) if costs[j] < _dot(prices, column))
            column = next(falling, None)  # the first: Bland's rule
            if column is None:
                return
            ratios = [(row[-1] / row[column], self.basis[i], i) for i, row in enumerate(self.table) if row[column] > 0]
            self._pivot(min(ratios)[2], column)

    def _pivot(self, row: int, column: int) -> None:
        _eliminate(self.table, row, column)
        self.basis[row] = column
