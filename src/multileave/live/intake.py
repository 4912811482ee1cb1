"""Intake: drawing lists and judging events, before they are stored.

An impression's key is a hash of everything it was drawn from: the experiment, the unit, the query, the salt, the
rankings and the pins. So the same request is the same impression, counted once, until the experiment's window has
passed; after that it is a repetition with its own key. Workers that receive it at the same time agree, since the key
is the primary key of its row.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from multileave.assignment import position_of
from multileave.errors import nearest
from multileave.impression import Impression
from multileave.live.access.rate_limits import RateLimit
from multileave.live.access.tokens import ImpressionToken, Signer
from multileave.live.errors import Invalid, TooLarge, TooMany
from multileave.live.experiment import Experiment
from multileave.live.records import Document, Event, Receipt, Shown, ShowRequest
from multileave.live.settings import Settings
from multileave.live.store.database import Connection, Store
from multileave.live.store.impressions import EventKey, ImpressionWriter
from multileave.live.store.times import CLOCK_SKEW, SECOND, micros, now
from multileave.log import document_text
from multileave.methods import get_method
from multileave.rankings import with_pins


@dataclass(frozen=True, eq=False)
class Drawn:
    """A list drawn for a request. row: what is recorded, None if nothing is; window: in microseconds."""

    shown: tuple[Document, ...]
    page: int
    row: dict[str, Any] | None = None
    window: int = 0

    def page_of(self, size: int) -> tuple[Document, ...]:
        """Return the documents of the requested page."""
        return self.shown[(self.page - 1) * size : self.page * size]


class Intake:
    """Draws lists, and stores the impressions and events that the writer passes on."""

    def __init__(
        self, store: Store, signer: Signer, settings: Settings, experiment: Callable[[int], Experiment]
    ) -> None:
        self._signer, self._settings, self._experiment = signer, settings, experiment
        self._writer = ImpressionWriter(store)
        self._events_per_impression = RateLimit(settings.events_per_impression)

    def draw(self, experiment: Experiment, request: ShowRequest) -> Drawn:
        """Draw the list for a request; the control's list if the unit does not take part."""
        definition = experiment.definition
        present = self._present(experiment, request)
        unit = request.unit.encode("utf-8", "surrogatepass")
        position = position_of(self._signer.mac("traffic", experiment.traffic_key.encode() + b"\0" + unit))
        size = definition.k * definition.pages
        arm, is_open = None, True
        if experiment.arm_slices:
            hashed = self._signer.mac("traffic", f"arms:{experiment.number}".encode() + b"\0" + unit)
            arm, is_open = experiment.arms.find(position_of(hashed))
        if not experiment.takes(position) or (arm is not None and not is_open):
            return Drawn(_control_list(experiment, present, request, size), request.page)
        dropped = experiment.dropped
        needed = definition.rankers if arm is None else (arm,)
        missing = [name for name in needed if name not in present and name not in dropped]
        rankings = {name: ranking for name, ranking in request.rankings.items() if ranking is not None}
        pins = sorted((request.pinned or {}).items())
        source = [experiment.number, request.unit, request.query, request.salt, rankings, pins]
        source += [dropped] if dropped else []  # the same request is another list now
        source += [] if arm is None else [{"arm": arm}]
        row: dict[str, Any] = {
            "id": self._signer.mac("rankings", json.dumps(source).encode()),
            "experiment": experiment.number,
            "created": now(),
            "unit": self._signer.unit(request.unit) if definition.hash_units else json.dumps(request.unit),
            "query": json.dumps(request.query) if definition.keep_queries and request.query else None,
            "payload": "",
            "delivered": 1,
            "missing": json.dumps(missing) if missing else None,
            "segment": request.segment,
            "arm": arm,
            "dirty": True,
        }
        if arm is None and len(present) < 2:
            return Drawn(_control_list(experiment, present, request, size), request.page, row)
        pinned = request.pinned or None
        if arm is None:
            seed = json.dumps([experiment.number, experiment.version, request.unit, request.query, request.salt])
            ranked = {name: present.get(name) for name in definition.rankers}
            method = get_method(definition.method)
            impression = method.combine(
                ranked, size, seed=seed, pinned=pinned, propensities=method.keeps_propensities
            )  # fmt: skip
        else:
            # Once each: to refuse what one ranker returned would leave pages out of its arm alone.
            own, instead = (tuple(dict.fromkeys(one)) for one in (present.get(arm, ()), _instead(experiment, present)))
            impression = Impression.alone(arm, own, size, pinned=pinned, fallback=instead)
        row["payload"] = json.dumps(impression.to_dict(), separators=(",", ":"))
        row["delivered"] = max(1, min(request.page * definition.k, len(impression.shown)))
        return Drawn(impression.shown, request.page, row, round(definition.window * SECOND))  # type: ignore[arg-type]

    def shown(self, drawn: Drawn, experiment: Experiment, stored: tuple[bytes, int] | None) -> Shown:
        """Return the response to a search. stored: the impression's key and its creation time."""
        page = drawn.page_of(experiment.definition.k)
        if stored is None or drawn.row is None or not drawn.row["payload"] or not drawn.shown:
            return Shown(None, page, drawn.page, recorded=stored is not None)
        expires = stored[1] + round(experiment.definition.window * SECOND)
        token = self._signer.impression(ImpressionToken(stored[0], experiment.number, expires))
        return Shown(token, page, drawn.page, recorded=True)

    def store_impressions(self, connection: Connection, drawn: Sequence[Drawn]) -> list[tuple[bytes, int]]:
        """Store what was drawn; return each impression's key and when it was created."""
        rows = [(d.row, d.window) for d in drawn if d.row is not None]
        return self._writer.insert(connection, rows, self._repetition)

    def _repetition(self, key: bytes, number: int) -> bytes:
        return self._signer.mac("rankings", key + number.to_bytes(8, "big"))

    def store_events(self, connection: Connection, batches: Sequence[Sequence[Event]]) -> list[list[Receipt]]:
        """Store batches of events; return the receipt of each event."""
        at = now()
        tokens = [[self._signer.read_impression(event.impression) for event in batch] for batch in batches]
        keys = {token.key for found in tokens for token in found if token is not None and token.expires >= at}
        known = self._writer.find(connection, keys)
        rows: dict[EventKey, dict[str, Any]] = {}
        judged: list[list[Receipt | EventKey]] = []  # why it is rejected, or the key of its row
        for batch, found in zip(batches, tokens, strict=True):
            judged.append([])
            for event, token in zip(batch, found, strict=True):
                row = self._judge(event, token, known, at)
                if isinstance(row, Receipt):
                    judged[-1].append(row)
                    continue
                key = (row["impression"], row["position"], row["action"])
                judged[-1].append(Receipt(event.id, True, duplicate=True) if key in rows else key)
                rows[key] = _merged(rows[key], row) if key in rows else row
        new = self._writer.insert_events(connection, rows)
        return [
            [
                result if isinstance(result, Receipt) else Receipt(event.id, True, duplicate=result not in new)
                for event, result in zip(batch, results, strict=True)
            ]
            for batch, results in zip(batches, judged, strict=True)
        ]

    def _judge(
        self, event: Event, token: ImpressionToken | None, known: dict[bytes, Any], at: int
    ) -> Receipt | dict[str, Any]:
        """Return why an event is rejected, or the row to store."""

        def rejected(code: str, reason: str) -> Receipt:
            return Receipt(event.id, False, code=code, reason=reason)

        if token is None or (token.expires >= at and token.key not in known):
            return rejected("unknown_impression", "No impression has this id; expected one that the service returned.")
        if token.expires < at:
            return rejected("expired", "The impression is older than the experiment's window.")
        if self._events_per_impression.wait(token.key):
            return rejected(TooMany.code, "The impression got too many events within a minute. Send it later.")
        row = known[token.key]
        definition = self._experiment(token.experiment).definition
        if not definition.accepts(event.action):
            return rejected("unknown_action", f"The experiment counts {', '.join(definition.actions)}.")
        position = event.position
        if position is None:
            shown = json.loads(row.payload)["shown"][: row.delivered]
            wanted = None if event.document is None else document_text(event.document)
            position = next((x for x, d in enumerate(shown) if document_text(d) == wanted), None)
            if position is None:
                return rejected("not_shown", "The document was not shown in this impression.")
        if not 0 <= position < row.delivered:
            return rejected("not_shown", f"The positions of this impression are 0 to {row.delivered - 1}.")
        time = at if event.timestamp is None else micros(event.timestamp)
        if time > at + CLOCK_SKEW:
            return rejected("in_the_future", "The event's timestamp is in the future. Check the client's clock.")
        if time < row.created - CLOCK_SKEW:
            return rejected("before_impression", "The event's timestamp is before its list was drawn. Check the clock.")
        return {
            "impression": token.key,
            "position": position,
            "action": event.action,
            "timestamp": time,
            "dwell": event.dwell,
            "value": event.value,
        }

    def _present(self, experiment: Experiment, request: ShowRequest) -> dict[str, Sequence[Document]]:
        """Return the rankings of the rankers that answered and were not dropped, in order, or refuse the request."""
        definition, longest = experiment.definition, self._settings.longest_ranking
        for name, ranking in request.rankings.items():
            if name not in definition.rankers:
                raise Invalid(
                    f"There is no ranker {name[:100]!r} in experiment {experiment.number}."
                    f"{nearest(name[:100], definition.rankers)}"
                )
            if ranking is not None and len(ranking) > longest:
                raise TooLarge(f"A ranking has {len(ranking):,} documents; expected at most {longest:,}. Truncate it.")
        if not 1 <= request.page <= definition.pages:
            raise Invalid(f"page is {request.page}; the experiment draws pages 1 to {definition.pages}.")
        found = {name: request.rankings.get(name) for name in definition.rankers if name not in experiment.dropped}
        return {name: ranking for name, ranking in found.items() if ranking}


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return one event for two of the same position and action, as the store merges them."""
    merged = {**one, "timestamp": min(one["timestamp"], other["timestamp"])}
    for name in ("dwell", "value"):
        merged[name] = max((row[name] for row in (one, other) if row[name] is not None), default=None)
    return merged


def _control_list(
    experiment: Experiment, present: dict[str, Sequence[Document]], request: ShowRequest, size: int
) -> tuple[Document, ...]:
    """Return the control's list with pins; that of the first ranker that answered if the control failed."""
    return tuple(with_pins(_instead(experiment, present), request.pinned or {}, size))


def _instead(experiment: Experiment, present: dict[str, Sequence[Document]]) -> Sequence[Document]:
    """Return the control's ranking, or the first of those that answered, or nothing."""
    control = present.get(experiment.definition.control)
    return control if control is not None else next(iter(present.values()), ())
