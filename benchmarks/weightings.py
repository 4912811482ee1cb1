"""Is there a weighting of pairs for which a better ranker wins? Decided by linear programming, checked in Fractions.

ppm, dpm without depth, and all methods that differ from them in how pairs are weighted, draw considerate
lists uniformly and score

    P_pq = sum over positions x < y, both at or below rbar, of kappa * (sigma_p(i, j) - sigma_q(i, j)) / w,

where i stands at x and j at y, and sigma_p(i, j) is 1 if p has i above j, else -1. Here kappa is any
function of x, y, the later and the earlier of the best ranks of i and j, and the whole click vector. For
all of these requirement 1 holds: exchanging i and j changes neither the probability of the list nor
kappa, and changes the sign. Requirement 2 asks of every instance, dominated pair and user that a sum,
linear in the values of kappa, be positive. By Motzkin's theorem there is no such kappa if and only if
some conditions, with weights that are not negative and positive for one strict condition, sum to zero.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from multileave.errors import MethodError
from multileave.methods.exact import ExactRankings
from multileave.methods.pairwise_preference import PairwisePreference, choice_set
from multileave.theory.users import User, grades_of

__all__ = ["Condition", "Decision", "Key", "coefficients", "decide"]

Key: TypeAlias = tuple[int, int, int, int, tuple[int, ...]]
"""x, y, the later best rank, the earlier, and the clicked ranks; ranks from 1."""


@dataclass(frozen=True)
class Condition:
    """That the first ranker of `pair` is preferred to the second, in expectation.

    strict: E > 0; otherwise E >= 0, for users who are limits of those of whom more is asked.
    """

    rankings: ExactRankings
    k: int
    relevant: frozenset[object]
    pair: tuple[int, int]
    user: User
    strict: bool = True


@dataclass(frozen=True)
class Decision:
    """A weighting that meets all conditions, or multipliers of conditions that sum to zero. One of both is None."""

    weighting: Mapping[Key, Fraction] | None
    certificate: Mapping[int, Fraction] | None

    def __bool__(self) -> bool:
        return self.weighting is not None


def coefficients(condition: Condition) -> dict[Key, Fraction]:
    """Return what each value of kappa contributes to E[P_pq]."""
    rankings, k = condition.rankings, condition.k
    better, worse = (rankings[n] for n in condition.pair)
    best = {d: min(ranking.index(d) for ranking in rankings) + 1 for d in better}
    pass_over = [1 - Fraction(1, len(choice_set(rankings, x)) - x + 1) for x in range(1, len(better) + 1)]
    found: dict[Key, Fraction] = {}
    laws: dict[tuple[int, ...], list[tuple[tuple[int, ...], Fraction]]] = {}
    for drawn, _, probability in PairwisePreference().lists(rankings, k):
        grades = tuple(grades_of(drawn[:k], condition.relevant))
        if grades not in laws:
            laws[grades] = [(tuple(x + 1 for x in clicks), chance) for clicks, chance in condition.user.law(grades)]
        for x in range(len(drawn)):
            for y in range(x + 1, len(drawn)):
                i, j = drawn[x], drawn[y]
                early, late = sorted((best[i], best[j]))
                agree = int(better.index(i) < better.index(j)) - int(worse.index(i) < worse.index(j))
                if x + 1 < late or not agree:
                    continue
                w = Fraction(1)
                for rank in range(early, late):
                    w *= pass_over[rank - 1]
                for clicks, chance in laws[grades]:
                    key = (x + 1, y + 1, late, early, clicks)
                    found[key] = found.get(key, Fraction(0)) + 2 * agree * probability * chance / w
    return {key: value for key, value in found.items() if value and key[-1]}


def decide(conditions: Sequence[Condition]) -> Decision:
    """Return a weighting that meets all conditions, or a certificate that there is none; both are exact."""
    rows = [coefficients(condition) for condition in conditions]
    keys = sorted({key for row in rows for key in row})
    column = {key: place for place, key in enumerate(keys)}
    matrix = np.zeros((len(rows), len(keys)))
    for place, row in enumerate(rows):
        for key, value in row.items():
            matrix[place, column[key]] = float(value)
    strict = np.array([condition.strict for condition in conditions])
    values = _weighting(matrix, strict)
    for digits in range(1, 10) if values is not None else ():
        weighting = {key: _rational(values[column[key]], digits) for key in keys}
        if all(_meets(row, weighting, strict=conditions[place].strict) for place, row in enumerate(rows)):
            return Decision({key: value for key, value in weighting.items() if value}, None)
    multipliers = _multipliers(matrix, strict)
    for digits in range(1, 10) if multipliers is not None else ():
        exact = {place: m for place in range(len(rows)) if (m := _rational(multipliers[place], digits))}
        if _refutes(rows, exact) and any(conditions[place].strict for place in exact):
            return Decision(None, exact)
    raise MethodError(
        f"{len(rows)} conditions were neither met nor refuted in Fractions: the float solution is too near to the "
        "border. Use fewer conditions, or users with smaller denominators."
    )


def _rational(value: float, digits: int) -> Fraction:
    return Fraction(value).limit_denominator(10**digits)


def _meets(row: Mapping[Key, Fraction], weighting: Mapping[Key, Fraction], *, strict: bool) -> bool:
    value = sum((c * weighting[key] for key, c in row.items()), Fraction(0))
    return value > 0 if strict else value >= 0


def _refutes(rows: Sequence[Mapping[Key, Fraction]], multipliers: Mapping[int, Fraction]) -> bool:
    """Return whether the multipliers are positive and the rows, multiplied, sum to zero."""
    sums: dict[Key, Fraction] = {}
    for place, multiplier in multipliers.items():
        for key, value in rows[place].items():
            sums[key] = sums.get(key, Fraction(0)) + multiplier * value
    return min(multipliers.values()) > 0 and not any(sums.values())


def _weighting(matrix: Any, strict: Any) -> Any:
    """Return kappa within [-1, 1] that meets the strict conditions by the largest margin, or None."""
    from scipy.optimize import linprog

    sizes = np.maximum(np.abs(matrix).sum(axis=1), 1e-300)
    scaled = np.c_[-matrix / sizes[:, None], strict.astype(float)]
    bounds = [(-1, 1)] * matrix.shape[1] + [(None, 1)]
    goal = np.r_[np.zeros(matrix.shape[1]), -1.0]
    found: Any = linprog(goal, A_ub=scaled, b_ub=np.zeros(len(matrix)), bounds=bounds, method="highs")
    return found.x[:-1] if found.x[-1] > 1e-9 else None


def _multipliers(matrix: Any, strict: Any) -> Any:
    """Return multipliers whose sum over strict conditions is 1 and which sum the conditions to zero, or None."""
    from scipy.optimize import linprog

    equal = np.r_[matrix.T, strict[None].astype(float)]
    right = np.r_[np.zeros(matrix.shape[1]), 1.0]
    found: Any = linprog(np.ones(len(matrix)), A_eq=equal, b_eq=right, method="highs")
    return found.x if found.success else None
