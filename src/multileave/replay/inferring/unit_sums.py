"""Sums by unit in flat memory: ids in one arena of bytes, found by a compiled hash table.

A unit costs its id, 8 bytes of sums per ranker and action, and about 40 more.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from multileave.kernels import kernel
from multileave.outcome import TOLERANCE, Floats
from multileave.replay.inferring.credit import Credits, _strings
from multileave.replay.inferring.health_counts import Examined
from multileave.stats.tally.units import PackedIds

__all__ = ["UnitRows", "UnitSums"]

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, eq=False)
class UnitRows:
    """What the impressions of some units add up to: counts (U,), clicks (U, A), sums (U, A, R) or (U, A, P)."""

    counts: Array
    clicks: Array
    sums: Floats
    squares: Floats  # (U, A, P), or of no unit where they are not kept by unit


class UnitSums:
    """What the impressions of each unit add up to, by action; and of those without a unit, together.

    width: numbers of an impression and action: R credits, or P preferences by pair.
    by_unit: keep squared preferences by unit, so that units can be left out later.
    """

    def __init__(self, rankers: int, actions: int, *, by_pair: bool, by_unit: bool) -> None:
        self.rankers, self.by_pair, self.by_unit = rankers, by_pair, by_unit
        self.pairs = rankers * (rankers - 1) // 2
        self.actions, self.width = actions, self.pairs if by_pair else rankers
        self._squares = np.zeros((0 if by_unit else 1, actions, self.pairs))
        self._forget()
        # Of impressions without a unit: sums, squares, wins and losses by pair.
        self.singles = np.zeros((4, actions, self.pairs))
        self.single_clicks = np.zeros(actions, dtype=np.int64)
        self.single_impressions = 0
        # Of all impressions, with a unit or without: how many, and how many with clicks.
        self.impressions = 0
        self.clicked = np.zeros(actions, dtype=np.int64)
        self.examined = Examined.nothing(rankers)

    def add(self, units: pa.StringArray, credits: Credits) -> None:
        """Add rows that all have reason 0; units: their ids, null for none."""
        rows = self._rows(units)
        self.impressions += len(rows)
        self.clicked += np.count_nonzero(credits.clicks, axis=0)
        self.examined.add(credits.examined)
        self.single_impressions += int((rows < 0).sum())
        add_rows(
            rows, credits.values, credits.clicks, self._sums, self._counts, self._clicks, self._squares,
            self.singles, self.single_clicks, np.empty(self.pairs), self.by_pair, self.by_unit,
        )  # fmt: skip

    def add_units(self, units: pa.StringArray, rows: "UnitRows") -> None:
        """Add what `take_units` returned, here or elsewhere; rows of one unit follow each other."""
        numbers = self._rows(units)
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        places = numbers[starts]
        self._counts[places] += np.add.reduceat(rows.counts, starts)
        self._clicks[places] += np.add.reduceat(rows.clicks, starts)
        self._sums[places] += np.add.reduceat(rows.sums, starts)
        if self.by_unit:
            self._squares[places] += np.add.reduceat(rows.squares, starts)

    def take_units(self) -> tuple[list[str], "UnitRows"]:
        """Return all units and forget them; what is not by unit stays."""
        squares = self._squares[: self.units] if self.by_unit else self._squares[:0]
        taken = self.ids(), UnitRows(self.counts, self.clicks, self.sums, squares)
        self._forget()
        return taken

    @property
    def size(self) -> int:
        """Bytes of the units' sums."""
        return 8 * self.units * (1 + self.actions * (1 + self.width + (self.pairs if self.by_unit else 0)))

    def ids(self) -> list[str]:
        """Return the units' ids, in the order of the sums."""
        return list(self.packed_ids())

    def packed_ids(self) -> PackedIds:
        """Return the same in the room that they take here."""
        ends = self._ends[: self.units + 1]
        return PackedIds(ends, self._ids[: int(ends[-1])])

    @property
    def counts(self) -> Array:
        """Impressions, (U,)."""
        return self._counts[: self.units]

    @property
    def clicks(self) -> Array:
        """Clicked documents, (U, A)."""
        return self._clicks[: self.units]

    @property
    def sums(self) -> Floats:
        """Sums, (U, A, R) or (U, A, P)."""
        return self._sums[: self.units]

    def squares(self, kept: Array) -> Floats:
        """Return the sum of squared preferences of some units, (A, P); all units unless they are kept by unit."""
        found: Floats = self._squares[: self.units][kept].sum(axis=0) if self.by_unit else self._squares[0]
        return found

    def _forget(self) -> None:
        self.units = 0
        self._slots = np.zeros(64, dtype=np.int32)
        self._ends = np.zeros(1, dtype=np.int64)
        self._ids = np.zeros(0, dtype=np.uint8)
        self._counts = np.zeros(0, dtype=np.int64)
        self._clicks = np.zeros((0, self.actions), dtype=np.int64)
        self._sums = np.zeros((0, self.actions, self.width))
        if self.by_unit:
            self._squares = np.zeros((0, self.actions, self.pairs))

    def _rows(self, units: pa.StringArray) -> Array:
        offsets, data = _strings(units)
        self._grow(len(units), int(offsets[-1] - offsets[0]))
        rows = np.full(len(units), -1, dtype=np.int64)
        valid = np.ones(len(units), dtype=bool)
        if units.null_count:
            valid = units.is_valid().to_numpy(zero_copy_only=False)
        self.units = int(find_units(offsets, data, valid, rows, self._slots, self._ends, self._ids, self.units))
        return rows

    def _grow(self, units: int, size: int) -> None:
        """Make room for so many more units with so many bytes of ids."""
        needed = self.units + units
        if 2 * needed > len(self._slots):
            self._slots = np.zeros(1 << int(2 * needed).bit_length(), dtype=np.int32)
            fill_slots(self._slots, self._ends, self._ids, self.units)
        self._ids = _room(self._ids, int(self._ends[self.units]) + size)
        self._ends = _room(self._ends, needed + 1)
        self._counts = _room(self._counts, needed)
        self._clicks = _room(self._clicks, needed)
        self._sums = _room(self._sums, needed)
        if self.by_unit:
            self._squares = _room(self._squares, needed)


