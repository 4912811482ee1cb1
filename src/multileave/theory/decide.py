"""The requirements, decided on one table: considerate, unbiased, Pareto; and on two: clone-proof.

Considerate (Eq. 1): no list with positive probability shows a document above the best rank that any ranker gives it.

Unbiased (fidelity 1): the expected preference is linear in the distribution of the click vector. So it is zero for
every user whose clicks do not depend on the documents iff it is zero for each of the 2^k click vectors.

Pareto (fidelity 2): let a user click at rank x with probability a_x on a relevant and b_x on another document,
a_x > b_x, independently. The expectation is affine in each pair (a_x, b_x), so over the triangle 0 <= b_x <= a_x <= 1
it is extreme at its corners (0, 0), (1, 0), (1, 1): it is positive for all such users iff it is at least zero at all
3^k corners and positive where every rank is at (1, 0). A user given by name is decided by enumeration.

Clone-proof: a copy of a ranker changes no expected preference between the others. A user's clicks depend on the
relevance of what is shown, so for every set of relevant documents, every pattern of relevance on the page and every
click vector, the sum of p(l) P(l, c) over the lists with that pattern must be the same with and without the copy.

If preferences are linear in the clicks, only each rank's click probability matters, and both fidelity requirements
cover dependent clicks as well.
"""

import math
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np

from multileave.theory.findings import Counterexample
from multileave.theory.instances import relevant_sets
from multileave.theory.property_table import Array, PropertyTable
from multileave.theory.users import Independent, User

# A simulated expectation violates a requirement if it is this many standard errors on the wrong side.
SIGMAS = 5.0
ROUNDING = 1e-9  # what a sum of floats that should be zero may be


def break_of_considerateness(table: PropertyTable) -> Counterexample | None:
    """Return a list and a rank that no ranker justifies, or None."""
    for shown in table.lists:
        for rank, document in enumerate(shown, 1):
            if all(document not in ranking[:rank] for ranking in table.rankings):
                return Counterexample("considerate", table.rankings, table.page, shown=shown, rank=rank)
    return None


def break_of_unbiasedness(table: PropertyTable) -> Counterexample | None:
    """Return clicks, the same on every list, that prefer a ranker, or None."""
    totals = table.values.sum(axis=0)
    errors = _tolerances(table)
    for mask in sorted(range(1, 2**table.k), key=lambda m: (m.bit_count(), m)):
        wrong = np.abs(totals[mask]) > errors[mask]
        if wrong.any():
            n, m = (int(x) for x in np.argwhere(wrong)[0])
            clicks = tuple(Fraction(mask >> x & 1) for x in range(table.k))
            return Counterexample(
                "unbiased", table.rankings, table.page, user=Independent(clicks, clicks),
                pair=(n, m), expectation=table.fraction(totals[mask, n, m]),
            )  # fmt: skip
    return None


def break_of_pareto(table: PropertyTable, user: User | None) -> Counterexample | None:
    """Return relevant documents for which the dominating ranker does not win, or None."""
    for relevant, n in table.dominations():
        at_corners: Any = corner_expectations(table, relevant, n) if user is None else None
        for m in range(len(table.rankings)):
            if m == n:
                continue
            if user is not None:
                expected = expected_preference(table, relevant, n, m, user)
                found = None if expected > -_slack(table, n, m) else (user, expected)
            else:
                found = _break_for_independent(table, relevant, n, m, at_corners[:, m])
            if found is not None:
                return Counterexample(
                    "pareto", table.rankings, table.page, relevant=relevant, user=found[0], pair=(n, m),
                    expectation=found[1], full=table.full,
                )  # fmt: skip
    return None


def break_of_clone_proofness(alone: PropertyTable, beside: PropertyTable, copied: int) -> Counterexample | None:
    """Return clicks for which a copy of one ranker changes an expectation between the others, or None.

    alone: the table of some rankers; beside: the table of these and a copy of one of them.
    """
    rankers = len(alone.rankings)
    zero = np.zeros((rankers, rankers), dtype=alone.values.dtype)
    everybody = frozenset(document for ranking in alone.rankings for document in ranking)
    for relevant in (frozenset(), *relevant_sets(tuple(sorted(everybody, key=str)))):
        sums: list[dict[tuple[int, int], Array]] = []
        for table in (alone, beside):
            found: dict[tuple[int, int], Array] = {}
            for row, mask in enumerate(table.relevance(relevant).tolist()):
                for clicks in range(1, 2**table.k):
                    part = table.values[row, clicks, :rankers, :rankers]
                    found[mask, clicks] = found.get((mask, clicks), zero) + part
            sums.append(found)
        for mask, clicks in sorted(sums[0].keys() | sums[1].keys()):
            with_and_without = [found.get((mask, clicks), zero) for found in sums]
            for n, m in combinations(range(rankers), 2):
                one, other = (
                    table.fraction(part[n, m]) for table, part in zip((alone, beside), with_and_without, strict=True)
                )
                if one != other and (alone.exact or abs(one - other) > Fraction(1, 10)):
                    chances = tuple(Fraction(clicks >> x & 1) for x in range(alone.k))
                    return Counterexample(
                        "clone_proof", beside.rankings, alone.page, relevant=relevant,
                        user=Independent(chances, chances), pair=(n, m), expectation=other - one, copied=copied,
                    )  # fmt: skip
    return None


