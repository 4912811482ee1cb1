"""Experiments in the store."""

import json
from collections.abc import Container
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from multileave.assignment import ArmSlice
from multileave.live.definition import Definition
from multileave.live.errors import NotFound
from multileave.live.experiment import Drop, Experiment
from multileave.live.store.audit import latest_experiment
from multileave.live.store.tables import experiments, summaries
from multileave.live.store.times import from_micros, micros, now
from multileave.live.verdicts.summary import Listed, Search, Summary


def load(connection: Connection, number: int, *, lock: bool = False) -> Experiment:
    """Return an experiment; lock: until the transaction ends."""
    query = sa.select(experiments).where(experiments.c.number == number)
    row = None
    if -(2**31) <= number < 2**31:
        row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise NotFound(f"There is no experiment {number}.")
    return _experiment(row)


def load_all(connection: Connection) -> list[Experiment]:
    """Return all experiments, newest first."""
    query = sa.select(experiments).order_by(experiments.c.number.desc())
    return [_experiment(row) for row in connection.execute(query)]


def search(
    connection: Connection, wanted: Search, *, within: Container[int] | None, offset: int, limit: int | None
) -> tuple[list[Listed], int]:
    """Return some of the experiments that are wanted with their summaries, newest first, and how many there are in all.

    The text is compared here: databases do not agree on letters other than ASCII. Only what is returned is unpacked.
    within: numbers to choose from, None for all.
    """
    both = experiments.outerjoin(summaries, experiments.c.number == summaries.c.experiment)
    query = sa.select(experiments, summaries.c.state).select_from(both).order_by(experiments.c.number.desc())
    if wanted.status is not None:
        query = query.where(experiments.c.status == wanted.status)
    if wanted.standing is not None:
        query = query.where(sa.func.coalesce(summaries.c.standing, "none") == wanted.standing)
    rows = [row for row in connection.execute(query) if within is None or row.number in within]
    if wanted.text:
        rows = [row for row in rows if wanted.matches(row.number, json.loads(row.definition))]
    end = None if limit is None else offset + limit
    return [Listed(_experiment(row), _summary(row.state)) for row in rows[offset:end]], len(rows)


def insert(connection: Connection, definition: Definition, version: int, parent: int | None) -> Experiment:
    """Store a new draft."""
    row: dict[str, Any] = {
        "definition": json.dumps(definition.to_dict()),
        "version": version,
        "parent": parent,
        "status": "draft",
        "start_of_slice": 0.0,
        "created": now(),
    }
    if connection.dialect.name == "sqlite":  # it would give the number of a deleted draft again
        last = connection.execute(sa.select(sa.func.max(experiments.c.number))).scalar_one() or 0
        row["number"] = 1 + max(last, latest_experiment(connection))
    number = connection.execute(sa.insert(experiments).returning(experiments.c.number), [row]).scalar_one()
    return load(connection, number)


def update(connection: Connection, changed: Experiment) -> None:
    """Store the settings and the state of an experiment."""
    connection.execute(
        sa.update(experiments)
        .where(experiments.c.number == changed.number)
        .values(
            definition=json.dumps(changed.definition.to_dict()),
            status=changed.status,
            start_of_slice=changed.start_of_slice,
            started=_stored(changed.started),
            stopped=_stored(changed.stopped),
            drops=json.dumps([asdict(drop) | {"at": micros(drop.at)} for drop in changed.drops]),
            arm_slices=json.dumps([asdict(one) for one in changed.arm_slices]) if changed.arm_slices else None,
        )
    )


def delete(connection: Connection, number: int) -> None:
    """Delete an experiment that has no impressions."""
    connection.execute(sa.delete(experiments).where(experiments.c.number == number))


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
        tuple(Drop(**{**drop, "at": from_micros(drop["at"])}) for drop in json.loads(row.drops or "[]")),
        tuple(ArmSlice(**one) for one in json.loads(row.arm_slices or "[]")),
    )


def _summary(state: str | None) -> Summary | None:
    return None if state is None else Summary.from_dict(json.loads(state))


def _stored(time: datetime | None) -> int | None:
    return None if time is None else micros(time)
