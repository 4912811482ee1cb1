"""Details: stored impressions as people read them."""

import json
from collections.abc import Sequence
from typing import Any

from multileave.impression import ABSENT, Impression
from multileave.live.experiment import Experiment
from multileave.live.records import DocumentDetail, EventDetail, ImpressionDetail, RecentImpression
from multileave.live.store.times import from_micros
from multileave.methods import infer

__all__ = ["detail_of", "recent_of"]


def recent_of(row: Any) -> RecentImpression:
    """Return an impression for a list of them; the row has the number of its events too."""
    return RecentImpression(
        row.id.hex(), from_micros(row.created), _plain(row.unit)[:8], _query(row),
        row.delivered if row.payload else 0, row.clicks, _missing(row),
    )  # fmt: skip


def _plain(unit: str) -> str:
    return json.loads(unit) if unit.startswith('"') else unit


def _query(row: Any) -> str | None:
    return None if row.query is None else json.loads(row.query)


def _missing(row: Any) -> tuple[str, ...]:
    return () if row.missing is None else tuple(json.loads(row.missing))


def detail_of(experiment: Experiment, row: Any, heard: Sequence[Any]) -> ImpressionDetail:
    """Return an impression in full, with what its events say."""
    told = tuple(EventDetail(from_micros(e.timestamp), e.action, e.position, e.dwell) for e in heard)
    definition = experiment.definition
    documents: list[DocumentDetail] = []
    preferences = None
    if row.payload:
        impression = Impression.from_dict(json.loads(row.payload))
        documents = _documents(impression.until(row.delivered), told)
        action = definition.actions[0]
        clicked = {e.position for e in told if definition.counts(e.action, e.dwell, action)}
        preferences = tuple(map(tuple, infer(impression, positions=clicked).preferences.tolist()))
    return ImpressionDetail(
        row.id.hex(), from_micros(row.created), _plain(row.unit)[:8], _query(row), definition.method,
        definition.rankers, _missing(row), tuple(documents), preferences, told,
    )  # fmt: skip


def _documents(impression: Impression, told: Sequence[EventDetail]) -> list[DocumentDetail]:
    fixed = {position for position, _ in impression.pinned}
    found = []
    drawn = 0
    for position, document in enumerate((*impression.shown, *impression.hidden)):
        ranks: dict[str, int | None] = {}
        note = None
        if position not in fixed:
            if len(impression.ranks):
                row = impression.ranks[drawn].tolist()
                ranks = {
                    name: None if rank == ABSENT else rank
                    for name, rank in zip(impression.rankers, row, strict=True)
                }  # fmt: skip
            note = int(impression.note[drawn]) if len(impression.note) else None
            drawn += 1
        actions = tuple(dict.fromkeys(e.action for e in told if e.position == position))
        hidden = position >= len(impression.shown)
        found.append(DocumentDetail(position, document, position in fixed, hidden, ranks, note, actions))  # type: ignore[arg-type]
    return found