def _slack(table: PropertyTable, n: int, m: int) -> float:
    """Return how far on the wrong side an expectation may be; 0 if the table is exact."""
    if table.exact:
        return 0.0
    largest = float(np.abs(table.values[:, :, n, m] / table.probabilities[:, None]).max())
    return SIGMAS * largest / math.sqrt(table.draws or 1)


def expected_preference(table: PropertyTable, relevant: frozenset[object], n: int, m: int, user: User) -> Fraction:
    """Return E[P_nm] of a user, from the table."""
    law = cache(lambda mask: list(user.law([mask >> x & 1 for x in range(table.k)])))
    total = Fraction(0)
    for row, mask in enumerate(table.relevance(relevant).tolist()):
        for clicks, chance in law(mask):
            total += chance * table.fraction(table.values[row, sum(1 << x for x in clicks), n, m])
    return total


def _break_for_independent(
    table: PropertyTable, relevant: frozenset[object], n: int, m: int, expected: Array
) -> tuple[User, Fraction] | None:
    """Return a user near a corner at which the expectation, given for all corners, is too small."""
    triangles = corners(table.k)
    strict = triangles.index((2**table.k - 1, 0))
    slack = _slack(table, n, m)
    if (expected >= -slack).all() and (expected[strict] > 0 or slack):
        return None
    worst = strict if expected[strict] <= -slack else int(np.argmin(expected))
    return _nearby_user(table, relevant, n, m, triangles[worst])


def corner_expectations(table: PropertyTable, relevant: frozenset[object], n: int) -> Array:
    """Return E[P_nm] at all 3^k corners for every m, (3^k, R)."""
    rows, masks, entries = np.arange(len(table.lists)), table.relevance(relevant), table.values[:, :, n]
    return np.array([entries[rows, other | (wanted & masks)].sum(axis=0) for wanted, other in corners(table.k)])


@cache
def corners(k: int) -> list[tuple[int, int]]:
    """Return all 3^k corners as masks: ranks clicked when relevant, ranks clicked when not."""
    found = []
    for corner in product(((0, 0), (1, 0), (1, 1)), repeat=k):
        wanted = sum(a << x for x, (a, _) in enumerate(corner))
        other = sum(b << x for x, (_, b) in enumerate(corner))
        found.append((wanted, other))
    return found


def _nearby_user(
    table: PropertyTable, relevant: frozenset[object], n: int, m: int, corner: tuple[int, int]
) -> tuple[Independent, Fraction]:
    """Return a user inside the triangles, near a corner, whose expectation is not positive either."""
    wanted, other = corner
    for digits in range(1, 30):
        step = Fraction(1, 10**digits)
        ranks: list[tuple[Any, Any]] = []
        for x in range(table.k):
            a, b = Fraction(wanted >> x & 1), Fraction(other >> x & 1)
            ranks.append((a, b) if a > b else (step, Fraction(0)) if a == 0 else (a, 1 - step))
        user = Independent(tuple(a for a, _ in ranks), tuple(b for _, b in ranks))
        value = expected_preference(table, relevant, n, m, user)
        if value <= 0:
            break
    return user, value


def _tolerances(table: PropertyTable) -> Array:
    """Return how far from zero the sums over lists may be if they should be zero."""
    if not table.draws:
        return np.full(table.values.shape[1:], 0 if table.exact else ROUNDING, dtype=table.values.dtype)
    weights = table.probabilities[:, None, None, None]
    mean = table.values.sum(axis=0)
    variance = np.maximum((table.values**2 / weights).sum(axis=0) - mean**2, 0)
    bound: Array = SIGMAS * np.sqrt(variance / float(table.draws)) + ROUNDING
    return bound
