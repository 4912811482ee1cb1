"""Export: an experiment's impressions and events in the log format, streamed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from multileave.impression import Impression
from multileave.live.experiment import Experiment
from multileave.live.store.database import Store
from multileave.live.store.impressions import load_batches
from multileave.live.store.times import event_time, from_micros
from multileave.log import JOINED, to_row, write_parquet

SEGMENT = pa.field("segment", pa.string())


def export_rows(store: Store, experiment: Experiment, target: Path) -> int:
    """Write all impressions that compare rankers, each with its events; return how many.

    The file's metadata hold the experiment's settings as JSON, under `multileave.experiment`, and the
    rankers that were dropped, under `multileave.dropped`.
    """
    settings = {b"multileave.experiment": json.dumps(experiment.definition.to_dict()).encode()}
    if experiment.dropped:
        settings[b"multileave.dropped"] = json.dumps(experiment.dropped).encode()
    return write_parquet(target, _rows(store, experiment), JOINED.append(SEGMENT).with_metadata(settings))


def _rows(store: Store, experiment: Experiment) -> Iterator[dict[str, Any]]:
    window = experiment.definition.window
    for row, events in load_batches(store, experiment.number):
        if row.payload:
            yield to_row(
                Impression.from_dict(json.loads(row.payload)),
                impression_id=row.id.hex(),
                timestamp=from_micros(row.created),
                user_id=row.unit,
                query=None if row.query is None else json.loads(row.query),
                segment=row.segment,
                clicks=[_click(event, row.created, window) for event in events],
            )


def _click(event: Any, created: int, window: float) -> dict[str, Any]:
    return {
        "position": event.position,
        "action": event.action,
        "timestamp": event_time(event.timestamp, created, window),
        "dwell": event.dwell,
        "value": event.value,
    }
