"""Team drafts in UBI logs: clicks on hits that name the ranker they came from.

Such a log knows less than ours. An event names the ranker of its hit, in `event_attributes.search_config`,
`event_attributes.object.search_config` or `event_attributes.object.search_configuration_uuid`; the query names none.
So this is assumed:

- a query in the log is an impression, with or without events: the queries of the experiment, and no others, are
  there. Others would not change who wins, but make every preference per impression smaller;
- the rankers compared are those that some event names. Experiments are told apart by
  `event_attributes.ab_test_id`, and by the same field in `query_attributes`;
- results without events are not known, nor needed: a team draft counts clicks. Whether teams were balanced cannot be
  looked at then;
- a hit that names no ranker belongs to none of them.

Where a query's attributes hold `rankings` (each ranker's own list) and `teams` (the ranker of each hit), beside the
hits in `query_response_hit_ids`, the whole page and its ranks are known, and any of this can be left to them.

The join is DuckDB's, out of core; each query becomes a row of our own format with what is known of its page.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from multileave.errors import DataError
from multileave.impression import FORMAT_VERSION
from multileave.integrations.team_drafts import team_draft_impression
from multileave.integrations.ubi import (
    Paths,
    attributes_of,
    document_of,
    line_files,
    ordinal_of,
    query_fields,
    time_of,
    unwrapped,
)
from multileave.log.reader import RowError, document_text, id_text, parse_line, read_time, short
from multileave.log.schema import JOINED
from multileave.log.writer import write_parquet
from multileave.methods.base import Method
from multileave.methods.team_draft import TeamDraft
from multileave.replay.engine import Progress, replay
from multileave.replay.inferring.credit import MOST_DRAWN
from multileave.replay.reading.click_join import create_table, open_database, stream
from multileave.replay.reading.files import LogFile, Part, parts
from multileave.replay.reading.parts import contents
from multileave.replay.report import Counts, Quarantine, Replay

__all__ = ["replay_team_draft"]

QUERIES = pa.schema(
    [
        ("place", pa.int64()),
        ("query_id", pa.string()),
        ("unit", pa.string()),
        ("time", pa.int64()),
        ("test", pa.string()),
        ("page", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
    ]
)
EVENTS = pa.schema(
    [
        ("query_id", pa.string()),
        ("document", pa.string()),
        ("ordinal", pa.int64()),
        ("ranker", pa.string()),
        ("event_test", pa.string()),
        ("action", pa.string()),
        ("event_time", pa.int64()),
        ("dwell", pa.float64()),
    ]
)
JOIN = """
    SELECT q.*, e.* EXCLUDE (query_id) FROM (FROM queries QUALIFY row_number() OVER (PARTITION BY query_id ORDER BY place) = 1) q
    LEFT JOIN events e ON q.query_id = e.query_id
    ORDER BY q.place, e.ordinal NULLS LAST, e.document, e.event_time NULLS LAST
