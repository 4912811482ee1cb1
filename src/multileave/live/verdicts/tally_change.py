"""A change of an experiment's tallies: what impressions contributed is replaced by what they say now."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from multileave.impression import ABSENT, Impression
from multileave.live.experiment import Experiment
from multileave.live.store import aggregates
from multileave.live.store.database import Connection, Store
from multileave.live.store.times import now
from multileave.live.verdicts.arms import ArmChange
from multileave.live.verdicts.event_values import values_by_position
from multileave.live.verdicts.stored_tallies import read_scheduled, read_tallies, rules_of
from multileave.live.verdicts.summary import Summary, summary_of
from multileave.methods import infer
from multileave.outcome import Floats
from multileave.stats.rates.sums import unit_row
from multileave.stats.rates.values import split_action
from multileave.stats.tally.grouped_tally import GRID, VALUE_GRID, GroupedTally, UnitRow, on_grid, pairs_of
from multileave.stats.tally.health_counts import HealthCounts
from multileave.stats.tally.weighting import Weighting, weighted_rates

NEXT_LOOK = 1.05  # a look is stored once there are this many times the impressions of the last one


class TallyChange:
    """A change of an experiment's tallies, which are locked until its transaction ends."""

    def __init__(self, store: Store, connection: Connection, experiment: Experiment) -> None:
        self._store, self._connection, self._number = store, connection, experiment.number
        self._experiment, self._definition = experiment, experiment.definition
        definition = self._definition
        state = aggregates.lock_tallies(store, connection, experiment.number)
        self._tallies = read_tallies(connection, experiment, state)
        self._rated = all(tally.rates is not None for tally in self._tallies.values())
        rankers = len(definition.rankers)
        self._end = 1 + rankers * (rankers - 1) // 2  # of clicks and preferences by pair; a row of rates follows
        self._shape = (len(definition.actions), self._end + (2 * rankers + 1 if self._rated else 0))
        self._weighting = Weighting(definition.estimand, definition.cap, definition.winsorise)
        self._units: dict[str, tuple[int, Floats]] = {}  # as stored
        self._changed: dict[str, tuple[int, Floats]] = {}
        self._arms: ArmChange | None = None
        self.counted: list[dict[str, Any]] = []

    def load_units(self, units: Iterable[str], *, arms: bool) -> None:
        """Load the units whose impressions change; arms: some are of arms."""
        self._arms = ArmChange(self._store, self._connection, self._experiment, units) if arms else None
        for unit, (count, sums) in aggregates.load_units(self._connection, self._number, units).items():
            self._units[unit] = count, self._unpack(sums)

    def replace(self, row: Any, events: Sequence[Any] | None) -> None:
        """Replace what an impression contributed by what it says now; events is None if it is deleted."""
        deleted, counted = events is None, row.counted_delivered > 0
        if not row.payload:
            self._count_fallback(row, -1 if deleted else 1)
            return
        # Everything that was drawn, with what was not delivered as unclicked: if users who stop decided how much of
        # the draw is compared, a better ranker could lose (docs/theory.md, pages).
        drawn = trusted(json.loads(row.payload))
        if self._arms is not None and row.arm is not None:
            contributed = self._arms.replace(row, drawn, events)
            self.counted.append({"key": row.id, "now_delivered": row.delivered, "now_counted": contributed})
            return
        alone = infer(drawn).alone if self._rated else None
        before = self._unclicked(alone if counted else None) if row.counted is None else self._unpack(row.counted)
        after = np.zeros(self._shape) if deleted else self._contribution(drawn, events or (), alone)
        health = None
        if deleted and counted:
            health = HealthCounts(len(drawn.rankers))
            health.add(drawn, drawn.rankers, row.unit)
        for place, tally in enumerate(self._tallies.values()):
            out, into = before[place, 1 : self._end], after[place, 1 : self._end]
            if tally.rates is not None and alone is not None:
                for said, times in ((before, -1), (after, 1)):
                    if said[place, -1]:
                        earned = said[place, self._end : self._end + len(drawn.rankers)]
                        tally.rates.add_impression(np.array([earned, *alone[1:]]), times)
            tally.squares = np.maximum(tally.squares + into * into - out * out, 0.0)
            if health is not None:
                tally.evidence.merge(health, -1)
            if not counted and not deleted:
                tally.evidence.add(drawn, tally.rankers, row.unit)
            if counted:
                tally.evidence.add_clicks(int(before[place, 0]), -1)
            if not deleted:
                tally.evidence.add_clicks(int(after[place, 0]))
        count, sums = self._changed.get(row.unit) or self._units.get(row.unit) or (0, np.zeros(self._shape))
        self._changed[row.unit] = count + (not deleted) - counted, sums + after - before
        contribution = after.tobytes() if after[:, 0].any() else None
        self.counted.append({"key": row.id, "now_delivered": row.delivered, "now_counted": contribution})

    def forget(self, unit: str) -> None:
        """Take out what is left of a unit: the sums of its impressions that were deleted after their retention."""
        self._changed[unit] = 0, np.zeros(self._shape)
        if self._arms is not None:
            self._arms.forget(unit)

    def save(self) -> None:
        """Store the units and the tallies."""
        for unit, changed in self._changed.items():
            for place, tally in enumerate(self._tallies.values()):
                before = self._units.get(unit)
                tally.change(self._unit_row(before, place), self._unit_row(changed, place), unit)
                if self._rated:
                    tally.change_rates(self._rate_row(before, place), self._rate_row(changed, place))
        packed = {unit: (count, sums.tobytes()) for unit, (count, sums) in self._changed.items()}
        aggregates.save_units(self._store, self._connection, self._number, packed)
        state = json.dumps({action: tally.to_dict() for action, tally in self._tallies.items()})
        aggregates.save_tallies(self._connection, self._number, state)
        if self._arms is not None:
            self._arms.save()
        self.save_summary()

    def save_summary(self) -> None:
        """Store the result on the primary action in short."""
        first = next(iter(self._tallies.values()))
        summary, definition, look = Summary(first.impressions, first.units), self._definition, 0
        judged: GroupedTally | None = first
        if definition.looks:
            look, tallies = read_scheduled(aggregates.last_look(self._connection, self._number))
            judged = tallies.get(definition.actions[0])
        if judged is not None and judged.units > 1:
            found = summary_of(judged.verdict(rules_of(self._experiment, look)), definition.control)
            summary = replace(found, impressions=first.impressions, units=first.units)
        aggregates.save_summary(self._store, self._connection, self._number, summary)

    def save_look(self) -> None:
        """Store the preferences as they are now, if a look is due.

        A scheduled look is due once there are so many units, and its tallies are stored, as it is what the verdict is
        read from until the next. If looks are not scheduled, one is due after enough more impressions.
        """
        first = next(iter(self._tallies.values()))
        last = aggregates.last_look(self._connection, self._number)
        look = self._definition.look_at(first.units)
        if self._definition.looks:
            due = look > read_scheduled(last)[0]
        else:
            due = last is None or first.impressions >= max(last.impressions + 1, last.impressions * NEXT_LOOK)
        if first.units < 2 or not due:
            return
        rules = rules_of(self._experiment, look)
        state: dict[str, list[Any]] = {}
        for action, tally in self._tallies.items():
            pairs = [[pair.preference, pair.low, pair.high] for pair in tally.verdict(rules).pairs]
            state[action] = [first.units, pairs]
            if look:
                state[action].append({"look": look, "tally": tally.to_dict()})
        aggregates.insert_look(
            self._store, self._connection, self._number, first.impressions, now(), json.dumps(state)
        )  # fmt: skip

        if look:
            self.save_summary()

    def _count_fallback(self, row: Any, times: int) -> None:
        if (times > 0) == (row.counted_delivered > 0):
            return
        for tally in self._tallies.values():
            health = HealthCounts(len(tally.rankers))
            health.add_fallback(json.loads(row.missing), tally.rankers)
            tally.evidence.merge(health, times)
        self.counted.append({"key": row.id, "now_delivered": row.delivered, "now_counted": None})

    def _contribution(self, impression: Impression, events: Iterable[Any], alone: "Floats | None") -> Floats:
        """Return clicks, preferences by pair and a row of rates for each action; alone: what no click says."""
        found = self._unclicked(alone)
        pinned = {position for position, _ in impression.pinned}
        for place, action in enumerate(self._definition.actions):
            counted = [e for e in events if self._definition.counts(e.action, e.dwell, action)]
            clicked = {e.position for e in counted} - pinned
            if clicked:
                values = None
                if split_action(action)[1]:
                    values = {impression.shown[at]: value for at, value in values_by_position(counted).items()}
                outcome = infer(impression, positions=clicked, values=values)
                found[place, 0] = len(clicked)
                found[place, 1 : self._end] = pairs_of(outcome.preferences)
                if self._rated and outcome.alone is not None:
                    grid = GRID if values is None else VALUE_GRID
                    found[place, self._end :] = on_grid(unit_row(outcome.alone), grid)
        return found

    def _unclicked(self, alone: "Floats | None") -> Floats:
        """Return what an impression without clicks contributes, which is not stored."""
        found = np.zeros(self._shape)
        if alone is not None:
            found[:, self._end :] = on_grid(unit_row(alone))
        return found

    def _unpack(self, raw: bytes | None) -> Floats:
        return np.zeros(self._shape) if raw is None else np.frombuffer(raw, dtype=np.float64).reshape(self._shape)

    def _rate_row(self, unit: tuple[int, Floats] | None, place: int) -> "Floats | None":
        """Return a unit's row of rates as it counts, None if there is none."""
        if unit is None:
            return None
        row, counts = unit[1][place, self._end :], np.array([unit[0]])
        found: Floats = weighted_rates(row[None], counts, self._weighting)[0]
        return found

    def _unit_row(self, unit: tuple[int, Floats] | None, place: int) -> UnitRow | None:
        if unit is None:
            return None
        row = unit[1][place]
        return UnitRow(unit[0], int(row[0]), row[1 : self._end])


def trusted(data: dict[str, Any]) -> Impression:
    """Return an impression that `intake` wrote, without the checks of `from_dict`: they take a quarter of the time."""
    ranks = np.array(data["ranks"], dtype=np.int32).reshape(-1, len(data["rankers"]))
    ranks[ranks == 0] = ABSENT
    return Impression(
        tuple(data["rankers"]),
        data["method"],
        data["k"],
        tuple(data["shown"]),
        tuple(data["hidden"]),
        tuple((position, document) for position, document in data["pinned"]),
        np.array(data["lengths"], dtype=np.int32),
        ranks,
        np.array(data["note"], dtype=np.int32),
        tuple(data["stat"]),
    )
