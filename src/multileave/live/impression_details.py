"""Impression details: stored impressions as people read them."""

import json
from collections.abc import Sequence
from typing import Any

from multileave.impression import ABSENT, Impression
from multileave.live.experiment import Experiment
from multileave.live.records import DocumentDetail, EventDetail, ImpressionDetail, RecentImpression
from multileave.live.store.times import event_time, from_micros
from multileave.methods import infer


def recent_of(row: Any) -> RecentImpression:
    """Return an impression for a list; the row also has the number of its events."""
    return RecentImpression(**_common(row), shown=row.delivered if row.payload else 0, clicks=row.clicks)


def detail_of(experiment: Experiment, row: Any, stored_events: Sequence[Any]) -> ImpressionDetail:
    """Return an impression in full, with its events and what is inferred from them."""
    ordered = sorted(stored_events, key=lambda e: e.timestamp)
    definition = experiment.definition
    events = tuple(
        EventDetail(event_time(e.timestamp, row.created, definition.window), e.action, e.position, e.dwell, e.value)
        for e in ordered
    )
    documents: list[DocumentDetail] = []
    preferences = None
    if row.payload:
        impression = Impression.from_dict(json.loads(row.payload))
        documents = _documents(impression.until(row.delivered), events)
        action = definition.actions[0]
        clicked = {e.position for e in events if definition.counts(e.action, e.dwell, action)}
        if impression.arm is None:
            preferences = tuple(map(tuple, infer(impression, positions=clicked).preferences.tolist()))
    return ImpressionDetail(
        **_common(row), segment=row.segment, method=definition.method, rankers=definition.rankers,
        documents=tuple(documents), preferences=preferences, events=events,
    )  # fmt: skip


def _common(row: Any) -> dict[str, Any]:
    return {
        "key": row.id.hex(),
        "at": from_micros(row.created),
        "unit": (json.loads(row.unit) if row.unit.startswith('"') else row.unit)[:8],
        "query": None if row.query is None else json.loads(row.query),
        "missing": () if row.missing is None else tuple(json.loads(row.missing)),
        "arm": row.arm,
    }


def _documents(impression: Impression, events: Sequence[EventDetail]) -> list[DocumentDetail]:
    pinned = {position for position, _ in impression.pinned}
    found = []
    drawn = 0
    for position, document in enumerate((*impression.shown, *impression.hidden)):
        ranks: dict[str, int | None] = {}
        note = None
        if position not in pinned:
            if len(impression.ranks):
                row = impression.ranks[drawn].tolist()
                ranks = {
                    name: None if rank == ABSENT else rank
                    for name, rank in zip(impression.rankers, row, strict=True)
                }  # fmt: skip
            note = int(impression.note[drawn]) if len(impression.note) and impression.arm is None else None
            drawn += 1
        actions = tuple(dict.fromkeys(e.action for e in events if e.position == position))
        hidden = position >= len(impression.shown)
        found.append(DocumentDetail(position, document, position in pinned, hidden, ranks, note, actions))  # type: ignore[arg-type]
    return found