"""  # noqa: E501


def replay_team_draft(
    queries: Paths,
    events: Paths,
    *,
    unit: str | None = "client_id",
    actions: Sequence[str] = ("click",),
    dwell: float = 30.0,
    window: timedelta | None = None,
    cap: int | None = None,
    quarantine: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    filesystem: Any = None,
    memory: str | None = None,
    progress: Progress | None = None,
    method: str | Method | None = None,
) -> Replay:
    """Infer UBI queries whose events name the ranker of each hit, as a team draft does.

    The options are those of `multileave.replay.replay`. A query that stands there again is left out.
    """
    asked, told = line_files(queries, filesystem), line_files(events, filesystem)
    wrong = Quarantine(Path(quarantine) if quarantine is not None else None)
    reading = _Reading(wrong, progress or (lambda what, done, total: None))
    try:
        with tempfile.TemporaryDirectory(prefix="multileave-") as folder:
            database = open_database(folder, memory=memory, threads=workers or os.cpu_count() or 1)
            try:
                create_table(database, "events", EVENTS, reading.events(told))
                create_table(database, "queries", QUERIES, reading.queries(asked, unit))
                pages = _Pages(database, wrong, reading.counts)
                log = os.path.join(folder, "log.parquet")
                reading.progress("joining", 0, 0)
                write_parquet(log, pages.rows(), JOINED)
            finally:
                database.close()
            found = replay(
                log, actions=actions, dwell=dwell, window=window, cap=cap, workers=workers, progress=progress,
                whole_pages=False, method=method,
            )  # fmt: skip
    finally:
        wrong.close()
    return replace(
        found,
        counts=_together(reading.counts, found.counts),
        files=len({file.path for file in (*asked, *told)}),
        examples=tuple(wrong.examples),
        reasons=dict(wrong.reasons),
        quarantine=None if wrong.path is None or not wrong.reasons else str(wrong.path),
    )


def _together(read: Counts, inferred: Counts) -> Counts:
    """Return the counts of what was read and of what was inferred of it; rows and clicks are those that were read."""
    fields = {name: value + vars(inferred)[name] for name, value in vars(read).items()}
    return Counts(**{**fields, "rows": read.rows, "clicks": read.clicks})


class _Reading:
    """Reads rows into batches for the database, and counts them."""

    def __init__(self, wrong: Quarantine, progress: Progress) -> None:
        self.wrong, self.progress, self.counts = wrong, progress, Counts()

    def events(self, files: list[LogFile]) -> Iterator[pa.RecordBatch]:
        counts = self.counts
        for part, read in self._parts(files, "reading events", _event):
            rows = [row for _, row in read if isinstance(row, dict)]
            errors = [(number, row) for number, row in read if isinstance(row, RowError)]
            counts.clicks += len(read)
            counts.malformed_clicks += len(errors)
            counts.unused_clicks += len(read) - len(rows) - len(errors)
            self._put_aside(part, errors)
            yield pa.RecordBatch.from_pylist(rows, schema=EVENTS)

    def queries(self, files: list[LogFile], unit: str | None) -> Iterator[pa.RecordBatch]:
        counts = self.counts
        for part, read in self._parts(files, "reading queries", lambda raw: _query(raw, unit)):
            errors = [(number, row) for number, row in read if isinstance(row, RowError)]
            rows = [
                {**row, "place": counts.rows + place, "file": part.file.path, "line": number}
                for place, (number, row) in enumerate(read)
                if isinstance(row, dict)
            ]
            counts.rows += len(read)
            counts.malformed += len(errors)
            counts.filtered += len(read) - len(rows) - len(errors)
            self._put_aside(part, errors)
            yield pa.RecordBatch.from_pylist(rows, schema=QUERIES)

    def _parts(
        self, files: list[LogFile], what: str, read: Callable[[Mapping[str, Any]], dict[str, Any] | None]
    ) -> Iterator[tuple[Part, list[tuple[int, Any]]]]:
        """Yield the parts of files, and for each line its number and row, None, or what is wrong with it."""
        done, total = 0, sum(file.size for file in files)
        for part in parts(files):
            self.progress(what, done, total)
            done = min(done + part.size, total)
            if part.error is not None:
                self.counts.lost_parts += 1
                self.wrong.add(part.file.path, -1, None, part.error, rows=0)
            found: list[tuple[int, Any]] = []
            for number, line in enumerate(part.lines, start=part.first):
                if line.strip():
                    raw = parse_line(line)
                    if not isinstance(raw, Mapping | RowError):
                        raw = RowError(f"a row is an object, not {short(raw)}")
                    try:
                        found.append((number, raw if isinstance(raw, RowError) else read(raw)))
                    except RowError as error:
                        found.append((number, error))
            yield part, found

    def _put_aside(self, part: Part, errors: list[tuple[int, RowError]]) -> None:
        lines = contents(part, [number for number, _ in errors])
        for (number, error), line in zip(errors, lines, strict=True):
            self.wrong.add(part.file.path, -1, number, error, line)


def _query(raw: Mapping[str, Any], unit: str | None) -> dict[str, Any] | None:
    row = unwrapped(raw)
    if "action_name" in row or not ("query_id" in row or "user_query" in row):
        return None
    query_id = id_text(row.get("query_id"))
    if not query_id:
        raise RowError("a query without 'query_id', to which no event can refer")
    attributes = attributes_of(row, "query_attributes")
    return {
        "query_id": query_id,
        "unit": None if unit is None else id_text(query_fields(row, attributes).get(unit)),
        "time": read_time(time_of(row)),
        "test": id_text(attributes.get("ab_test_id")),
        "page": _page(row, attributes),
    }


def _page(row: Mapping[str, Any], attributes: Mapping[str, Any]) -> str | None:
    """Return the page of a query with the teams of its hits and the rankers' own lists, as JSON, if it is logged."""
    if "rankings" not in attributes or "teams" not in attributes:
        return None
    held = {name: attributes[name] for name in ("rankings", "teams")}
    held["shown"] = row.get("query_response_hit_ids")
    try:
        page = {name: json.loads(value) if isinstance(value, str) else value for name, value in held.items()}
        lists = {str(name): [id_text(document_text(d)) for d in ranking] for name, ranking in page["rankings"].items()}
        shown = [id_text(document_text(d)) for d in page["shown"]]
        team_draft_impression(lists, shown, page["teams"])
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise RowError(f"'rankings', 'teams' and 'query_response_hit_ids' are not a team draft: {error}") from error
    return json.dumps({"rankings": lists, "shown": shown, "teams": page["teams"]})


