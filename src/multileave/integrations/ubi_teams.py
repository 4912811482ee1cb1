"""Team drafts in UBI logs: clicks on hits that name the ranker they came from.

Such a log holds less than ours. An event names the ranker of its hit, in `event_attributes.search_config`,
`event_attributes.object.search_config` or `event_attributes.object.search_configuration_uuid`; the query names none.
So we assume:

- Every query in the log is an impression, with or without events: the log holds the queries of the experiment and no
  others. Others would not change who wins, but would make every preference per impression smaller.
- The rankers compared are those that some event names. Experiments are distinguished by
  `event_attributes.ab_test_id`, and by the same field in `query_attributes`.
- Results without events are unknown and not needed, as a team draft counts clicks. The balance of teams cannot be
  checked then.
- A hit that names no ranker belongs to none of them.

If a query's attributes hold `rankings` (each ranker's own list) and `teams` (the ranker of each hit), besides the
hits in `query_response_hit_ids`, the whole page and its ranks are known, and none of this is needed.

DuckDB joins queries and events out of core; each query becomes a row of our own format.
"""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from multileave.errors import DataError
from multileave.impression import Impression
from multileave.integrations.team_drafts import drafted_page, team_draft_impression
from multileave.integrations.ubi import Ubi, attributes_of, line_files, ordinal_of, query_fields, time_of, unwrapped
from multileave.log import JOINED, document_text, to_row, write_parquet
from multileave.log.reader import RowError, id_text, read_click, read_time
from multileave.replay.engine import Progress, replay
from multileave.replay.inferring.checking import MOST_DRAWN
from multileave.replay.reading.click_join import create_table, open_database, stream
from multileave.replay.reading.files import LogFile, Paths, parts
from multileave.replay.reading.parts import load_lines
from multileave.replay.reading.preparing import CLICK_ROWS
from multileave.replay.report import Counts, Quarantine, Replay, quarantine_entry

QUERIES = pa.schema(
    [
        ("query_id", pa.string()),
        ("unit", pa.string()),
        ("shown_at", pa.int64()),
        ("test", pa.string()),
        ("page", pa.string()),
        ("file", pa.string()),
        ("row", pa.int64()),
    ]
)
EVENTS = pa.schema([*CLICK_ROWS, pa.field("ranker", pa.string()), pa.field("event_test", pa.string())])
JOIN = """
    SELECT q.*, e.* FROM (FROM queries QUALIFY row_number() OVER (PARTITION BY query_id ORDER BY file, row) = 1) q
    LEFT JOIN events e ON q.query_id = e.impression_id
    ORDER BY q.file, q.row, e.position NULLS LAST, e.document, e.time NULLS LAST
"""


