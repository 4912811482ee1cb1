"""Health of logged impressions: what `HealthCounts` holds, added up in a compiled loop.

`examine_row` is to a row what `HealthCounts.add` is to an `Impression`; the tests compare both.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from multileave.impression import ABSENT
from multileave.kernels import kernel
from multileave.outcome import Floats

Array: TypeAlias = "np.ndarray[Any, Any]"

# Places in `HealthSums.counts`; from MISSING on there are R counts, then R of SHORT lists, then R * R of same pages.
EXAMINED, NO_PREFERENCE, DIFFERENT, FALLBACKS, FIRST, EXPOSURE, SHORT_LISTS, NEEDED, MISSING = range(9)


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


def balance(*arguments: Any) -> int:
    """Stand for a method's balance kernel in `examine_row`."""
    return 0


@kernel
def examine_row(clones, drawn, m, visible, k, sizes, notes, params, counts, balances, room, left):  # type: ignore[no-untyped-def]  # fmt: skip
    """Count one impression, checked before. room: float (2, R); left: float (m + 2,).

    clones: whether copies of a ranker can mislead the method, so that equal pages are counted.

    drawn: int32 (m, R), its ranks, where the method keeps them; notes: int32, the same.
    """
    rankers = len(sizes)
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
    if clones:
        count_same(drawn, m, rankers, counts)
    fits = visible > 0
    for r in range(rankers):
        fits = fits and sizes[r] >= visible
    own, expected = room[0], room[1]
    for every in range(2):
        if not (fits if every else not nothing):
            continue
        own[:] = 0.0
        expected[:] = 0.0
        if balance(drawn[:m], sizes, notes, visible, every, params, own, expected, left):
            add_balance(own, expected, balances[every])
            counts[FIRST + every] += 1


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
def add_balance(own, expected, sums):  # type: ignore[no-untyped-def]
    """Add what was observed and expected, and the products of the differences."""
    rankers = len(own)
    for n in range(rankers):
        sums[0, n] += own[n]
        sums[1, n] += expected[n]
        difference = own[n] - expected[n]
        for r in range(n, rankers):
            sums[2 + n, r] += difference * (own[r] - expected[r])
