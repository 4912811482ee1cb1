"""Experiments in the store."""

import json
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from multileave.live.definition import Definition
from multileave.live.errors import NotFound
from multileave.live.experiment import Experiment
from multileave.live.store.audit import latest_experiment
from multileave.live.store.tables import experiments
from multileave.live.store.times import from_micros, micros, now


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
    )


def _stored(time: datetime | None) -> int | None:
    return None if time is None else micros(time)
