"""The service: experiments, the lists it draws, the events it hears, and what they say; no HTTP here."""

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from multileave.live import experiment as rules
from multileave.live.access import Access
from multileave.live.errors import Conflict, Invalid, NotFound
from multileave.live.experiment import Definition, Experiment
from multileave.live.records import (
    Event,
    ImpressionDetail,
    Look,
    Receipt,
    RecentImpression,
    Shown,
    ShowRequest,
    Traffic,
)
from multileave.live.settings import Settings
from multileave.live.store.aggregation import Aggregator, rules_of
from multileave.live.store.database import Store
from multileave.live.store.details import detail_of, recent_of
from multileave.live.store.exporting import export_rows
from multileave.live.store.group_commit import Writer
from multileave.live.store.intake import SECOND, Intake
from multileave.live.store.tables import events, experiments, impressions, looks
from multileave.live.store.times import from_micros, micros, now
from multileave.live.tokens import Signer
from multileave.methods import warmup
from multileave.stats.health import Health
from multileave.stats.tally.grouped_tally import GroupedTally
from multileave.stats.verdict.verdict import Verdict

__all__ = ["Service"]

FRESH = 1.0  # seconds for which a worker goes on with what it knows of an experiment: others may change it
LATER = 500  # impressions deleted at once


class Service:
    """All that the HTTP routes and pages do, on one store.

    Methods may be called from any thread. `show` and `record` are awaited, so that many requests can wait
    for one commit.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.ready = False
        self._store = Store(settings.database, durable=settings.durable)
        self._signer = Signer(settings.secret or self._store.secret())
        self._intake = Intake(self._store, self._signer, settings, self._remembered)
        self._store_impressions, self._store_events = self._intake.store_impressions, self._intake.store_events
        self._folder = Aggregator(self._store)
        self._folding = threading.Lock()
        self._writer = Writer(self._store)
        self._known: dict[int, tuple[float, Experiment]] = {}
        self.access = Access(self._store, self._signer, settings)

    def close(self) -> None:
        """Store what waits, and close the database."""
        self._writer.close()
        self._store.close()

    def warm(self) -> None:
        """Compile, or load, what the running experiments need, so that no user waits for it."""
        warmup({e.definition.method for e in self.experiments() if e.status == "running"} | {"recommended"})
        self.ready = True

    # Experiments

    def create(self, definition: Definition) -> Experiment:
        """Keep a new experiment, as a draft."""
        return self._insert(definition, 1, None)

    def experiments(self) -> list[Experiment]:
        """Return all experiments, newest first."""
        with self._store.read() as connection:
            rows = connection.execute(sa.select(experiments).order_by(experiments.c.number.desc())).all()
        return [_experiment(row) for row in rows]

    def experiment(self, number: int) -> Experiment:
        """Return an experiment."""
        with self._store.read() as connection:
            return self._read(connection, number)

    def edit(self, number: int, definition: Definition) -> Experiment:
        """Change a draft."""
        with self._store.write() as connection:
            found = self._read(connection, number, hold=True)
            if found.status != "draft":
                raise Conflict(
                    f"experiment {number} is {found.status}, and what defines it is fixed. Clone it as a new version; "
                    "its share of the traffic can be changed."
                )
            return self._update(connection, replace(found, definition=definition))

    def start(self, number: int) -> Experiment:
        """Let an experiment run."""
        with self._store.write() as connection:
            found = self._read(connection, number, hold=True)
            if found.status != "draft":
                raise Conflict(
                    f"experiment {number} is {found.status}; a draft can be started. Clone it to run it again."
                )
            placed = rules.place(found, self._group(connection, found))
            return self._update(connection, replace(placed, status="running", started=from_micros(now())))

    def stop(self, number: int) -> Experiment:
        """Stop an experiment: all units get the control's list, and nothing more is recorded."""
        with self._store.write() as connection:
            found = self._read(connection, number, hold=True)
            if found.status != "running":
                raise Conflict(f"experiment {number} is {found.status}; a running one can be stopped.")
            return self._update(connection, replace(found, status="stopped", stopped=from_micros(now())))

    def ramp(self, number: int, share: float) -> Experiment:
        """Change an experiment's share of the traffic; units that took part and still fit go on taking part."""
        with self._store.write() as connection:
            found = self._read(connection, number, hold=True)
            if found.status == "stopped":
                raise Conflict(f"experiment {number} is stopped; it has no traffic to share.")
            return self._update(connection, rules.grow(found, share, self._group(connection, found)))

    def clone(self, number: int, changes: Mapping[str, Any]) -> Experiment:
        """Keep a copy of an experiment as a draft, its next version, with some settings changed."""
        found = self.experiment(number)
        return self._insert(found.definition.changed(**changes), found.version + 1, number)

    def delete_draft(self, number: int) -> None:
        """Delete a draft."""
        with self._store.write() as connection:
            found = self._read(connection, number, hold=True)
            if found.status != "draft":
                raise Conflict(f"experiment {number} is {found.status}; only a draft can be deleted.")
            connection.execute(sa.delete(experiments).where(experiments.c.number == number))
        self._known.pop(number, None)

    # Traffic

    async def show(self, number: int, request: ShowRequest) -> Shown:
        """Draw a page of results for a user; it is recorded before this returns."""
        experiment = self._remembered(number)
        drawn = self._intake.draw(experiment, request)
        if drawn.row is None:
            return self._intake.answer(drawn, experiment, None)
        stored = await self._writer.submit(self._store_impressions, drawn)
        return self._intake.answer(drawn, experiment, stored)

    async def record(self, batch: Sequence[Event]) -> list[Receipt]:
        """Store events; those that are accepted are stored when this returns."""
        return await self._writer.submit(self._store_events, batch)

    # What they say

    def fold(self) -> int:
        """Add what is new to the verdicts of all experiments that may have something; return how many impressions."""
        with self._folding:
            return sum(self._folder.fold(found) for found in self.experiments() if found.status != "draft")

    def verdict(self, number: int, action: str | None = None) -> Verdict | None:
        """Return the verdict on an action, the first by default; None while there are fewer than two units."""
        experiment, ledger = self._ledger(number, action)
        return ledger.verdict(rules_of(experiment.definition)) if ledger.units > 1 else None

    def health(self, number: int) -> Health | None:
        """Return how healthy the data are; None while there are fewer than two units."""
        _, ledger = self._ledger(number, None)
        return ledger.health() if ledger.units > 1 else None

    def counts(self, number: int) -> Traffic:
        """Return how much an experiment has seen."""
        experiment = self.experiment(number)
        found = self._folder.ledgers(experiment)
        first = next(iter(found.values()))
        return Traffic(
            impressions=first.impressions,
            units=first.units,
            events={action: ledger.clicks for action, ledger in found.items()},
            without_clicks=first.evidence.without_clicks,
            fallbacks=first.evidence.fallbacks,
        )

    def history(self, number: int, action: str | None = None) -> list[Look]:
        """Return what was known over time."""
        experiment = self.experiment(number)
        chosen = _action(experiment, action)
        with self._store.read() as connection:
            rows = connection.execute(
                sa.select(looks).where(looks.c.experiment == number).order_by(looks.c.impressions)
            ).all()
        names = experiment.definition.rankers
        pairs = [(first, second) for n, first in enumerate(names) for second in names[n + 1 :]]
        found = []
        for row in rows:
            count, values = json.loads(row.state)[chosen]
            told = tuple((*pair, *three) for pair, three in zip(pairs, values, strict=True))
            found.append(Look(from_micros(row.at), row.impressions, count, told))
        return found

    def recent(self, number: int, limit: int = 50) -> list[RecentImpression]:
        """Return the latest impressions, newest first."""
        self.experiment(number)
        clicks = sa.select(sa.func.count()).where(events.c.impression == impressions.c.id).scalar_subquery()
        query = (
            sa.select(impressions, clicks.label("clicks"))
            .where(impressions.c.experiment == number)
            .order_by(impressions.c.created.desc())
            .limit(limit)
        )
        with self._store.read() as connection:
            return [recent_of(row) for row in connection.execute(query)]

    def impression(self, number: int, key: str) -> ImpressionDetail:
        """Return an impression in full."""
        experiment = self.experiment(number)
        try:
            raw = bytes.fromhex(key)
        except ValueError:
            raw = b""
        with self._store.read() as connection:
            row = connection.execute(
                sa.select(impressions).where(impressions.c.id == raw, impressions.c.experiment == number)
            ).one_or_none()
            heard = connection.execute(
                sa.select(events).where(events.c.impression == raw).order_by(events.c.timestamp)
            ).all()  # fmt: skip
        if row is None:
            raise NotFound(f"experiment {number} has no impression {key[:40]!r}; its retention may have passed.")
        return detail_of(experiment, row, heard)

    def export(self, number: int, target: Path) -> int:
        """Write all impressions with their events as Parquet, as `multileave replay` reads them; return how many."""
        return export_rows(self._store, self.experiment(number), target)

    # Privacy

    def delete_unit(self, unit: str) -> int:
        """Delete all that is known of a unit, in the verdicts too; return how many impressions."""
        total = 0
        for experiment in self.experiments():
            stored = self._signer.unit(unit) if experiment.definition.hash_units else json.dumps(unit)
            with self._store.write() as connection:
                total += self._folder.take_out(connection, experiment, stored)
        return total

    def sweep(self) -> int:
        """Delete impressions and events that are past their experiment's retention; return how many impressions.

        Verdicts keep what they said, so they are folded before; nothing is deleted within the window.
        """
        total = 0
        for experiment in self.experiments():
            days = experiment.definition.retention_days
            if days is None:
                continue
            self._folder.fold(experiment)
            kept = round(max(days * rules.DAY, experiment.definition.window) * SECOND)
            old = (
                sa.select(impressions.c.id)
                .where(
                    impressions.c.experiment == experiment.number,
                    impressions.c.created < now() - kept,
                    sa.not_(impressions.c.dirty),
                )
                .limit(LATER)
            )
            while True:
                with self._store.write() as connection:
                    keys = connection.execute(old).scalars().all()
                    connection.execute(sa.delete(events).where(events.c.impression.in_(keys)))
                    connection.execute(sa.delete(impressions).where(impressions.c.id.in_(keys)))
                total += len(keys)
                if len(keys) < LATER:
                    break
        return total

    # Inside

    def _remembered(self, number: int) -> Experiment:
        """Return an experiment as it was a second ago or later."""
        known = self._known.get(number)
        if known is None or time.monotonic() - known[0] > FRESH:
            known = self._known[number] = (time.monotonic(), self.experiment(number))
        return known[1]

    def _read(self, connection: Connection, number: int, *, hold: bool = False) -> Experiment:
        query = sa.select(experiments).where(experiments.c.number == number)
        row = None
        if -(2**31) <= number < 2**31:
            row = connection.execute(query.with_for_update() if hold else query).one_or_none()
        if row is None:
            raise NotFound(f"there is no experiment {number}.")
        return _experiment(row)

    def _insert(self, definition: Definition, version: int, parent: int | None) -> Experiment:
        row = {
            "definition": json.dumps(definition.to_dict()),
            "version": version,
            "parent": parent,
            "status": "draft",
            "start_of_slice": 0.0,
            "created": now(),
        }
        with self._store.write() as connection:
            number = connection.execute(sa.insert(experiments).returning(experiments.c.number), [row]).scalar_one()
            return self._read(connection, number)

    def _update(self, connection: Connection, changed: Experiment) -> Experiment:
        connection.execute(
            sa.update(experiments)
            .where(experiments.c.number == changed.number)
            .values(
                definition=json.dumps(changed.definition.to_dict()),
                status=changed.status,
                start_of_slice=changed.start_of_slice,
                started=_stored(changed.started),
                stopped=_stored(changed.stopped),
            )
        )
        self._known.pop(changed.number, None)
        return changed

    def _group(self, connection: Connection, experiment: Experiment) -> list[Experiment]:
        """Return the other running experiments of a group, and hold them so that none is started meanwhile."""
        if experiment.definition.group is None:
            return []
        if not self._store.is_sqlite:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(84211)"))
        rows = connection.execute(sa.select(experiments).where(experiments.c.status == "running"))
        others = [_experiment(row) for row in rows if row.number != experiment.number]
        return [other for other in others if other.definition.group == experiment.definition.group]

    def _ledger(self, number: int, action: str | None) -> tuple[Experiment, GroupedTally]:
        experiment = self.experiment(number)
        chosen = _action(experiment, action)
        with self._folding:
            self._folder.fold(experiment)
        return experiment, self._folder.ledgers(experiment)[chosen]


def _action(experiment: Experiment, action: str | None) -> str:
    actions = experiment.definition.actions
    if action is None:
        return actions[0]
    if action not in actions:
        raise Invalid(
            f"there is no action {action[:100]!r}; experiment {experiment.number} counts {', '.join(actions)}."
        )
    return action


def _experiment(row: Any) -> Experiment:
    return Experiment(
        row.number,
        Definition.from_dict(json.loads(row.definition)),
        row.version,
        row.parent,
        row.status,
        row.start_of_slice,
        from_micros(row.created),
        None if row.started is None else from_micros(row.started),
        None if row.stopped is None else from_micros(row.stopped),
    )


def _stored(time: datetime | None) -> int | None:
    return None if time is None else micros(time)