def _event(raw: Mapping[str, Any]) -> dict[str, Any] | None:
    row = unwrapped(raw)
    if "action_name" not in row:
        return None
    action, dwell = row["action_name"], None
    if not isinstance(action, str):
        raise RowError(f"'action_name' is {short(action)}; expected a name")
    attributes = attributes_of(row, "event_attributes")
    target = attributes_of(attributes, "object")
    given = (
        attributes.get("search_config"), target.get("search_config"), target.get("search_configuration_uuid")
    )  # fmt: skip
    ranker = next((name for name in map(id_text, given) if name), None)
    query_id = id_text(row.get("query_id"))
    if not query_id:
        if ranker is None:
            return None
        raise RowError("an event names its ranker but no 'query_id', so its impression is not known")
    document, ordinal = document_of(attributes), ordinal_of(attributes)
    if document is None and ordinal is None:
        return None
    if isinstance(document, list | dict):
        raise RowError(f"'object_id' is {short(document)}; expected an id")
    stayed = attributes.get("dwell_time")
    if isinstance(stayed, int | float) and not isinstance(stayed, bool) and abs(stayed) < 1e300:
        dwell = float(stayed)
    return {
        "query_id": query_id,
        "document": f"ordinal {ordinal}" if document is None else id_text(document_text(document)),
        "ordinal": ordinal,
        "ranker": ranker,
        "event_test": id_text(attributes.get("ab_test_id")),
        "action": id_text(action),
        "event_time": read_time(time_of(row)),
        "dwell": dwell,
    }


