"""Health of logged impressions: what `HealthCounts` holds, added up in a compiled loop.

`examine_row` is to a row what `HealthCounts.add` is to an `Impression`; the tests compare both.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from multileave.impression import ABSENT
from multileave.kernels import kernel
from multileave.methods.balanced import draw_balanced
from multileave.methods.base import Method
from multileave.methods.pairwise_preference import draw_choices
from multileave.methods.probabilistic import draw_ranker_and_document
from multileave.methods.round_preference import add_leads, draw_rounds
from multileave.methods.team_draft import draw_teams
from multileave.outcome import Floats

__all__ = ["HealthSums", "balance_of", "examine_row"]

Array: TypeAlias = "np.ndarray[Any, Any]"

# What is known of who stands first, and takes up room: see `stats.balance`.
UNKNOWN, TEAMS, CHOICES, TOPS, CHANCES, ROUNDS = range(6)

# Places in `HealthSums.counts`; from MISSING on there are R counts, then R of SHORT lists, then R * R of same pages.
EXAMINED, NO_PREFERENCE, DIFFERENT, FALLBACKS, FIRST, EXPOSURE, SHORT_LISTS, NEEDED, MISSING = range(9)
NEAR = 64  # ranks whose chances are added up one by one; the sum beyond them is that of Euler and Maclaurin


@dataclass(frozen=True, eq=False)
class HealthSums:
    """Sums over impressions of the same R rankers.

    counts: int64 (8 + 2 R + R R,): impressions examined, those of them without a possible preference, with
        different documents and with fallbacks, those in either balance, with short lists, the most results that
        these needed, for each ranker how often it returned nothing, and too little, and for each two how often they
        returned the same page.
    balances: (2, R + 2, R), for who stands first and who is shown: what was observed, what was expected,
        and the products of their differences, of which only the upper triangle is kept.
    """

    counts: Array
    balances: Floats

    @classmethod
    def empty(cls, rankers: int) -> "HealthSums":
        """Return the sums over no impression."""
        places = MISSING + 2 * rankers + rankers * rankers
        return cls(np.zeros(places, dtype=np.int64), np.zeros((2, rankers + 2, rankers)))

    def __len__(self) -> int:
        """Return the number of rankers."""
        return int(self.balances.shape[2])

    def add(self, other: "HealthSums") -> None:
        """Add another's sums; of what lists needed, the most."""
        needed = max(self.counts[NEEDED], other.counts[NEEDED])
        self.counts[:] += other.counts
        self.counts[NEEDED] = needed
        self.balances[:] += other.balances

    def to_dict(self, impressions: int, without_clicks: int) -> dict[str, Any]:
        """Return what `HealthCounts.from_dict` reads; impressions: all of them, examined or not."""
        counts, rankers = self.counts.tolist(), len(self)
        return {
            "clicks_known": impressions,
            "without_clicks": without_clicks,
            "examined": counts[EXAMINED],
            "no_preference": counts[NO_PREFERENCE],
            "different_documents": counts[DIFFERENT],
            "fallbacks": counts[FALLBACKS],
            "left_out": 0,
            "missing": counts[MISSING : MISSING + rankers],
            "short_lists": counts[SHORT_LISTS],
            "short": counts[MISSING + rankers : MISSING + 2 * rankers],
            "needed": counts[NEEDED],
            "same_pages": np.reshape(counts[MISSING + 2 * rankers :], (rankers, rankers)).tolist(),
            "first": _balance(counts[FIRST], self.balances[0]),
            "exposure": _balance(counts[EXPOSURE], self.balances[1]),
        }


def _balance(impressions: int, sums: Floats) -> dict[str, Any]:
    upper = np.triu(sums[2:])
    return {
        "impressions": impressions,
        "observed": sums[0].tolist(),
        "expected": sums[1].tolist(),
        "products": (upper + np.triu(upper, 1).T).tolist(),
    }


def balance_of(method: Method) -> tuple[int, float, int]:
    """Return what is known of a method's balance, pm's tau, and 1 if copies of a ranker can mislead it."""
    kind, tau = _balance_of(method)
    return kind, tau, int(not method.clone_proof)


def _balance_of(method: Method) -> tuple[int, float]:
    drawn_by = method.draw_kernel
    if drawn_by is draw_teams and method.keeps_note:
        return TEAMS, 0.0
    if drawn_by is draw_choices:
        return CHOICES, 0.0
    if drawn_by is draw_rounds:
        return ROUNDS, 0.0
    if drawn_by in (draw_teams, draw_balanced):
        return TOPS, 0.0
    tau = getattr(method, "tau", None)
    if drawn_by is draw_ranker_and_document and tau is not None:
        return CHANCES, float(tau)
    return UNKNOWN, 0.0


