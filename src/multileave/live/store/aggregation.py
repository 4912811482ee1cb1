"""Folding: what is new is added to the sums of units and to the ledger that verdicts are read from.

Only impressions that changed are looked at, so a verdict costs what is new since the last one. What an
impression added is kept beside it; when a click comes late, or a further page is asked for, that is
taken out and what it says now is put in. One process folds an experiment at a time, as it holds its
ledger, and each step is one transaction: cut off anywhere, it is as if it had not begun.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from multileave.impression import ABSENT, Impression
from multileave.live.experiment import Definition, Experiment
from multileave.live.store.database import Store
from multileave.live.store.tables import events, impressions, ledgers, looks, units
from multileave.live.store.times import now
from multileave.methods import infer
from multileave.outcome import Floats
from multileave.stats.tally.grouped_tally import GroupedTally, UnitRow, pairs_of
from multileave.stats.tally.health_counts import HealthCounts
from multileave.stats.verdict.rules import Rules
from multileave.stats.verdict.verdict import Verdict

__all__ = ["Aggregator", "rules_of"]

AT_ONCE = 100  # impressions of a transaction: other writers wait for it
LOOK_AGAIN = 1.05  # a look is kept when there are so many times the impressions of the last


def rules_of(definition: Definition) -> Rules:
    """Return the rules of an experiment's verdict: it is looked at all the time."""
    return Rules(definition.confidence, interval="anytime")


class Aggregator:
    """Folds the impressions of experiments, and takes them out again when they are deleted."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def fold(self, experiment: Experiment) -> int:
        """Add all that is new; return how many impressions that were."""
        total = 0
        while count := self._step(experiment):
            total += count
            if count < AT_ONCE:
                break
        return total

    def ledgers(self, experiment: Experiment) -> dict[str, GroupedTally]:
        """Return the ledger of each action, as last folded."""
        with self._store.read() as connection:
            state = connection.execute(
                sa.select(ledgers.c.state).where(ledgers.c.experiment == experiment.number)
            ).scalar_one_or_none()
        return _read_ledgers(experiment.definition, state)

    def take_out(self, connection: Connection, experiment: Experiment, unit: str) -> int:
        """Delete a unit's impressions and events, and all that they said; return how many."""
        book = _Book(self._store, connection, experiment)
        rows = connection.execute(
            sa.select(impressions).where(
                impressions.c.experiment == experiment.number, impressions.c.unit == unit
            )
        ).all()  # fmt: skip
        book.read_units([unit])
        for row in rows:
            book.change(row, None)
        book.close()
        keys = [row.id for row in rows]
        connection.execute(sa.delete(events).where(events.c.impression.in_(keys)))
        connection.execute(sa.delete(impressions).where(impressions.c.id.in_(keys)))
        connection.execute(sa.delete(units).where(units.c.experiment == experiment.number, units.c.unit == unit))
        return len(rows)

    def _step(self, experiment: Experiment) -> int:
        waiting = sa.select(impressions.c.id).where(impressions.c.experiment == experiment.number, impressions.c.dirty)
        with self._store.read() as connection:
            if connection.execute(waiting.limit(1)).first() is None:
                return 0
        with self._store.write() as connection:
            book = _Book(self._store, connection, experiment)
            rows = connection.execute(
                sa.select(impressions)
                .where(impressions.c.experiment == experiment.number, impressions.c.dirty)
                .limit(AT_ONCE)
                .with_for_update(skip_locked=True)
            ).all()
            heard = _events_of(connection, [row.id for row in rows])
            book.read_units(row.unit for row in rows)
            for row in rows:
                book.change(row, heard.get(bytes(row.id), []))
            book.close()
            if rows:
                connection.execute(
                    sa.update(impressions)
                    .where(impressions.c.id == sa.bindparam("key"))
                    .values(
                        dirty=False,
                        counted_delivered=sa.bindparam("now_delivered"),
                        counted=sa.bindparam("now_counted"),
                    ),
                    book.counted,
                )
                book.look()
        return len(rows)