def replay_team_draft(
    queries: Paths,
    events: Paths,
    *,
    unit: str | None = "client_id",
    quarantine: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    filesystem: Any = None,
    memory: str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Replay:
    """Infer UBI queries whose events name the ranker of each hit, as in a team draft.

    unit: `client_id`, or another field of queries or of their `query_attributes`.
    options: those of `multileave.replay.replay`. A repeated query is left out.
    """
    asked, told = line_files(queries, filesystem), line_files(events, filesystem)
    progress = progress or (lambda what, done, total: None)
    with Quarantine(quarantine) as wrong, tempfile.TemporaryDirectory(prefix="multileave-") as folder:
        database = open_database(folder, memory=memory, threads=workers or os.cpu_count() or 1)
        try:
            clicks, rows = Counter[str](), Counter[str]()
            events_read = _read("events", told, _event, EVENTS, wrong, progress, clicks)
            create_table(database, "events", EVENTS, events_read)
            queries_read = _read("queries", asked, partial(_query, unit), QUERIES, wrong, progress, rows)
            create_table(database, "queries", QUERIES, queries_read)
            counts = Counts(
                rows["rows"], filtered=rows["filtered"], malformed=rows["malformed"], clicks=clicks["rows"],
                unused_clicks=clicks["filtered"], malformed_clicks=clicks["malformed"],
                lost_parts=rows["lost"] + clicks["lost"],
            )  # fmt: skip
            pages = _Pages(database, wrong, counts)
            log = os.path.join(folder, "log.parquet")
            progress("joining", 0, 0)
            write_parquet(log, pages.rows(), JOINED)
        finally:
            database.close()
        found = replay(log, workers=workers, progress=progress, whole_pages=False, **options)
        # All rows and clicks are those that were read here.
        counts = replace(counts + found.counts, rows=counts.rows, clicks=counts.clicks)
        files = len({file.path for file in (*asked, *told)})
        return replace(found, counts=counts, files=files, **wrong.results())


def _read(
    what: str,
    files: list[LogFile],
    read: Callable[[str, Mapping[str, Any]], dict[str, Any] | None],
    schema: pa.Schema,
    wrong: Quarantine,
    progress: Progress,
    found: Counter[str],
) -> Iterator[pa.RecordBatch]:
    """Yield rows of a schema; found: counts the rows, and those filtered out, malformed and lost."""
    done, total = 0, sum(file.size for file in files)
    for part in parts(files):
        progress(f"reading {what}", done, total)
        done = min(done + part.size, total)
        loaded = load_lines(part, partial(read, part.file.path), schema)
        malformed = wrong.add(loaded.entries(part))
        found.update(rows=loaded.rows, filtered=loaded.filtered, lost=len(loaded.lost), malformed=malformed)
        yield from loaded.batches


def _query(unit: str | None, file: str, raw: Mapping[str, Any]) -> dict[str, Any] | None:
    row = unwrapped(raw)
    if "action_name" in row or not ("query_id" in row or "user_query" in row):
        return None
    query_id = id_text(row.get("query_id"))
    if not query_id:
        raise RowError("The query has no 'query_id', so no event can refer to it.")
    attributes = attributes_of(row, "query_attributes")
    return {
        "query_id": query_id,
        "unit": None if unit is None else id_text(query_fields(row, attributes).get(unit)),
        "shown_at": read_time(time_of(row)),
        "test": id_text(attributes.get("ab_test_id")),
        "page": _page(row, attributes),
        "file": file,
    }


def _page(row: Mapping[str, Any], attributes: Mapping[str, Any]) -> str | None:
    """Return the page of a query with its teams and rankings as JSON, None if they are not logged."""
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


def _event(file: str, raw: Mapping[str, Any]) -> dict[str, Any] | None:
    row = unwrapped(raw)
    if "action_name" not in row:
        return None
    attributes = attributes_of(row, "event_attributes")
    target = attributes_of(attributes, "object")
    given = (
        attributes.get("search_config"), target.get("search_config"), target.get("search_configuration_uuid")
    )  # fmt: skip
    ranker = next((name for name in map(id_text, given) if name), None)
    if ranker is not None and not id_text(row.get("query_id")):
        raise RowError("The event names its ranker but no 'query_id', so its impression is unknown.")
    click = Ubi().click(raw)
    if click is None:
        return None
    event = read_click(click)
    event["position"] = ordinal_of(attributes)
    event["document"] = event["document"] or f"ordinal {event['position']}"
    return {**event, "ranker": ranker, "event_test": id_text(attributes.get("ab_test_id"))}


class _Pages:
    """Makes rows of our format from queries and the events that tell what was on their pages."""

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
                f"The events name {named} as rankers; expected two or more, in event_attributes.search_config or "
                "event_attributes.object.search_configuration_uuid. Is this the log of a team draft?"
            )
        orphans = "SELECT count(*) FROM events e ANTI JOIN queries q ON e.impression_id = q.query_id"
        counts.orphan_clicks = self._number(orphans)
        counts.repeated_impressions += self._number("SELECT count(*) - count(DISTINCT query_id) FROM queries")

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row of `JOINED` for every query that can be inferred."""
        joined: Iterable[dict[str, Any]] = (row for batch in stream(self.database, JOIN) for row in batch.to_pylist())
        for _, group in groupby(joined, key=lambda row: (row["file"], row["row"])):
            rows = list(group)
            query, events = rows[0], [row for row in rows if row["action"] is not None]
            rankers = self.rankers.get(self._test(query, events), [])
            if len(rankers) < 2 and query["page"] is None:
                self.counts.filtered += 1
                self.counts.clicks_of_other_rows += len(events)
                continue
            try:
                impression = _impression(query, events, rankers)
            except RowError as error:
                self.counts.malformed += 1
                self.counts.clicks_of_other_rows += len(events)
                named = {"query_id": query["query_id"]}
                self.wrong.add([quarantine_entry(query["file"], {"line": query["row"]}, error, named)])
                continue
            clicks = [
                {"document": e["document"], "action": e["action"], "timestamp": e["time"], "dwell": e["dwell"]}
                for e in events
            ]
            yield to_row(
                impression,
                impression_id=query["query_id"],
                timestamp=query["shown_at"],
                user_id=query["unit"],
                clicks=clicks,
            )

    def _test(self, query: dict[str, Any], events: list[dict[str, Any]]) -> str:
        """Return the experiment of a query: the one its events name, or the query itself, or the only one."""
        named = next((event["event_test"] or "" for event in events if event["ranker"] is not None), None)
        if named is not None:
            return named
        if query["test"] is not None:
            return str(query["test"])
        return next(iter(self.rankers)) if len(self.rankers) == 1 else ""

    def _number(self, query: str) -> int:
        [(number,)] = self.database.execute(query).fetchall()
        return int(number)


def _impression(query: dict[str, Any], events: list[dict[str, Any]], rankers: list[str]) -> Impression:
    """Return the impression of a query from its logged page, or else from the teams that its events name."""
    if query["page"] is not None:
        return team_draft_impression(**json.loads(query["page"]))
    teams: dict[str, str | None] = {}
    for event in events:
        document, ranker = event["document"], event["ranker"]
        if ranker is not None and ranker not in rankers:
            raise RowError(f"Events of the query belong to two experiments: {ranker!r} is not in the first.")
        if ranker is not None and teams.get(document) not in (None, ranker):
            both = f"{teams[document]!r} and to {ranker!r}"
            raise RowError(f"Events assign document {document!r} to {both}; expected one ranker.")
        teams[document] = teams.get(document) or ranker
    if len(teams) > MOST_DRAWN:
        raise RowError(f"Events of the query name {len(teams):,} documents; expected at most {MOST_DRAWN:,}.")
    lengths = np.full(len(rankers), max(len(teams), 1), dtype=np.int32)  # unknown, but not 0
    return drafted_page(rankers, list(teams), teams.values(), lengths, np.zeros((0, len(rankers)), dtype=np.int32))
