"""Health of logged impressions: `HealthCounts`, added up in a compiled loop.

`examine_row` is to a row what `HealthCounts.add` is to an `Impression`; the tests compare both.
"""

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from multileave.impression import ABSENT
from multileave.kernels import kernel
from multileave.replay.inferring.checking import CheckedRows
from multileave.replay.inferring.events import strings
from multileave.replay.reading.comparisons import Header
from multileave.stats.balance import group_count
from multileave.stats.tally.health_counts import HealthCounts

Array: TypeAlias = "np.ndarray[Any, Any]"

# Places of the counts; from MISSING on there are R of missing rankers, R of short lists, and R * R of same pages. The
# impressions in the balance of exposure follow those of FIRST.
EXAMINED, NO_PREFERENCE, DIFFERENT, FALLBACKS, SHORT_LISTS, NEEDED, FIRST, _, MISSING = range(9)


def _crc_table() -> Array:
    """Return the remainder of each byte for the reversed polynomial of CRC-32, as in zlib."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(0xEDB88320), table >> 1)
    return table


CRC = _crc_table()


class Examined:
    """The health of the rows that a kernel examines.

    counts: int64, which the arrays of a `HealthCounts` are views of. balances: (2, R + 2, R), of first places and of
        exposure: observed, expected, and the upper triangle of the products; groups: (2, G, 1 + R), see `Balance`.
    """

    def __init__(self, rankers: int) -> None:
        self.counts = np.zeros(MISSING + 2 * rankers + rankers * rankers, dtype=np.int64)
        self.balances = np.zeros((2, rankers + 2, rankers))
        self.groups = np.zeros((2, group_count(rankers), 1 + rankers))
        self._health = HealthCounts(rankers)
        self._health.missing, self._health.short = self.counts[MISSING:][: 2 * rankers].reshape(2, rankers)
        self._health.same_pages = self.counts[MISSING + 2 * rankers :].reshape(rankers, rankers)

    def health(self) -> HealthCounts:
        """Return the health of all rows so far."""
        found = self._health
        found.examined, found.no_preference, found.different_documents, found.fallbacks = self.counts[:4].tolist()
        found.short_lists, found.needed = self.counts[SHORT_LISTS:FIRST].tolist()
        found.first.impressions, found.exposure.impressions = self.counts[FIRST:MISSING].tolist()
        for balance, sums, groups in zip((found.first, found.exposure), self.balances, self.groups, strict=True):
            balance.observed, balance.expected, balance.groups = sums[0], sums[1], groups
            balance.products = sums[2:] + np.triu(sums[2:], 1).T
        return found


def examine_batch(checked: CheckedRows, header: Header, units: pa.StringArray, *, whole_pages: bool) -> HealthCounts:
    """Return the health of the valid rows; that of none, if their pages are not known as a whole."""
    method, rankers = header.method, len(header.rankers)
    examined = Examined(rankers)
    if whole_pages:
        examine_rows.bind(examine_row=examine_row.bind(balance=method.balance_kernel))(
            checked.pages,
            checked.k,
            checked.lengths,
            checked.note,
            groups_of(units, rankers),
            int(not method.clone_proof),
            method.parameters,
            examined.counts,
            examined.balances,
            examined.groups,
            np.empty((2, rankers)),
            np.empty(checked.most + 2),
        )
    return examined.health()


@kernel
def examine_rows(pages, k, lengths, note, unit_groups, clones, params, counts, balances, groups, room, left):  # type: ignore[no-untyped-def]  # fmt: skip
    """Examine all valid rows; see `examine_row`. pages: see `CheckedRows.pages`."""
    rows, starts, ranks, _, visible, reasons = pages
    for place in range(len(rows)):
        if reasons[place]:
            continue
        row = rows[place]
        drawn = ranks[starts[place] : starts[place + 1]]
        sizes = lengths[1][lengths[0][row] : lengths[0][row + 1]]
        notes = note[1][note[0][row] : note[0][row + 1]]
        examine_row(
            unit_groups[row], clones, drawn, len(drawn), visible[place], k[row], sizes, notes, params,
            counts, balances, groups, room, left,
        )  # fmt: skip


def balance(*arguments: Any) -> int:
    """Stand for a method's balance kernel in `examine_row`."""
    return 0


@kernel
def examine_row(group, clones, drawn, m, visible, k, sizes, notes, params, counts, balances, groups, room, left):  # type: ignore[no-untyped-def]  # fmt: skip
    """Count one impression, checked before. room: float (2, R); left: float (m + 2,).

    group: of its unit, -1 for none.

    clones: whether copies of a ranker can mislead the method, so that equal pages are counted.

    drawn: int32 (m, R), its ranks, where the method keeps them; notes: int32, the same. counts, balances, groups:
        `Examined`.
    """
    rankers = len(sizes)
    counts[EXAMINED] += 1
    alike, absent = True, False
    for x in range(m):
        for r in range(rankers):
            alike &= drawn[x, r] == drawn[x, 0]
            absent |= drawn[x, r] == ABSENT
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
            add_balance(own, expected, balances[every], groups[every], group)
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
def add_balance(own, expected, sums, groups, group):  # type: ignore[no-untyped-def]
    """Add what was observed and expected, and the differences to their group, or else the products of differences.

    Of the products only the upper triangle.
    """
    rankers = len(own)
    if group >= 0:
        groups[group, 0] += 1.0
    for n in range(rankers):
        sums[0, n] += own[n]
        sums[1, n] += expected[n]
        difference = own[n] - expected[n]
        if group >= 0:
            groups[group, 1 + n] += difference
            continue
        for r in range(n, rankers):
            sums[2 + n, r] += difference * (own[r] - expected[r])


def groups_of(units: pa.StringArray, rankers: int) -> Array:
    """Return the group of each unit, int32 (n,), as `balance.unit_group` does; -1 for none."""
    found = np.empty(len(units), dtype=np.int32)
    hash_units(strings(units), group_count(rankers), CRC, found)
    if units.null_count:
        found[units.is_null().to_numpy(zero_copy_only=False)] = -1
    return found


@kernel
def hash_units(units, groups, table, found):  # type: ignore[no-untyped-def]
    """Fill in the CRC-32 of strings, modulo the number of groups. table: the CRC-32 of single bytes."""
    starts, text = units
    ones, byte, eight = np.uint32(0xFFFFFFFF), np.uint32(0xFF), np.uint32(8)
    for x in range(len(found)):
        crc = ones
        for at in range(starts[x], starts[x + 1]):
            crc = table[(crc ^ text[at]) & byte] ^ (crc >> eight)
        found[x] = (crc ^ ones) % np.uint32(groups)