class _Pages:
    """Makes rows of our format: queries with what their events tell of their pages."""

    def __init__(self, database: Any, wrong: Quarantine, counts: Counts) -> None:
        self.database, self.wrong, self.counts = database, wrong, counts
        self.rankers: dict[str, list[str]] = {}
        for test, ranker in database.execute(
            "SELECT DISTINCT coalesce(event_test, ''), ranker FROM events WHERE ranker IS NOT NULL ORDER BY ALL"
        ).fetchall():
            self.rankers.setdefault(test, []).append(ranker)
        logged = self._number("SELECT count(*) FROM queries WHERE page IS NOT NULL")
        if not logged and not any(len(names) > 1 for names in self.rankers.values()):
            named = ", ".join(name for names in self.rankers.values() for name in names) or "none"
            raise DataError(
                f"the events name {named} as rankers; expected two or more, in event_attributes.search_config or "
                "event_attributes.object.search_configuration_uuid. Is this a log of a team draft?"
            )
        counts.orphan_clicks = self._number("SELECT count(*) FROM events ANTI JOIN queries USING (query_id)")
        repeated = self._number("SELECT count(*) - count(DISTINCT query_id) FROM queries")
        counts.repeated_impressions += repeated
        counts.filtered += repeated

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row of `JOINED` for every query that can be inferred."""
        joined: Iterable[dict[str, Any]] = (row for batch in stream(self.database, JOIN) for row in batch.to_pylist())
        for _, group in groupby(joined, key=lambda row: row["place"]):
            rows = list(group)
            query, events = rows[0], [row for row in rows if row["action"] is not None]
            rankers = self.rankers.get(self._test(query, events), [])
            if len(rankers) < 2 and query["page"] is None:
                self.counts.filtered += 1
                self.counts.clicks_of_other_rows += len(events)
                continue
            try:
                yield _row(query, events, rankers)
            except RowError as error:
                self.counts.malformed += 1
                self.counts.clicks_of_other_rows += len(events)
                self.wrong.add(query["file"], -1, query["line"], error, {"query_id": query["query_id"]})

    def _test(self, query: dict[str, Any], events: list[dict[str, Any]]) -> str:
        """Return the experiment of a query: that which its events name, or itself, or the only one."""
        named = next((event["event_test"] or "" for event in events if event["ranker"] is not None), None)
        if named is not None:
            return named
        if query["test"] is not None:
            return str(query["test"])
        return next(iter(self.rankers)) if len(self.rankers) == 1 else ""

    def _number(self, query: str) -> int:
        [(number,)] = self.database.execute(query).fetchall()
        return int(number)


def _row(query: dict[str, Any], events: list[dict[str, Any]], rankers: list[str]) -> dict[str, Any]:
    """Return a query as a row of `JOINED`: an impression of tdm whose page is logged, or what its events name."""
    if query["page"] is not None:
        return _logged_row(query, events)
    teams: dict[str, str | None] = {}
    for event in events:
        document, ranker = event["document"], event["ranker"]
        if ranker is not None and ranker not in rankers:
            raise RowError(f"events of one query are of two experiments: {ranker!r} is not in the first")
        if ranker is not None and teams.get(document) not in (None, ranker):
            both = f"{teams[document]!r} and to {ranker!r}"
            raise RowError(f"events give document {document!r} to {both}; expected one ranker")
        teams[document] = teams.get(document) or ranker
    if len(teams) > MOST_DRAWN:
        raise RowError(f"events name {len(teams):,} documents of one query")
    places = {document: place for place, document in enumerate(teams)}
    return {
        "version": FORMAT_VERSION,
        "impression_id": query["query_id"],
        "timestamp": query["time"],
        "user_id": query["unit"],
        "method": TeamDraft().spelled,
        "rankers": rankers,
        "k": len(teams),
        "shown": list(teams),
        "hidden": [],
        "pinned": [],
        "lengths": [max(len(teams), 1)] * len(rankers),  # not known, and not nothing
        "ranks": [],
        "note": [-1 if team is None else rankers.index(team) for team in teams.values()],
        "stat": [],
        "clicks": [
            {
                "position": places[event["document"]],
                "action": event["action"],
                "timestamp": event["event_time"],
                "dwell": event["dwell"],
            }
            for event in events
        ],
    }


def _logged_row(query: dict[str, Any], events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a query whose page, teams and rankings were logged as a row of `JOINED`."""
    impression = team_draft_impression(**json.loads(query["page"])).to_dict()
    return {
        **impression,
        "impression_id": query["query_id"],
        "timestamp": query["time"],
        "user_id": query["unit"],
        "ranks": [rank for ranks in impression["ranks"] for rank in ranks],
        "clicks": [
            {
                "document": event["document"],
                "action": event["action"],
                "timestamp": event["event_time"],
                "dwell": event["dwell"],
            }
            for event in events
        ],
    }
