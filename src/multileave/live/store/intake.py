"""Intake: lists are drawn and recorded, events heard.

An impression's key is a hash of all that it was drawn from: the experiment, the unit, the query, the salt,
the rankings and the pins. So the same request is the same impression, counted once, until the experiment's
window has passed; then it is a repetition of it, with a key of its own. Two workers that hear of it at
the same time agree, as the key is the primary key of its row.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from multileave.errors import nearest
from multileave.live.errors import Invalid, TooLarge
from multileave.live.experiment import Experiment, position_of
from multileave.live.records import Document, Event, Receipt, Shown, ShowRequest
from multileave.live.settings import Settings
from multileave.live.store.database import Store
from multileave.live.store.tables import events, impressions
from multileave.live.store.times import micros, now
from multileave.live.tokens import ImpressionToken, Signer
from multileave.log import document_text
from multileave.methods import get_method
from multileave.rankings import with_pins

__all__ = ["Drawn", "Intake"]

SECOND = 1_000_000
EARLY = 300 * SECOND  # how far ahead of ours a client's clock may be


@dataclass(frozen=True, eq=False)
class Drawn:
    """A list drawn for a request. row: what is recorded, None if nothing is."""

    shown: tuple[Document, ...]
    page: int
    row: "dict[str, Any] | None" = None
    experiment: Experiment | None = None

    def page_of(self, size: int) -> tuple[Document, ...]:
        """Return the documents of the page that was asked for."""
        return self.shown[(self.page - 1) * size : self.page * size]


class Intake:
    """Draws lists, and stores what the writer hands it."""

    def __init__(
        self, store: Store, signer: Signer, settings: Settings, experiment: Callable[[int], Experiment]
    ) -> None:
        self._store, self._signer, self._settings, self._experiment = store, signer, settings, experiment
        self._insert_impressions = (
            store.insert(impressions).on_conflict_do_nothing().returning(impressions.c.id)
        )  # fmt: skip
        self._insert_events = (
            store.insert(events).on_conflict_do_nothing().returning(events.c.impression, events.c.id)
        )  # fmt: skip

    def draw(self, experiment: Experiment, request: ShowRequest) -> Drawn:
        """Draw the list that a request asks for; the control's where the unit takes no part."""
        definition = experiment.definition
        present = self._checked(experiment, request)
        unit = request.unit.encode("utf-8", "surrogatepass")
        position = position_of(self._signer.mac("traffic", experiment.traffic_key.encode() + b"\0" + unit))
        size = definition.k * definition.pages
        if not experiment.takes(position):
            return Drawn(_control_list(experiment, present, request, size), request.page)
        missing = [name for name in definition.rankers if name not in present]
        row: dict[str, Any] = {
            "id": b"",
            "experiment": experiment.number,
            "created": now(),
            "unit": self._signer.unit(request.unit) if definition.hash_units else json.dumps(request.unit),
            "query": json.dumps(request.query) if definition.keep_queries and request.query else None,
            "payload": "",
            "delivered": 1,
            "missing": json.dumps(missing) if missing else None,
            "dirty": True,
        }
        source = [experiment.number, request.unit, request.query, request.salt, request.rankings, _pins(request)]
        row["id"] = self._signer.mac("rankings", json.dumps(source).encode())
        if len(present) < 2:
            shown = _control_list(experiment, present, request, size)
            return Drawn(shown, request.page, row)
        seed = json.dumps([experiment.number, experiment.version, request.unit, request.query, request.salt])
        rankings = {name: present.get(name) for name in definition.rankers}
        impression = get_method(definition.method).combine(rankings, size, seed=seed, pinned=request.pinned or None)
        row["payload"] = json.dumps(impression.to_dict(), separators=(",", ":"))
        row["delivered"] = max(1, min(request.page * definition.k, len(impression.shown)))
        return Drawn(impression.shown, request.page, row, experiment)  # type: ignore[arg-type]

    def answer(self, drawn: Drawn, experiment: Experiment, stored: tuple[bytes, int] | None) -> Shown:
        """Return what a client is told; stored: the key of the impression, and when it was made."""
        page = drawn.page_of(experiment.definition.k)
        if stored is None or drawn.row is None or not drawn.row["payload"]:
            return Shown(None, page, drawn.page, recorded=stored is not None)
        expires = stored[1] + round(experiment.definition.window * SECOND)
        token = self._signer.impression(ImpressionToken(stored[0], experiment.number, expires))
        return Shown(token, page, drawn.page, recorded=True)

    def store_impressions(self, connection: Connection, drawn: Sequence[Drawn]) -> list[tuple[bytes, int]]:
        """Record what was drawn; return each impression's key and when it was made."""
        rows = [d.row for d in drawn if d.row is not None]
        new = set(connection.execute(self._insert_impressions, rows).scalars())
        found = []
        for d in drawn:
            assert d.row is not None
            if d.row["id"] in new:
                new.discard(d.row["id"])  # whoever else asked for it in this batch repeats it
                found.append((d.row["id"], d.row["created"]))
            else:
                found.append(self._repeat(connection, d.row, d.experiment))
        return found

    def _repeat(self, connection: Connection, row: dict[str, Any], experiment: Experiment | None) -> tuple[bytes, int]:
        """Find the impression that a request repeats, or record it anew if that is too long ago."""
        window = round(experiment.definition.window * SECOND) if experiment is not None else 0
        columns = sa.select(impressions.c.created, impressions.c.delivered, impressions.c.latest)
        first = connection.execute(columns.where(impressions.c.id == row["id"])).one()
        key, current = row["id"], first
        if first.latest:
            key = self._repetition(row["id"], first.latest)
            current = connection.execute(columns.where(impressions.c.id == key)).one_or_none() or first
        if row["created"] - current.created > window:
            latest = first.latest + 1
            key = self._repetition(row["id"], latest)
            connection.execute(self._insert_impressions, [{**row, "id": key}])
            connection.execute(
                sa.update(impressions)
                .where(impressions.c.id == row["id"], impressions.c.latest < latest)
                .values(latest=latest)
            )
            current = connection.execute(columns.where(impressions.c.id == key)).one()
        if row["delivered"] > current.delivered:
            connection.execute(
                sa.update(impressions)
                .where(impressions.c.id == key, impressions.c.delivered < row["delivered"])
                .values(delivered=row["delivered"], dirty=True)
            )
        return key, current.created

    def _repetition(self, key: bytes, number: int) -> bytes:
        return self._signer.mac("rankings", key + number.to_bytes(8, "big"))

    def store_events(self, connection: Connection, batches: Sequence[Sequence[Event]]) -> list[list[Receipt]]:
        """Store batches of events; return what became of each."""
        at = now()
        tokens = [[self._signer.read_impression(event.impression) for event in batch] for batch in batches]
        keys = {token.key for found in tokens for token in found if token is not None and token.expires >= at}
        known = self._known(connection, keys)
        receipts: list[list[Receipt | None]] = []
        rows: dict[tuple[bytes, str], dict[str, Any]] = {}
        for batch, found in zip(batches, tokens, strict=True):
            receipts.append([])
            for event, token in zip(batch, found, strict=True):
                refusal, row = self._judge(event, token, known, at)
                if refusal is None and row is not None:
                    refusal_again = (row["impression"], row["id"]) in rows
                    rows.setdefault((row["impression"], row["id"]), row)
                    receipts[-1].append(Receipt(event.id, True, duplicate=True) if refusal_again else None)
                else:
                    receipts[-1].append(refusal)
        new: set[tuple[bytes, str]] = set()
        if rows:
            ordered = [rows[key] for key in sorted(rows)]  # in one order, so that no two workers wait for each other
            new = {(bytes(r.impression), r.id) for r in connection.execute(self._insert_events, ordered)}
        if new:
            changed = sorted({key for key, _ in new})
            connection.execute(sa.update(impressions).where(impressions.c.id.in_(changed)).values(dirty=True))
        return [
            [
                receipt or Receipt(event.id, True, duplicate=(token.key, json.dumps(event.id)) not in new)  # type: ignore[union-attr]
                for event, token, receipt in zip(batch, found, told, strict=True)
            ]
            for batch, found, told in zip(batches, tokens, receipts, strict=True)
        ]

    def _known(self, connection: Connection, keys: set[bytes]) -> dict[bytes, Any]:
        if not keys:
            return {}
        query = sa.select(
            impressions.c.id, impressions.c.experiment, impressions.c.payload, impressions.c.delivered
        ).where(impressions.c.id.in_(sorted(keys)))
        return {bytes(row.id): row for row in connection.execute(query)}

    def _judge(
        self, event: Event, token: ImpressionToken | None, known: dict[bytes, Any], at: int
    ) -> tuple[Receipt | None, dict[str, Any] | None]:
        """Return why an event is refused, or the row to store."""

        def refused(code: str, reason: str) -> tuple[Receipt, None]:
            return Receipt(event.id, False, code=code, reason=reason), None

        if token is None or (token.expires >= at and token.key not in known):
            return refused("unknown_impression", "no impression has this id; expected one that the service gave out.")
        if token.expires < at:
            return refused("expired", "the impression is older than the experiment's window.")
        row = known[token.key]
        definition = self._experiment(token.experiment).definition
        if not definition.hears(event.action):
            return refused("unknown_action", f"the experiment counts {', '.join(definition.actions)}.")
        position = event.position
        if position is None:
            shown = json.loads(row.payload)["shown"][: row.delivered]
            wanted = None if event.document is None else document_text(event.document)
            position = next((x for x, d in enumerate(shown) if document_text(d) == wanted), None)
            if position is None:
                return refused("not_shown", "the document was not shown in this impression.")
        if not 0 <= position < row.delivered:
            return refused("not_shown", f"the positions of this impression are 0 to {row.delivered - 1}.")
        time = at if event.timestamp is None else micros(event.timestamp)
        if time > at + EARLY:
            return refused("in_the_future", "the event's time has not come yet. Is the client's clock right?")
        return None, {
            "impression": token.key,
            "id": json.dumps(event.id),
            "position": position,
            "action": event.action,
            "timestamp": time,
            "dwell": event.dwell,
        }

    def _checked(self, experiment: Experiment, request: ShowRequest) -> dict[str, Sequence[Document]]:
        """Return the rankings of rankers that answered, or refuse the request."""
        definition, longest = experiment.definition, self._settings.longest_ranking
        for name, ranking in request.rankings.items():
            if name not in definition.rankers:
                raise Invalid(
                    f"there is no ranker {name[:100]!r} in experiment {experiment.number}."
                    f"{nearest(name[:100], definition.rankers)}"
                )
            if ranking is not None and len(ranking) > longest:
                raise TooLarge(f"a ranking holds {len(ranking):,} documents; at most {longest:,} are read. Cut it.")
        if not 1 <= request.page <= definition.pages:
            raise Invalid(f"page is {request.page}; the experiment draws pages 1 to {definition.pages}.")
        present = {name: request.rankings.get(name) for name in definition.rankers}
        return {name: ranking for name, ranking in present.items() if ranking}


def _control_list(
    experiment: Experiment, present: dict[str, Sequence[Document]], request: ShowRequest, size: int
) -> tuple[Document, ...]:
    """Return the control's list; the first that is there if the control failed as well."""
    control = present.get(experiment.definition.control)
    ranking = control if control is not None else next(iter(present.values()), ())
    return tuple(with_pins(ranking, request.pinned or {}, size))


def _pins(request: ShowRequest) -> list[tuple[int, Document]]:
    return sorted((request.pinned or {}).items())
