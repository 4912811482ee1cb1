"""The audit log in the store: who did what and when. Rows are added, never changed; triggers see to that."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from multileave.live.access.actor import Actor, acting
from multileave.live.records import AuditAction, AuditEntry
from multileave.live.store.tables import audit
from multileave.live.store.times import from_micros, now


def record(
    connection: Connection,
    action: AuditAction,
    experiment: int | None = None,
    details: Mapping[str, Any] | None = None,
    *,
    actor: Actor | None = None,
) -> None:
    """Record what is done, in the transaction that does it. actor: `acting` unless given."""
    who = acting.get() if actor is None else actor
    row = {
        "at": now(),
        "actor": who.kind,
        "key": who.key,
        "name": who.name,
        "action": action,
        "experiment": experiment,
        "details": json.dumps(details or {}, default=_text),
    }
    connection.execute(sa.insert(audit), row)


def load(connection: Connection, *, before: int | None, experiment: int | None, limit: int) -> list[AuditEntry]:
    """Return entries, newest first: those with a number below `before`, and those of an experiment."""
    query = sa.select(audit).order_by(audit.c.number.desc()).limit(limit)
    if before is not None:
        query = query.where(audit.c.number < before)
    if experiment is not None:
        query = query.where(audit.c.experiment == experiment)
    return [_entry(row) for row in connection.execute(query)]


def latest_experiment(connection: Connection) -> int:
    """Return the largest number of an experiment in the log, deleted ones included; 0 if there is none."""
    return int(connection.execute(sa.select(sa.func.max(audit.c.experiment))).scalar_one() or 0)


def _entry(row: Any) -> AuditEntry:
    who = row.actor, row.key, row.name
    return AuditEntry(row.number, from_micros(row.at), *who, row.action, row.experiment, json.loads(row.details))


def _text(value: datetime) -> str:
    return value.isoformat()
