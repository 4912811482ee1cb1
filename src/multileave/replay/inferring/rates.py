"""What rows of a log say each ranker would earn alone, and the sums of that by unit.

`methods._alone` says what it is; here are a compiled loop over the rows of a batch, and the sums of units.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from multileave.kernels import kernel
from multileave.methods._alone import add_earned, fill_surplus
from multileave.methods.base import Method
from multileave.outcome import Floats
from multileave.replay.inferring.checking import CheckedRows
from multileave.replay.inferring.events import Actions, Array, Events, mark_clicks
from multileave.replay.reading.comparisons import Header
from multileave.stats.rates.unit_rates import UnitRates


def knows_rates(method: Method, actions: Actions) -> bool:
    """Return whether rates are wanted, and the method estimates them."""
    return actions.rates and actions.whole_pages and method.estimates_rates


@dataclass(frozen=True, eq=False)
class BatchRates:
    """What n rows say each of R rankers earned alone, by A actions.

    rows: float (n, A R + R + 1), what was earned by action, the surplus, and 1 if it is known, else 0.
    pages: float (R,), and squares: float (A, R, R), sums over all rows, as in `RateSums`.
    """

    rows: Floats
    pages: Floats
    squares: Floats

    @classmethod
    def of(cls, rows: int, actions: int, rankers: int) -> "BatchRates":
        """Return empty ones."""
        size = (actions + 1) * rankers + 1
        return cls(np.zeros((rows, size)), np.zeros(rankers), np.zeros((actions, rankers, rankers)))

    def some(self, rows: Array) -> "BatchRates":
        """Return those of some rows; sums over all rows stay."""
        return replace(self, rows=self.rows[rows])


def rate_batch(
    checked: CheckedRows, header: Header, events: Events, actions: Actions, clicks: Array
) -> BatchRates | None:
    """Return what the valid rows say; None if rates are not wanted or known. clicks: int32 (n, A), how many."""
    method, rankers, number = header.method, len(header.rankers), len(actions.names)
    if not knows_rates(method, actions):
        return None
    found = BatchRates.of(len(checked.rows), number, rankers)
    rate_rows.bind(fill_surplus=fill_surplus.bind(propensity=method.propensity_kernel))(
        checked.pages,
        checked.k,
        checked.lengths,
        checked.note,
        checked.pinned,
        checked.stat,
        events.arrays,
        clicks,
        method.parameters,
        (found.rows, found.pages, found.squares),
        np.empty((2, rankers)),
        np.empty(2 * checked.most + 2),
        np.empty(max(checked.most, 1), dtype=np.uint8),
        (np.uint32(actions.valued), events.values, np.empty(max(checked.most, 1))),
    )
    return found


@kernel
def fill_worth(events, values, row, bit, pinned, page, worth):  # type: ignore[no-untyped-def]
    """Fill in the largest value of each drawn document's events of an action, 0 if none has one. bit: of the action."""
    offsets, positions, masks = events[0], events[1], events[2]
    worth[:] = np.nan
    for event in range(offsets[row], offsets[row + 1]):
        position = positions[event]
        if masks[event] & bit == 0 or position < 0 or position >= page or np.isnan(values[event]):
            continue
        place = position
        for x in range(len(pinned)):
            if pinned[x] == position:
                place = -1
                break
            place -= pinned[x] < position
        if place >= 0 and not worth[place] >= values[event]:
            worth[place] = values[event]
    for x in range(len(worth)):
        if np.isnan(worth[x]):
            worth[x] = 0.0


