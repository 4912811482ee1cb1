"""Result pages with clicks from logs, for fitting user models: which documents were shown, and clicked in which order.

Two notations of a row are read. Rows of our own log (see `multileave.log`) have a version and a method; clicks are in
the row or in separate files. All others are plain pages:

    {"session": "s1", "query": "q7", "shown": ["d3", "d1"], "clicks": [1, 0], "grades": [0, 2]}

with the positions clicked, from 0 and in the order of clicking. "session" may be null or missing, "grades" may be
missing. Other formats are translated into these. Parts of files are read one after another; see
`multileave.replay.reading`.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multileave.clicks.fitting import PageCollector, Pages
from multileave.errors import ClicksError, DataError
from multileave.log.reader import RowError, id_text, read_click, read_row, short
from multileave.replay.reading.click_join import ClickJoin
from multileave.replay.reading.files import LogFile, Part, Paths, find_files, parts, unreadable
from multileave.replay.reading.parts import Loaded, load_clicks, load_ids, parse
from multileave.replay.reading.preparing import row_dicts
from multileave.replay.report import Quarantine

Progress = Callable[[str, int, int], None]
OWN_UNITS = ("session_id", "user_id")


class PageFormat(Protocol):
    """How rows of another format become pages and clicks; None for rows that are something else."""

    def impression_id(self, raw: Mapping[str, Any]) -> Any:
        """Return the id by which clicks refer to a page."""

    def impression(self, raw: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return a page as a plain page or a row of our log, or raise `RowError`."""

    def click(self, raw: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return a row of clicks, or raise `RowError`."""


@dataclass
class PageCounts:
    """Rows of a log: rows == pages + quarantined + repeated + other; orphan_clicks belong to none of them.

    lost_parts are files and row groups that could not be read to their end.
    """

    rows: int = 0
    pages: int = 0
    quarantined: int = 0
    repeated: int = 0
    other: int = 0
    lost_parts: int = 0
    malformed_clicks: int = 0
    orphan_clicks: int = 0
    unused_clicks: int = 0


@dataclass(frozen=True, eq=False)
class ClickedPages:
    """The pages of a log, the counts of its rows, and examples of what was wrong with those that were quarantined."""

    pages: Pages
    counts: PageCounts
    examples: list[dict[str, Any]] = field(default_factory=list)


def read_pages(
    paths: Paths,
    *,
    clicks: Paths | None = None,
    k: int = 10,
    action: str = "click",
    unit: str | None = None,
    quarantine: str | os.PathLike[str] | None = None,
    other: PageFormat | None = None,
    memory: str | None = None,
    progress: Progress = lambda what, done, total: None,
) -> ClickedPages:
    """Read pages with clicks from logs.

    paths: files, folders or URIs of JSON lines (also .gz, .zst, .xz) or Parquet.
    clicks: files, folders or URIs of clicks, if they are separate.
    k: the ranks to keep. action: events with another action are left out; an event without one is a click.
    unit: the column that identifies the session; by default `session` of plain pages and `session_id`, else `user_id`,
        of our log. A page without one is its own session.
    quarantine: a file for invalid rows, with the reason. other: how to read another format.
    memory: the most that the join with separate clicks may use, such as "4GB".
    progress: called with the current step, and how many bytes of how many are done.
    """
    files = find_files(paths)
    reader = _Reader(PageCollector(k), action, unit, other)
    with Quarantine(quarantine) as wrong:
        if clicks is None:
            for part in _steps("reading", files, progress):
                reader.take(part, None, wrong)
        else:
            with ClickJoin(memory=memory, threads=os.cpu_count() or 1) as join:
                join.take_clicks(reader.click_batches(find_files(clicks), wrong, progress))
                join.take_ids(load_ids(part, other) for part in _steps("reading ids", files, progress))
                reader.counts.orphan_clicks = join.orphans()
                join.start()
                for part in _steps("reading", files, progress):
                    reader.take(part, join.next_part(), wrong)
        examples = wrong.examples
    if not len(reader.collector):
        reason = f" The first problem: {examples[0]['reason'].rstrip('.')}." if examples else ""
        other_rows = f", and {reader.counts.other:,} are something else" if reader.counts.other else ""
        raise DataError(
            f"The log has no valid pages: {reader.counts.rows:,} rows were read, of which "
            f"{reader.counts.quarantined:,} are invalid{other_rows}.{reason} Pass a log with pages that were shown, "
            'such as {"query": "q", "shown": ["d1", "d2"], "clicks": [0]}.'
        )
    if unit is not None and not reader.with_unit:
        raise DataError(f"No page has a {unit!r}. Pass a column that identifies the session, or none.")
    return ClickedPages(reader.collector.pages(), reader.counts, examples)


def _steps(what: str, files: Sequence[LogFile], progress: Progress) -> Iterator[Part]:
    done, total = 0, sum(file.size for file in files)
    progress(what, done, total)
    for part in parts(files):
        yield part
        done = min(done + part.size, total)
        progress(what, done, total)


class _Reader:
    def __init__(self, collector: PageCollector, action: str, unit: str | None, other: PageFormat | None) -> None:
        self.collector, self.action, self.unit, self.other = collector, action, unit, other
        self.counts = PageCounts()
        self.with_unit = 0
        self._seen: set[str] = set()

    def take(self, part: Part, joined: Any, quarantine: Quarantine) -> None:
        """Add the pages of a part; joined: rows of the part and the event of each, if clicks are separate."""
        loaded = Loaded()
        if part.error is not None:
            loaded.lost.append((0, part.error))
        if part.file.is_parquet and part.error is None:
            raws, numbers = _group_rows(part, loaded)
        else:
            raws, numbers = parse(part, None if self.other is None else self.other.impression)
        events = {} if joined is None else _events_by_row(*joined)
        for number, raw in zip(numbers, raws, strict=True):
            self.counts.rows += 1
            try:
                if isinstance(raw, RowError):
                    raise raw
                if raw is None:
                    self.counts.other += 1
                else:
                    self._add(raw, None if joined is None else events.get(number - part.first, []))
            except RowError as error:
                loaded.wrong.append((number, error))
            except ClicksError as error:
                loaded.wrong.append((number, RowError(str(error))))
        self.counts.rows += sum(rows for rows, _ in loaded.lost)
        self.counts.lost_parts += len(loaded.lost)
        self.counts.quarantined += quarantine.add(loaded.entries(part))

    def click_batches(self, files: Sequence[LogFile], quarantine: Quarantine, progress: Progress) -> Iterator[Any]:
        """Yield batches of separate clicks."""
        for part in _steps("reading clicks", files, progress):
            loaded = load_clicks(part, self.other)
            self.counts.lost_parts += len(loaded.lost)
            self.counts.malformed_clicks += quarantine.add(loaded.entries(part))
            yield from loaded.batches

    def _add(self, raw: Mapping[str, Any], events: list[dict[str, Any]] | None) -> None:
        name = id_text(raw.get("impression_id"))
        if name is not None and name in self._seen:
            self.counts.repeated += 1
            return
        query = id_text(raw.get("query"))
        if query is None:
            raise RowError(f"'query' is {short(raw.get('query'))}; expected a string or an integer.")
        if "method" in raw and "version" in raw:
            row = read_row(raw, None)
            shown, held = row["documents"], row["clicks"]
            session = next((id_text(raw.get(unit)) for unit in OWN_UNITS if raw.get(unit) is not None), None)
            grades = None
        else:
            shown, held, session, grades = _plain_page(raw, separate=events is not None)
        if self.unit is not None:
            session = id_text(raw.get(self.unit))
            self.with_unit += session is not None
        positions = self._positions(shown, held if events is None else events)
        self.collector.add(query, shown, positions, session, grades)
        self.counts.pages += 1
        if name is not None:
            self._seen.add(name)

    def _positions(self, shown: Sequence[str], events: Sequence[Any]) -> list[Any]:
        """Return the positions of clicks in the order of their times, if all have one; otherwise as they are listed."""
        if not all(isinstance(event, dict) for event in events):
            return list(events)
        wanted = [event for event in events if event["action"] in (None, self.action)]
        self.counts.unused_clicks += len(events) - len(wanted)
        if all(event["time"] is not None for event in wanted):
            wanted = sorted(wanted, key=lambda event: event["time"])
        found = []
        for event in wanted:
            position = event["position"]
            if position is None:
                if event["document"] not in shown:
                    raise RowError(f"A click is on document {short(event['document'])}, which the page does not show.")
                position = list(shown).index(event["document"])
            found.append(position)
        return found


def _plain_page(raw: Mapping[str, Any], *, separate: bool) -> tuple[list[str], list[Any], str | None, Any]:
    shown, clicks, grades = raw.get("shown"), raw.get("clicks"), raw.get("grades")
    if not isinstance(shown, list):
        raise RowError(f"'shown' is {short(shown)}; expected a list of document ids.")
    if clicks is None and separate:
        clicks = []
    if not isinstance(clicks, list):
        raise RowError(f"'clicks' is {short(clicks)}; expected a list of positions from 0.")
    documents = [id_text(document) for document in shown]
    if None in documents:
        raise RowError(f"'shown' is {short(shown)}; expected document ids, which are strings or integers.")
    if grades is not None and not isinstance(grades, list):
        raise RowError(f"'grades' is {short(grades)}; expected a list with a grade for each document.")
    session = raw.get("session", raw.get("session_id"))
    if session is not None and id_text(session) is None:
        raise RowError(f"'session' is {short(session)}; expected a string or an integer.")
    events = [read_click({"impression_id": "-", **one}) if isinstance(one, Mapping) else one for one in clicks]
    return [text for text in documents if text is not None], events, id_text(session), grades


def _group_rows(part: Part, loaded: Loaded) -> tuple[list[Any], list[int]]:
    """Return the rows of a row group; what cannot be read is noted in `loaded`."""
    rows: list[Any] = []
    try:
        with part.file.filesystem.open_input_file(part.file.path) as opened:
            for batch in pq.ParquetFile(opened).iter_batches(1 << 14, [part.row_group], use_threads=False):
                rows.extend(row_dicts(batch))
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        loaded.lost.append((part.rows - len(rows), unreadable("row group", error)))
    return rows, list(range(len(rows)))


def _events_by_row(rows: Any, events: Any) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row, event in zip(np.asarray(rows).tolist(), events.to_pylist(), strict=True):
        found.setdefault(row, []).append(event)
    return found