@kernel
def examine_row(known, drawn, m, visible, k, sizes, notes, counts, balances, room, left):  # type: ignore[no-untyped-def]  # fmt: skip
    """Count one impression, checked before; known: see `balance_of`. room: float (2, R); left: float (m + 2,).

    drawn: int32 (m, R), its ranks, where the method keeps them; notes: int32, the same.
    """
    rankers = len(sizes)
    kind = known[0]
    counts[EXAMINED] += 1
    alike, absent = True, False
    for x in range(m):
        for r in range(rankers):
            alike = alike and drawn[x, r] == drawn[x, 0]
            absent = absent or drawn[x, r] == ABSENT
    if m == 0 and len(notes):
        for x in range(len(notes)):
            alike = alike and notes[x] < 0
    elif m == 0:
        alike = visible == 0
    counts[NO_PREFERENCE] += alike
    counts[DIFFERENT] += absent
    nothing = False
    for r in range(rankers):
        if sizes[r] == 0:
            nothing = True
            counts[MISSING + r] += 1
    counts[FALLBACKS] += nothing
    count_short(drawn, m, k, sizes, counts)
    if known[2]:
        count_same(drawn, m, rankers, counts)
    fits = visible > 0
    for r in range(rankers):
        fits = fits and sizes[r] >= visible
    own, expected = room[0], room[1]
    if kind == TEAMS:
        own[:] = 0.0
        first = -1
        for x in range(len(notes)):
            if 0 <= notes[x] < rankers:
                own[notes[x]] += 1.0
                first = notes[x] if first < 0 else first
        if fits:
            expected[:] = own.sum() / rankers
            add_balance(own, expected, balances[1])
            counts[EXPOSURE] += 1
        if first >= 0 and not nothing:
            own[:] = 0.0
            own[first] = 1.0
            expected[:] = 1.0 / rankers
            add_balance(own, expected, balances[0])
            counts[FIRST] += 1
    elif kind == ROUNDS and m > 0 and not nothing:
        for every in range(1 + fits):
            own[:] = 0.0
            expected[:] = 0.0
            if add_leads(drawn[:m], notes, every, own, expected):
                add_balance(own, expected, balances[every])
                counts[FIRST + every] += 1
    elif kind != UNKNOWN and m > 0:
        if not nothing and expect_first(known, drawn[0], sizes, notes, own, expected):
            add_balance(own, expected, balances[0])
            counts[FIRST] += 1
        if kind == CHOICES and fits and expect_exposure(drawn, min(visible, m), notes, own, expected, left):
            add_balance(own, expected, balances[1])
            counts[EXPOSURE] += 1


@kernel
def count_short(drawn, m, k, sizes, counts):  # type: ignore[no-untyped-def]
    """Count rankers that returned fewer than k + 1 documents, and lack some that others returned."""
    rankers = len(sizes)
    largest = 0
    for r in range(rankers):
        largest = max(largest, sizes[r])
    some = False
    for r in range(rankers):
        if not 0 < sizes[r] <= k:
            continue
        lacks = m == 0 and sizes[r] < largest
        for x in range(m):
            lacks = lacks or drawn[x, r] == ABSENT
        if lacks:
            some = True
            counts[MISSING + rankers + r] += 1
    if some:
        counts[SHORT_LISTS] += 1
        counts[NEEDED] = max(counts[NEEDED], k + 1)


@kernel
def count_same(drawn, m, rankers, counts):  # type: ignore[no-untyped-def]
    """Count pairs of rankers that rank alike all that was drawn."""
    for n in range(rankers if m else 0):
        for other in range(rankers):
            same = True
            for x in range(m):
                same = same and drawn[x, n] == drawn[x, other]
            counts[MISSING + 2 * rankers + n * rankers + other] += same


@kernel
def expect_first(known, ranks, sizes, notes, own, expected):  # type: ignore[no-untyped-def]
    """Set whose document stands first, and what is expected; return whether that is known."""
    kind, tau = known[0], known[1]
    rankers = len(ranks)
    total = 0.0
    for r in range(rankers):
        own[r] = ranks[r] == 1
        if kind == CHANCES:
            own[r] = 0.0 if ranks[r] == ABSENT else ranks[r] ** -tau / sum_of_chances(sizes[r], tau)
        total += own[r]
    if kind == CHOICES:
        expected[:] = 1.0 / max(notes[0], 1)
        return notes[0] > 0
    if total == 0.0:
        return False
    for r in range(rankers):
        own[r] /= total
    expected[:] = 1.0 / rankers
    return True


@kernel
def sum_of_chances(size, tau):  # type: ignore[no-untyped-def]
    """Return the sum of rank^-tau over a ranking, to ten digits."""
    total = 0.0
    for rank in range(1, min(size, NEAR) + 1):
        total += rank**-tau
    if size > NEAR:
        last, near = float(size), float(NEAR)
        if tau == 1.0:
            total += np.log(last / near)
        else:
            total += (last ** (1.0 - tau) - near ** (1.0 - tau)) / (1.0 - tau)
        total += (last**-tau - near**-tau) / 2.0 - tau * (last ** (-tau - 1.0) - near ** (-tau - 1.0)) / 12.0
    return total


@kernel
def expect_exposure(drawn, visible, notes, own, expected, left):  # type: ignore[no-untyped-def]
    """Set how many shown documents are in each ranker's top, and what is expected of uniform choices.

    At rank x a ranker has x documents in its top, less those of them that were drawn before, and each is
    chosen with 1 / notes[x - 1]. So a document of rank q, drawn at rank y, takes from what is expected
    these shares at all ranks from max(q, y + 1) on: left[x], their sum from x on, x from 1. Return False
    where a number of choices makes no sense.
    """
    rankers = drawn.shape[1]
    left[visible + 1] = 0.0
    total = 0.0
    for x in range(visible, 0, -1):
        if notes[x - 1] <= 0:
            return False
        left[x] = left[x + 1] + 1.0 / notes[x - 1]
        total += x / notes[x - 1]
    own[:] = 0.0
    expected[:] = total
    for y in range(1, visible + 1):
        for r in range(rankers):
            rank = drawn[y - 1, r]
            own[r] += rank <= y
            expected[r] -= left[min(max(rank, y + 1), visible + 1)]
    return True


@kernel
def add_balance(own, expected, sums):  # type: ignore[no-untyped-def]
    """Add what was observed and expected, and the products of the differences."""
    rankers = len(own)
    for n in range(rankers):
        sums[0, n] += own[n]
        sums[1, n] += expected[n]
        difference = own[n] - expected[n]
        for r in range(n, rankers):
            sums[2 + n, r] += difference * (own[r] - expected[r])