@kernel
def rate_rows(pages, k, lengths, note, pins, stat, events, clicks, params, found, page_room, chance_room, clicked, valued):  # type: ignore[no-untyped-def]  # noqa: E501  # fmt: skip
    """Fill in what all valid rows say.

    pages: see `CheckedRows.pages`. found: see `BatchRates`. valued: the bits of actions that add up values, the values
    of all events, and scratch for those of a page. The rest is scratch.
    """
    adds_values, values, worth = valued
    rows, starts, ranks, drawn, visible, reasons = pages
    said, totals, squares = found
    actions, rankers = clicks.shape[1], ranks.shape[1]
    for place in range(len(rows)):
        if reasons[place]:
            continue
        row, shown, earned = rows[place], visible[place], said[place]
        own = ranks[starts[place] : starts[place + 1]]
        chances = chance_room[:shown]
        known = fill_surplus(
            own, lengths[1][lengths[0][row] : lengths[0][row + 1]], note[1][note[0][row] : note[0][row + 1]],
            stat[1][stat[0][row] : stat[0][row + 1]], shown, k[row], params,
            chances, page_room[0], page_room[1], chance_room[shown:],
        )  # fmt: skip
        if not known:
            continue
        fixed = pins[1][pins[0][row] : pins[0][row + 1]]
        for action in range(actions):
            if clicks[place, action]:
                bit, sums = np.uint32(1) << np.uint32(action), earned[action * rankers : (action + 1) * rankers]
                if adds_values & bit:
                    fill_worth(events, values, row, bit, fixed, shown + len(fixed), worth[: drawn[place]])
                    add_earned(own, shown, chances, worth, sums)
                else:
                    mark_clicks(events, row, bit, fixed, shown + len(fixed), clicked[: drawn[place]])
                    add_earned(own, shown, chances, clicked, sums)
        add_rates(earned, page_room, totals, squares)


@kernel
def add_rates(row, page_room, pages, squares):  # type: ignore[no-untyped-def]
    """Complete a row of `BatchRates` whose earnings are filled in, and add it to the sums."""
    actions, rankers = squares.shape[0], squares.shape[1]
    row[-1] = 1.0
    for r in range(rankers):
        row[actions * rankers + r] = page_room[0, r]
        pages[r] += page_room[1, r]
    for action in range(actions):
        for n in range(rankers):
            earned = row[action * rankers + n]
            if earned != 0.0:
                for m in range(rankers):
                    squares[action, n, m] += earned * row[action * rankers + m]


@kernel
def add_unit_rates(units, rows, held):  # type: ignore[no-untyped-def]
    """Add rows to those of their units, -1 for none."""
    for x in range(len(units)):
        if units[x] >= 0:
            for place in range(rows.shape[1]):
                held[units[x], place] += rows[x, place]


class RatesByUnit:
    """The sums of `BatchRates` by unit, and of rows without a unit."""

    def __init__(self, rankers: int, actions: int, valued: int) -> None:
        """valued: the bits of actions that add up values."""
        self.rankers, self.actions, self.valued = rankers, actions, valued
        self.width = (actions + 1) * rankers + 1
        self._seen = 0
        self._pages = np.zeros(rankers)
        self._squares = np.zeros((actions, rankers, rankers))
        self._singles = [UnitRates(rankers) for _ in range(actions)]
        self.rows = np.zeros((0, self.width))

    def add(self, units: Array, rates: BatchRates) -> None:
        """Add rows; units: int64, the number of each row's unit, -1 for none."""
        self._seen += round(float(rates.rows[:, -1].sum()))
        self._pages += rates.pages
        self._squares += rates.squares
        add_unit_rates(units, rates.rows, self.rows)
        single = units < 0
        if single.any():
            for action, held in enumerate(self._singles):
                held.singles.add_units(self._of(rates.rows[single], action))

    def by_unit(self, action: int, kept: Any) -> UnitRates:
        """Return what an action says about some units; kept: which, as an index."""
        found = UnitRates(self.rankers)
        found.rows = self._of(self.rows[kept], action)
        return found

    def others(self, action: int) -> UnitRates:
        """Return what an action says about rows without a unit, with the sums over all rows."""
        found = UnitRates(self.rankers)
        found.singles.merge(self._singles[action].singles)
        found.singles.valued = bool(self.valued >> action & 1)
        found.singles.seen, found.singles.pages = self._seen, self._pages.copy()
        found.singles.squares = self._squares[action].copy()
        return found

    def _of(self, rows: Floats, action: int) -> Floats:
        """Return rows of one action as `RateSums` has them."""
        start, end = action * self.rankers, self.actions * self.rankers
        return np.hstack([rows[:, start : start + self.rankers], rows[:, end:]])
