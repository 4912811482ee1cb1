"""Arms: adding impressions of a single ranker's own pages to the sums that the A/B verdict is read from.

It is to arms what `live.aggregation` is to the comparison, in the same transactions: what an impression contributed is
stored with it, and taken out when a click arrives late or the impression is deleted.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from multileave.impression import Impression
from multileave.live.definition import Definition
from multileave.live.experiment import Experiment
from multileave.live.store import aggregates
from multileave.live.store.database import Connection, Store
from multileave.live.verdicts.event_values import values_by_position
from multileave.outcome import Floats
from multileave.stats.arms.metrics import METRICS, page_metrics
from multileave.stats.arms.sums import WIDTH, ArmSums
from multileave.stats.tally.grouped_tally import on_grid

SumsByAction = dict[str, dict[str, ArmSums]]
"""The sums of each arm, by action and arm."""


def load_sums(connection: Connection, experiment: Experiment) -> SumsByAction:
    """Return the sums of all arms that have recorded something, in the order of the rankers."""
    return _read(experiment.definition, aggregates.load_arms(connection, experiment.number))


class ArmChange:
    """A change of the sums of an experiment's arms, whose ledger is locked until the transaction ends."""

    def __init__(self, store: Store, connection: Connection, experiment: Experiment, units: Iterable[str]) -> None:
        """units: those whose impressions may change."""
        self._store, self._connection, self._number = store, connection, experiment.number
        self._definition = experiment.definition
        self._shape = (len(self._definition.actions), WIDTH)
        self._sums = load_sums(connection, experiment)
        stored = aggregates.load_arm_units(connection, self._number, units)
        self._units = {key: np.frombuffer(raw, dtype=np.float64).reshape(self._shape) for key, raw in stored.items()}
        self._changed: dict[tuple[str, str], Floats] = {}

    def replace(self, row: Any, impression: Impression, events: Sequence[Any] | None) -> bytes | None:
        """Replace what an impression contributed by what it says now, and return that; events: None if it is deleted.

        An impression without clicks contributes nothing but itself, which is not stored.
        """
        before, after = np.zeros(self._shape), np.zeros(self._shape)
        if row.counted_delivered > 0:
            before[:, -1] = 1.0
            if row.counted is not None:
                before[:, :-1] = np.frombuffer(row.counted, dtype=np.float64).reshape(-1, len(METRICS))
        if events is not None:
            after[:, :-1], after[:, -1] = self._metrics(impression, events), 1.0
        missing = int(impression.lengths[0] == 0)
        for place, action in enumerate(self._definition.actions):
            sums = self._sums[action].setdefault(row.arm, ArmSums())
            for said, times in ((before[place], -1), (after[place], 1)):
                if said[-1]:
                    sums.add_squares(said[:-1], times)
                    sums.missing += times * missing
        key = row.arm, row.unit
        held = self._changed.get(key, self._units.get(key, np.zeros(self._shape)))
        self._changed[key] = held + after - before
        return after[:, :-1].tobytes() if after[:, 0].any() else None

    def forget(self, unit: str) -> None:
        """Take out what is left of a unit: the sums of its impressions that were deleted after their retention."""
        for key in {*self._units, *self._changed}:
            if key[1] == unit:
                self._changed[key] = np.zeros(self._shape)

    def save(self) -> None:
        """Store the units and the sums."""
        for (arm, unit), changed in self._changed.items():
            before = self._units.get((arm, unit), np.zeros(self._shape))
            for place, action in enumerate(self._definition.actions):
                sums = self._sums[action].setdefault(arm, ArmSums())
                sums.add_units(before[None, place], -1)
                sums.add_units(changed[None, place])
        packed = {key: sums.tobytes() for key, sums in sorted(self._changed.items())}
        aggregates.save_arm_units(self._store, self._connection, self._number, packed)
        state = {action: {arm: one.to_dict() for arm, one in arms.items()} for action, arms in self._sums.items()}
        aggregates.save_arms(self._connection, self._number, json.dumps(state))

    def _metrics(self, impression: Impression, events: Sequence[Any]) -> Floats:
        """Return the metrics of a page for each action, rounded so that sums can be undone exactly."""
        found = np.zeros((len(self._definition.actions), len(METRICS)))
        for place, action in enumerate(self._definition.actions):
            counted = [e for e in events if self._definition.counts(e.action, e.dwell, action)]
            found[place] = page_metrics(impression, {e.position for e in counted}, values_by_position(counted))
        return on_grid(found)


def _read(definition: Definition, state: str | None) -> SumsByAction:
    read = json.loads(state) if state else {}
    return {
        action: {arm: ArmSums.from_dict(read[action][arm]) for arm in definition.rankers if arm in read.get(action, {})}
        for action in definition.actions
    }
