"""Export: an experiment's impressions and events in the format of `multileave replay`, streamed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from multileave.impression import Impression
from multileave.live.experiment import Experiment
from multileave.live.store.database import Store
from multileave.live.store.tables import events, impressions
from multileave.live.store.times import from_micros
from multileave.log import JOINED, to_row, write_parquet

__all__ = ["export_rows"]

AT_ONCE = 1000


def export_rows(store: Store, experiment: Experiment, target: Path) -> int:
    """Write all impressions that compare rankers, each with its events; return how many."""
    return write_parquet(target, _rows(store, experiment), JOINED)


def _rows(store: Store, experiment: Experiment) -> Iterator[dict[str, Any]]:
    last = b""
    while True:
        with store.read() as connection:
            rows = connection.execute(
                sa.select(impressions)
                .where(impressions.c.experiment == experiment.number, impressions.c.id > last)
                .order_by(impressions.c.id)
                .limit(AT_ONCE)
            ).all()
            keys = [row.id for row in rows]
            heard: dict[bytes, list[dict[str, Any]]] = {}
            for event in connection.execute(sa.select(events).where(events.c.impression.in_(keys))):
                heard.setdefault(bytes(event.impression), []).append(
                    {
                        "position": event.position,
                        "action": event.action,
                        "timestamp": from_micros(event.timestamp),
                        "dwell": event.dwell,
                    }
                )
        for row in rows:
            if row.payload:
                yield to_row(
                    Impression.from_dict(json.loads(row.payload)),
                    impression_id=row.id.hex(),
                    timestamp=from_micros(row.created),
                    user_id=row.unit,
                    query=None if row.query is None else json.loads(row.query),
                    clicks=heard.get(bytes(row.id), []),
                )
        if len(rows) < AT_ONCE:
            return
        last = rows[-1].id
