"""Sums by unit: what the impressions of each unit add up to, by action, and the tallies made of them.

A unit costs its id, 8 bytes of sums per ranker and action, and about 30 more.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from multileave.kernels import kernel
from multileave.outcome import TOLERANCE, Floats
from multileave.replay.inferring.credit import Credits
from multileave.replay.inferring.rates import RatesByUnit
from multileave.replay.inferring.unit_ids import UnitIds, with_room
from multileave.stats import Tally
from multileave.stats.tally.few_sums import MOST
from multileave.stats.tally.health_counts import HealthCounts
from multileave.stats.tally.units import PackedIds

Array: TypeAlias = "np.ndarray[Any, Any]"


class UnitSums:
    """Sums of the impressions of each unit, and of those without a unit together.

    by_pair: add up P preferences by pair for each impression and action, not R credits.
    valued: the bits of actions that add up values.
    cap: units with more impressions are left out of the tallies; squared preferences are then kept by unit.

    For each unit and action there are its clicks, then its credits or preferences, then its squares if they are kept.
    """

    def __init__(
        self, rankers: tuple[str, ...], actions: int, *, by_pair: bool, cap: int | None, valued: int = 0
    ) -> None:
        self.rankers, self.actions, self.by_pair, self.cap = rankers, actions, by_pair, cap
        self.pairs = len(rankers) * (len(rankers) - 1) // 2
        self._end = 1 + (self.pairs if by_pair else len(rankers))
        self._width = self._end + (0 if cap is None else self.pairs)
        self._squares = np.zeros((actions, self.pairs))
        self._rates = RatesByUnit(len(rankers), actions, valued)
        self._forget()
        # Impressions without a unit: sums, squares, wins, losses and absolute preferences by pair.
        self._singles = np.zeros((5, actions, self.pairs))
        self._single_few = np.zeros((actions, self.pairs, MOST))  # the first preferences other than zero
        self._single_clicks = np.zeros(actions, dtype=np.int64)
        self._single_impressions = 0
        # All impressions, with a unit or without: how many, and how many with clicks.
        self._impressions = 0
        self._clicked = np.zeros(actions, dtype=np.int64)
        self._health = HealthCounts(len(rankers))

    def add(self, units: pa.StringArray, credits: Credits) -> None:
        """Add rows that all have reason 0; units: their ids, null for none."""
        self._impressions += len(units)
        self._clicked += np.count_nonzero(credits.clicks, axis=0)
        self._health.merge(credits.health)
        self._single_impressions += units.null_count
        if len(units):
            self._waiting.append((units, credits))
            self._waiting_rows += len(units)
        if self._ids.are_worth(self._waiting_rows):
            self._add_waiting()

    def add_units(self, units: pa.StringArray, counts: Array, sums: Floats) -> None:
        """Add what `take_units` returned, here or elsewhere; rows of one unit are adjacent."""
        [numbers] = self._number([units])
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        places = numbers[starts]
        self._counts[places] += np.add.reduceat(counts, starts)
        added = np.add.reduceat(sums.reshape(len(units), -1), starts)
        self._sums[places] += added[:, : -self._rates.width].reshape(-1, *self._sums.shape[1:])
        self._rates.rows[places] += added[:, -self._rates.width :]

    def take_units(self) -> tuple[pa.StringArray, Array, Floats]:
        """Return the ids, impressions and sums of all units and forget them; what is not kept by unit stays."""
        ids, counts, sums = self._units()
        taken = np.hstack([sums.reshape(len(ids), self.actions * self._width), self._rates.rows[: len(ids)]])
        self._forget()
        return ids, counts, taken

    @property
    def size(self) -> int:
        """Bytes that the sums take, at most."""
        return 8 * (len(self._ids) + self._waiting_rows) * (1 + self.actions * self._width + self._rates.width)

    def tally(self, action: int) -> tuple[Tally, int]:
        """Return the tally of one action, and how many units were left out for more impressions than the cap.

        Health is not kept by unit, so it is that of all units.
        """
        ids, counts, sums = self._units()
        # The tally owns its arrays; of the sums, no other action has the same columns.
        counts, sums, squares = counts.copy(), sums[:, action], self._squares[action]
        units: Sequence[str] | PackedIds = _packed(ids)
        kept: Any = slice(len(ids))
        if self.cap is not None:
            kept = np.flatnonzero(counts <= self.cap)
            units, counts, sums = ids.take(pa.array(kept)).to_pylist(), counts[kept], sums[kept]
            squares = sums[:, self._end :].sum(axis=0)
        tally = Tally.from_sums(
            self.rankers,
            units,
            counts,
            sums[:, 1 : self._end],
            squares,
            sums_of="pairs" if self.by_pair else "credits",
            clicks=sums[:, 0].astype(np.int64),
            rates=self._rates.by_unit(action, kept),
        )
        return tally.merge(self._singles_tally(action)), len(ids) - len(units)

    def _singles_tally(self, action: int) -> Tally:
        """Return the tally of impressions without a unit, with the health and the other sums of all impressions."""
        sums, squares, wins, losses, absolute = self._singles[:, action]
        data = Tally(self.rankers).to_dict()
        data["single"].update(
            impressions=self._single_impressions,
            clicks=int(self._single_clicks[action]),
            sums=sums.tolist(),
            squares=squares.tolist(),
            wins=wins.astype(np.int64).tolist(),
            losses=losses.astype(np.int64).tolist(),
            absolute=absolute.tolist(),
            few=[
                [[1, one] for one in values[: int(count)].tolist()] if count <= MOST else None
                for values, count in zip(self._single_few[action], wins + losses, strict=True)
            ],
        )
        data["rates"] = self._rates.others(action).to_dict(0)
        tally = Tally.from_dict(data)
        tally.evidence.merge(self._health)
        tally.evidence.clicks_known = self._impressions
        tally.evidence.without_clicks = self._impressions - int(self._clicked[action])
        return tally

    def _units(self) -> tuple[pa.StringArray, Array, Floats]:
        self._add_waiting()
        return self._ids.known, self._counts[: len(self._ids)], self._sums[: len(self._ids)]

    def _forget(self) -> None:
        self._ids = UnitIds()
        self._waiting: list[tuple[pa.StringArray, Credits]] = []
        self._waiting_rows = 0
        self._counts = np.zeros(0, dtype=np.int64)
        self._sums = np.zeros((0, self.actions, self._width))
        self._rates.rows = np.zeros((0, self._rates.width))

    def _add_waiting(self) -> None:
        waiting, self._waiting, self._waiting_rows = self._waiting, [], 0
        rows = self._number([units for units, _ in waiting])
        for numbers, (_, credits) in zip(rows, waiting, strict=True):
            add_rows(
                numbers, credits.values, credits.clicks, self._counts, self._sums, self._squares,
                self._singles, self._single_few, self._single_clicks, np.empty(self.pairs), self.by_pair,
                self.cap is not None,
            )  # fmt: skip
            if credits.rates is not None:
                self._rates.add(numbers, credits.rates)

    def _number(self, arrays: Sequence[pa.StringArray]) -> list[Array]:
        """Return the number of each id, -1 for null, and make room for the sums of new ones."""
        numbers = self._ids.number(arrays)
        self._counts, self._sums, self._rates.rows = (
            with_room(array, len(self._ids)) for array in (self._counts, self._sums, self._rates.rows)
        )
        return numbers


def _packed(ids: pa.StringArray) -> PackedIds:
    _, ends, text = ids.buffers()
    return PackedIds(
        np.frombuffer(ends, dtype=np.int64)[: len(ids) + 1] if len(ids) else np.zeros(1, dtype=np.int64),
        np.frombuffer(text or b"", dtype=np.uint8),
    )


@kernel
def add_rows(rows, values, clicked, counts, sums, squares, singles, few, single_clicks, pairs, by_pair, by_unit):  # type: ignore[no-untyped-def]  # fmt: skip
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
                    known = int(singles[2, action, pair] + singles[3, action, pair])
                    if pairs[pair] != 0.0 and known < MOST:
                        few[action, pair, known] = pairs[pair]
                    singles[0, action, pair] += pairs[pair]
                    singles[1, action, pair] += pairs[pair] * pairs[pair]
                    singles[2, action, pair] += pairs[pair] > 0.0
                    singles[3, action, pair] += pairs[pair] < 0.0
                    singles[4, action, pair] += abs(pairs[pair])
                continue
            sums[row, action, 0] += clicked[x, action]
            for place in range(len(given)):
                sums[row, action, 1 + place] += given[place]
            for pair in range(len(pairs)):
                squared = pairs[pair] * pairs[pair]
                if by_unit:
                    sums[row, action, 1 + len(given) + pair] += squared
                else:
                    squares[action, pair] += squared