class _Book:
    """The ledgers of an experiment, held while they are changed."""

    def __init__(self, store: Store, connection: Connection, experiment: Experiment) -> None:
        self._store, self._connection, self._experiment = store, connection, experiment
        self._definition = experiment.definition
        number = experiment.number
        connection.execute(store.insert(ledgers).values(experiment=number, state="").on_conflict_do_nothing())
        held = sa.select(ledgers.c.state).where(ledgers.c.experiment == number).with_for_update()
        self._ledgers = _read_ledgers(self._definition, connection.execute(held).scalar_one())
        self._units: dict[str, tuple[int, Floats]] = {}  # as they are in the store
        self._changed: dict[str, tuple[int, Floats]] = {}
        self.counted: list[dict[str, Any]] = []
        self._shape = (len(self._definition.actions), 1 + _pairs(self._definition))

    def change(self, row: Any, heard: Sequence[Any] | None) -> None:
        """Put what an impression says now in the place of what it had said; heard is None when it is deleted."""
        deleted, counted = heard is None, row.counted_delivered > 0
        if not row.payload:
            self._fall_back(row, -1 if deleted else 1)
            return
        # All that was drawn, with what was not delivered as unclicked: if users who stop decided how much of the draw
        # is compared, a better ranker could lose (docs/theory.md, pages).
        drawn = _trusted(json.loads(row.payload))
        before = _unpack(row.counted, self._shape)
        after = self._says(drawn, heard) if heard else np.zeros(self._shape)
        examined_before = _examined(drawn) if deleted and counted else None
        for place, ledger in enumerate(self._ledgers.values()):
            out, into = before[place, 1:], after[place, 1:]
            ledger.squares = np.maximum(ledger.squares + into * into - out * out, 0.0)
            if examined_before is not None:
                ledger.evidence.merge(examined_before, -1)
            if not counted and not deleted:
                ledger.evidence.add(drawn, ledger.rankers)
            if counted:
                ledger.evidence.add_clicks(int(before[place, 0]), -1)
            if not deleted:
                ledger.evidence.add_clicks(int(after[place, 0]))
        count, sums = self._changed.get(row.unit) or self._units.get(row.unit) or (0, np.zeros(self._shape))
        count += (not deleted) - counted
        self._changed[row.unit] = count, sums + after - before
        kept = after.tobytes() if after.any() else None
        self.counted.append({"key": row.id, "now_delivered": row.delivered, "now_counted": kept})

    def close(self) -> None:
        """Write the units and the ledgers."""
        for unit, (count, sums) in self._changed.items():
            known = self._units.get(unit)
            for place, ledger in enumerate(self._ledgers.values()):
                ledger.change(_unit_row(known, place), _unit_row((count, sums), place))
        if self._changed:
            insert = self._store.insert(units)
            rows = [
                {"experiment": self._experiment.number, "unit": unit, "impressions": count, "sums": sums.tobytes()}
                for unit, (count, sums) in sorted(self._changed.items())
            ]
            new = {"impressions": insert.excluded.impressions, "sums": insert.excluded.sums}
            self._connection.execute(
                insert.on_conflict_do_update(index_elements=["experiment", "unit"], set_=new), rows
            )
        state = json.dumps({action: ledger.to_dict() for action, ledger in self._ledgers.items()})
        self._connection.execute(
            sa.update(ledgers).where(ledgers.c.experiment == self._experiment.number).values(state=state)
        )

    def look(self) -> None:
        """Keep what is known now, if there is enough more than at the last look."""
        first = next(iter(self._ledgers.values()))
        number = self._experiment.number
        last = self._connection.execute(
            sa.select(sa.func.max(looks.c.impressions)).where(looks.c.experiment == number)
        ).scalar_one()
        if first.units < 2 or (last is not None and first.impressions < max(last + 1, last * LOOK_AGAIN)):
            return
        rules = rules_of(self._definition)
        state = {
            action: [first.units, _pairs_of_look(ledger.verdict(rules))] for action, ledger in self._ledgers.items()
        }
        self._connection.execute(
            self._store.insert(looks)
            .values(experiment=number, impressions=first.impressions, at=now(), state=json.dumps(state))
            .on_conflict_do_nothing()
        )

    def _fall_back(self, row: Any, times: int) -> None:
        if (times > 0) == (row.counted_delivered > 0):
            return
        for ledger in self._ledgers.values():
            evidence = HealthCounts(len(ledger.rankers))
            evidence.add_fallback(json.loads(row.missing), ledger.rankers)
            ledger.evidence.merge(evidence, times)
        self.counted.append({"key": row.id, "now_delivered": row.delivered, "now_counted": None})

    def _says(self, impression: Impression, heard: Iterable[Any]) -> Floats:
        """Return clicks and preferences by pair for each action."""
        found = np.zeros(self._shape)
        fixed = {position for position, _ in impression.pinned}
        for place, action in enumerate(self._definition.actions):
            clicked = {e.position for e in heard if self._definition.counts(e.action, e.dwell, action)} - fixed
            if clicked:
                found[place, 0] = len(clicked)
                found[place, 1:] = pairs_of(infer(impression, positions=clicked).preferences)
        return found

    def read_units(self, wanted: Iterable[str]) -> None:
        """Read the units whose impressions are to be changed."""
        query = sa.select(units.c.unit, units.c.impressions, units.c.sums).where(
            units.c.experiment == self._experiment.number, units.c.unit.in_(sorted(set(wanted)))
        )
        for row in self._connection.execute(query):
            self._units[row.unit] = row.impressions, _unpack(row.sums, self._shape)


def _events_of(connection: Connection, keys: list[bytes]) -> dict[bytes, list[Any]]:
    found: dict[bytes, list[Any]] = {}
    for event in connection.execute(sa.select(events).where(events.c.impression.in_(keys))):
        found.setdefault(bytes(event.impression), []).append(event)
    return found


def _read_ledgers(definition: Definition, state: str | None) -> dict[str, GroupedTally]:
    if not state:
        return {action: GroupedTally(definition.rankers) for action in definition.actions}
    read = json.loads(state)
    return {action: GroupedTally.from_dict(read[action]) for action in definition.actions}


def _trusted(data: dict[str, Any]) -> Impression:
    """Return the impression that intake wrote, which needs no checks."""
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


def _examined(impression: Impression) -> HealthCounts:
    evidence = HealthCounts(len(impression.rankers))
    evidence.add(impression, impression.rankers)
    return evidence


def _pairs(definition: Definition) -> int:
    return len(definition.rankers) * (len(definition.rankers) - 1) // 2


def _unpack(raw: bytes | None, shape: tuple[int, int]) -> Floats:
    return np.zeros(shape) if raw is None else np.frombuffer(raw, dtype=np.float64).reshape(shape)


def _unit_row(known: tuple[int, Floats] | None, place: int) -> UnitRow | None:
    return None if known is None else UnitRow(known[0], int(known[1][place, 0]), known[1][place, 1:])


def _pairs_of_look(verdict: Verdict) -> list[list[float]]:
    return [[pair.preference, pair.low, pair.high] for pair in verdict.pairs]