def _room(array: Array, size: int) -> Array:
    if len(array) >= size:
        return array
    # Pages of zeros that are not touched cost nothing.
    grown = np.zeros((size + size // 4, *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown


@kernel
def hash_bytes(data, start, end):  # type: ignore[no-untyped-def]
    """Return FNV-1a of some bytes, its bits mixed as SplitMix64 does."""
    value = np.uint64(0xCBF29CE484222325)
    for x in range(start, end):
        value = (value ^ np.uint64(data[x])) * np.uint64(0x100000001B3)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return value ^ (value >> np.uint64(31))


@kernel
def fill_slots(slots, ends, ids, units):  # type: ignore[no-untyped-def]
    """Enter all units into an empty table."""
    last = np.uint64(len(slots) - 1)
    for unit in range(units):
        slot = hash_bytes(ids, ends[unit], ends[unit + 1]) & last
        while slots[slot]:
            slot = (slot + np.uint64(1)) & last
        slots[slot] = unit + 1


@kernel
def find_units(offsets, data, valid, rows, slots, ends, ids, units):  # type: ignore[no-untyped-def]
    """Set rows to the number of each id, new ones where it was not seen; return how many units there are."""
    last = np.uint64(len(slots) - 1)
    for x in range(len(rows)):
        if not valid[x]:
            continue
        start, size = offsets[x], offsets[x + 1] - offsets[x]
        slot = hash_bytes(data, start, start + size) & last
        while slots[slot]:
            unit = slots[slot] - 1
            same = ends[unit + 1] - ends[unit] == size
            at = 0
            while same and at < size:
                same = ids[ends[unit] + at] == data[start + at]
                at += 1
            if same:
                rows[x] = unit
                break
            slot = (slot + np.uint64(1)) & last
        if rows[x] < 0:
            for at in range(size):
                ids[ends[units] + at] = data[start + at]
            ends[units + 1] = ends[units] + size
            rows[x] = units
            units += 1
            slots[slot] = units
    return units


@kernel
def add_rows(rows, values, clicked, sums, counts, clicks, squares, singles, single_clicks, pairs, by_pair, by_unit):  # type: ignore[no-untyped-def]  # fmt: skip
    """Add impressions to the sums of their units, or to `singles` where the row is -1."""
    rankers = values.shape[2]
    for x in range(len(rows)):
        row = rows[x]
        if row >= 0:
            counts[row] += 1
        for action in range(values.shape[1]):
            if clicked[x, action] == 0:
                continue
            given = values[x, action]
            if by_pair:
                pairs[:] = given
            else:
                largest = 0.0
                for n in range(rankers):
                    largest = max(largest, abs(given[n]))
                pair = 0
                for n in range(rankers):
                    for m in range(n + 1, rankers):
                        difference = given[n] - given[m]
                        pairs[pair] = difference if abs(difference) > TOLERANCE * largest else 0.0
                        pair += 1
            if row < 0:
                single_clicks[action] += clicked[x, action]
                for pair in range(len(pairs)):
                    singles[0, action, pair] += pairs[pair]
                    singles[1, action, pair] += pairs[pair] * pairs[pair]
                    singles[2, action, pair] += pairs[pair] > 0.0
                    singles[3, action, pair] += pairs[pair] < 0.0
                continue
            clicks[row, action] += clicked[x, action]
            for place in range(len(given)):
                sums[row, action, place] += given[place]
            place = row if by_unit else 0
            for pair in range(len(pairs)):
                squares[place, action, pair] += pairs[pair] * pairs[pair]
