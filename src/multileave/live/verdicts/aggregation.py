"""Aggregation: adding new impressions and events to the tallies that verdicts are read from.

Only impressions that changed are read, so a verdict costs what is new since the last one. What an impression
contributed is stored with it; when a click arrives late or another page is requested, the old contribution is taken
out and the new one put in. One process at a time aggregates an experiment, since it locks the tallies, and each step
is one transaction: interrupted anywhere, it is as if it had not begun.
"""

import time
from collections.abc import Callable

import numpy as np

from multileave.live.errors import Unavailable
from multileave.live.experiment import Experiment
from multileave.live.store import aggregates, audit
from multileave.live.store.database import Connection, Store
from multileave.live.store.impressions import delete, events_of, load_new, load_unit
from multileave.live.verdicts.stored_tallies import is_outdated, read_scheduled, read_tallies
from multileave.live.verdicts.tally_change import TallyChange
from multileave.stats.tally.grouped_tally import GroupedTally, UnitRow
from multileave.stats.verdict.rules import Rules

BATCH = 100  # impressions of a transaction: other writers wait for it
UNIT_SUMS = aggregates.load_units, aggregates.load_arm_units


def judge_once() -> None:
    """Reach a verdict on nothing: the first one imports SciPy, which would keep searches waiting for 200 ms or more."""
    tally = GroupedTally(("a", "b"))
    for preference in (-1.0, 1.0):
        tally.change(None, UnitRow(1, 1, np.array([preference])))
    tally.verdict(Rules(interval="anytime"))


class Aggregator:
    """Adds impressions of experiments to their tallies, and takes them out when they are deleted.

    is_loaded: whether a method's kernels are loaded, after waiting for them for some seconds.
    """

    def __init__(self, store: Store, is_loaded: Callable[[str], bool]) -> None:
        self._store, self._is_loaded = store, is_loaded
        self._renewed: set[int] = set()  # experiments whose tallies are not of an earlier version

    def update(self, experiment: Experiment) -> int:
        """Add everything that is new; return the number of impressions.

        Raise `Unavailable` if the database cannot be written; what was added before is kept.
        """
        if not self._is_loaded(experiment.definition.method):
            raise Unavailable("The experiment's method is being compiled. Try again in a few seconds.")
        self._renew(experiment)
        total = 0
        while count := self._step(experiment):
            total += count
            if count < BATCH:
                break
        return total

    def tallies(self, connection: Connection, experiment: Experiment) -> dict[str, GroupedTally]:
        """Return the tally of each action, as last updated."""
        return read_tallies(connection, experiment, aggregates.load_tallies(connection, experiment.number))

    def summarise(self, experiment: Experiment) -> None:
        """Store the summary of tallies that an earlier version wrote."""
        with self._store.write() as connection:
            TallyChange(self._store, connection, experiment).save_summary()

    def scheduled(self, connection: Connection, experiment: Experiment) -> tuple[int, dict[str, GroupedTally]]:
        """Return the number of the last scheduled look and the tallies as they were then; 0 and none before it."""
        return read_scheduled(aggregates.last_look(connection, experiment.number))

    def remove_unit(self, experiment: Experiment, unit: str, pseudonym: str) -> int:
        """Delete a unit's impressions and events and take them out of the tallies; return how many impressions.

        Each batch is a transaction that leaves the tallies right. Searches get the database for as long between two
        batches as one takes. pseudonym: what the audit log calls the unit, once the last batch is deleted.
        """
        total = 0
        with self._store.read() as connection:
            known = load_unit(connection, experiment.number, unit, 1)
            kept = any(load(connection, experiment.number, [unit]) for load in UNIT_SUMS)
            if not known and not kept:
                return 0
        while True:
            began = time.monotonic()
            with self._store.write() as connection:
                count = self._remove_batch(connection, experiment, unit)
                total += count
                if count < BATCH:
                    details = {"unit": pseudonym, "impressions": total}
                    audit.record(connection, "unit deleted", experiment.number, details)
            if count < BATCH:
                return total
            time.sleep(time.monotonic() - began)

    def _renew(self, experiment: Experiment) -> None:
        """Store tallies of an earlier version anew; they kept less of the units, whose rows have it all."""
        if experiment.number in self._renewed:
            return
        with self._store.read() as connection:
            state = aggregates.load_tallies(connection, experiment.number)
        if is_outdated(state):
            with self._store.write() as connection:
                TallyChange(self._store, connection, experiment).save()
        self._renewed.add(experiment.number)

    def _remove_batch(self, connection: Connection, experiment: Experiment, unit: str) -> int:
        change = TallyChange(self._store, connection, experiment)
        rows = load_unit(connection, experiment.number, unit, BATCH)
        change.load_units([unit], arms=True)
        for row in rows:
            change.replace(row, None)
        if len(rows) < BATCH:
            change.forget(unit)
        change.save()
        delete(connection, [row.id for row in rows])
        if len(rows) < BATCH:
            aggregates.delete_unit(connection, experiment.number, unit)
        return len(rows)

    def _step(self, experiment: Experiment) -> int:
        with self._store.read() as connection:
            if not load_new(connection, experiment.number, 1):
                return 0
        with self._store.write() as connection:
            change = TallyChange(self._store, connection, experiment)
            rows = load_new(connection, experiment.number, BATCH, lock=True)
            events = events_of(connection, [row.id for row in rows])
            change.load_units({row.unit for row in rows}, arms=any(row.arm is not None for row in rows))
            for row in rows:
                change.replace(row, events.get(bytes(row.id), []))
            change.save()
            if rows:
                aggregates.mark_counted(connection, change.counted)
                change.save_look()
        return len(rows)
