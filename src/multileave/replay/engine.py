"""The local engine: parts of a log read by all cores, inferred by compiled loops, added up in order.

Threads read, prepare and infer parts; the kernels and Arrow do so without the interpreter's lock. The
calling thread adds what they return to the units' sums, part after part, so that the same files in the
same order give the same numbers to the last bit. Memory holds a few parts and the units.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from multileave.errors import DataError
from multileave.log.reader import MICROSECONDS, RowError
from multileave.methods.base import Method, get_method
from multileave.replay.inferring.absent_rankers import find_absent, preferences_among_present
from multileave.replay.inferring.credit import EVENTS, REASONS, Actions, Credits, credit_batch, read_events
from multileave.replay.inferring.health_sums import HealthSums
from multileave.replay.inferring.unit_sums import UnitSums
from multileave.replay.reading.click_join import ClickJoin
from multileave.replay.reading.comparisons import Headers
from multileave.replay.reading.files import LogFile, Part, find_files, parts
from multileave.replay.reading.parts import Loaded, OtherFormat, Wants, contents, load, load_clicks, load_ids
from multileave.replay.reading.preparing import attach_clicks
from multileave.replay.report import Comparison, Counts, Quarantine, Replay

__all__ = ["BatchCredits", "Run", "check_cap", "infer_batch", "read_actions", "replay"]

T = TypeVar("T")
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Progress = Callable[[str, int, int], None]

MOST_ACTIONS = 32


@dataclass(eq=False)
class BatchCredits:
    """What the rows of a batch say: for each header the units and credits of its good rows, and the wrong rows."""

    groups: list[tuple[int, pa.StringArray, Credits]] = field(default_factory=list)
    wrong: list[tuple[int, RowError]] = field(default_factory=list)
    events: int = 0
    outcomes: Any = None  # int64 by EVENTS
    late: int = 0
    undated: int = 0


def infer_batch(batch: pa.RecordBatch, headers: Headers, actions: Actions) -> BatchCredits:
    """Infer a prepared batch."""
    events = read_events(batch, actions)
    found = BatchCredits(events=int(events.offsets[-1]), outcomes=np.zeros(len(EVENTS), dtype=np.int64))
    found.late, found.undated = events.late, events.undated
    numbers, units = batch.column("header").to_numpy(), batch.column("unit")
    for number in np.unique(numbers).tolist():
        rows = np.flatnonzero(numbers == number)
        credits = credit_batch(batch, rows, headers.known[number], events, actions)
        found.outcomes += credits.events
        good = credits.reasons == 0
        if not good.all():
            where = batch.column("row").to_numpy()
            for place in np.flatnonzero(~good).tolist():
                reason = RowError(REASONS[credits.reasons[place]])
                found.wrong.append((int(where[rows[place]]), reason))
            rows = rows[good]
            credits = credits.some(good)
        absent = find_absent(batch, rows, len(headers.known[number].rankers))
        if absent.any():
            # What their health says stands with the other rows.
            pairs = preferences_among_present(batch, rows[absent], headers.known[number], actions)
            some = replace(credits.some(absent), values=pairs, health=HealthSums.empty(len(credits.health)))
            found.groups.append((headers.by_pair(number), units.take(pa.array(rows[absent])), some))
            rows, credits = rows[~absent], credits.some(~absent)
        chosen = units if len(rows) == len(batch) else units.take(pa.array(rows))
        found.groups.append((number, chosen, credits))
    return found


def replay(
    paths: Paths,
    *,
    clicks: Paths | None = None,
    unit: str | None = "user_id",
    actions: Sequence[str] = ("click",),
    dwell: float = 30.0,
    window: timedelta | None = None,
    cap: int | None = None,
    filter: pc.Expression | None = None,
    quarantine: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    filesystem: pafs.FileSystem | None = None,
    memory: str | None = None,
    progress: Progress | None = None,
    check_ids: bool = False,
    whole_pages: bool = True,
    other: OtherFormat | None = None,
    method: str | Method | None = None,
) -> Replay:
    """Infer a log of impressions and return a tally, and a verdict, for each comparison and action.

    paths: files, folders or URIs of impressions, joined with their clicks unless these are given.
    clicks: files, folders or URIs of clicks, late, repeated and in any order.
    unit: the column of what is independent; None, or null in a row: each impression on its own.
    actions: "click", "cart", "purchase" or any other in the log; "satisfied" is a click with at least
        `dwell` seconds on the document.
    window: how long after its impression a click counts. An earlier one counts, as clocks differ.
    cap: units with more impressions than this are left out, as bots are.
    filter: a pyarrow expression on the log's columns; rows that do not pass are left out.
    quarantine: a file for the rows that cannot be inferred, with the reason.
    memory: the most that the join with clicks may take, such as "4GB".
    progress: called with what is going on, and how many bytes of how many are done.
    check_ids: count impressions whose id stood in the log before; with clicks that is done anyway. It
        takes a further look at the log, and disk space for its ids.
    whole_pages: False where impressions may not hold all that was shown; the balance between rankers is
        not looked at then.
    other: how JSON lines of another format are read.
    method: infer as this method would, if it can read the lists of those that drew the log: lists of ppm, dpm and
        opm are alike, and rpm reads team drafts whose rows hold ranks.
    """
    chosen = read_actions(actions, dwell, window, whole_pages=whole_pages)
    check_cap(cap)
    threads = workers or os.cpu_count() or 1
    wrong = Quarantine(Path(quarantine) if quarantine is not None else None)
    run = Run(chosen, cap, wrong, threads, progress, None if method is None else get_method(method))
    files = find_files(_listed(paths), filesystem)
    wants = Wants(unit, filter, times=window is not None, dwell="satisfied" in chosen.names, other=other)
    try:
        with ThreadPoolExecutor(threads) as pool:
            if clicks is None:
                run.whole(pool, files, wants)
                if check_ids:
                    with ClickJoin(memory=memory, threads=threads) as join:
                        run.count_repeats(pool, files, join, wants)
            else:
                separate = find_files(_listed(clicks), filesystem)
                with ClickJoin(memory=memory, threads=threads) as join:
                    run.joined(pool, files, separate, join, wants)
    finally:
        run.quarantine.close()
    return run.finish(len(files))


class Run:
    """What has been found so far: counts, wrong rows, and sums by unit for each header."""

    def __init__(
        self,
        actions: Actions,
        cap: int | None,
        quarantine: Quarantine,
        threads: int,
        progress: Progress | None,
        method: Method | None = None,
    ) -> None:
        self.actions, self.cap, self.quarantine, self.threads = actions, cap, quarantine, threads
        self.progress = progress or (lambda what, done, total: None)
        self.headers = Headers(method)
        self.counts = Counts()
        self.sums: dict[int, UnitSums] = {}

    def whole(self, pool: ThreadPoolExecutor, files: list[LogFile], wants: Wants) -> None:
        """Replay a log whose rows hold their clicks."""

        def work(part: Part) -> tuple[Part, Loaded, list[BatchCredits]]:
            loaded = load(part, wants, self.headers)
            found = [infer_batch(batch, self.headers, self.actions) for batch in loaded.batches]
            _put_aside(part, loaded, found)
            return part, loaded, found

        for part, loaded, found in self._steps(pool, work, parts(files), "inferring", files):
            self.take(part, loaded, found)

    def count_repeats(self, pool: ThreadPoolExecutor, files: list[LogFile], join: ClickJoin, wants: Wants) -> None:
        """Count impressions whose id stood in the log before."""
        join.take_ids(self._ids(pool, files, wants))
        self.counts.repeated_impressions = join.repeated_ids()

    def joined(
        self, pool: ThreadPoolExecutor, files: list[LogFile], clicks: list[LogFile], join: ClickJoin, wants: Wants
    ) -> None:
        """Replay a log whose clicks stand in files of their own."""
        join.take_clicks(self._click_batches(pool, clicks, wants.other))
        join.take_ids(self._ids(pool, files, wants))
        self.progress("joining", 0, 0)
        self.counts.orphan_clicks = join.orphans()
        self.counts.repeated_impressions = join.repeated_ids()
        documents = join.missing_positions()
        join.start()
        wants = replace(wants, ids=True, documents=documents)

        def work(given: tuple[Part, Any, pa.StructArray]) -> tuple[Part, Loaded, list[BatchCredits], int]:
            part, places, events = given
            loaded = load(part, wants, self.headers)
            found = []
            for batch in loaded.batches:
                held = attach_clicks(batch, part.first, places, events)
                found.append(infer_batch(held, self.headers, self.actions))
            _put_aside(part, loaded, found)
            return part, loaded, found, len(places)

        given = ((part, *join.events(number)) for number, part in enumerate(parts(files)))
        for part, loaded, found, events in self._steps(pool, work, given, "inferring", files):
            self.counts.clicks_of_other_rows += events - sum(credits.events for credits in found)
            self.take(part, loaded, found, known=True)

    def finish(self, files: int) -> Replay:
        """Return what was found."""
        tallies: dict[tuple[str, frozenset[str], str], Comparison] = {}
        for number, sums in sorted(self.sums.items()):
            header = self.headers.known[number]
            for place, action in enumerate(self.actions.names):
                tally, left_out = sums.tally(header.rankers, place, self.cap)
                self.counts.units_over_cap += left_out if place == 0 else 0
                key = (str(header.method), frozenset(header.rankers), action)
                if key in tallies:
                    tallies[key].tally.merge(tally)
                else:
                    tallies[key] = Comparison(str(header.method), action, tally)
        wrong = self.quarantine
        path = None if wrong.path is None or not wrong.reasons else str(wrong.path)
        return Replay(tuple(tallies.values()), self.counts, files, tuple(wrong.examples), dict(wrong.reasons), path)

    def _ids(
        self, pool: ThreadPoolExecutor, files: list[LogFile], wants: Wants
    ) -> Iterator[tuple[int, Any, list[str | None]]]:
        def work(given: tuple[int, Part]) -> tuple[int, Any, list[str | None]]:
            return given[0], *load_ids(given[1], wants.other)

        return self._steps(pool, work, enumerate(parts(files)), "reading ids", files)

    def _click_batches(
        self, pool: ThreadPoolExecutor, files: list[LogFile], other: OtherFormat | None
    ) -> Iterator[pa.RecordBatch]:
        done = self._steps(pool, lambda part: (part, load_clicks(part, other)), parts(files), "reading clicks", files)
        for part, loaded in done:
            self.counts.clicks += loaded.rows
            self.counts.unused_clicks += loaded.filtered
            self.counts.malformed_clicks += len(loaded.wrong)
            for row, error, raw in loaded.wrong:
                self.quarantine.add(part.file.path, part.row_group, row, error, raw)
            for rows, error in loaded.lost:
                self.counts.lost_parts += 1
                self.counts.malformed_clicks += rows
                self.quarantine.add(part.file.path, part.row_group, None, error, rows=rows)
            yield from loaded.batches

    def take(self, part: Part, loaded: Loaded, found: list[BatchCredits], *, known: bool = False) -> None:
        """Add what a part gave; known: its events were counted when they were read."""
        counts, path = self.counts, part.file.path
        counts.rows += loaded.rows
        counts.filtered += loaded.filtered
        for row, error, raw in loaded.wrong:
            self._wrong(error.kind, 1)
            self.quarantine.add(path, part.row_group, row, error, raw)
        for rows, error in loaded.lost:
            counts.lost_parts += 1
            self._wrong(error.kind, rows)
            self.quarantine.add(path, part.row_group, None, error, rows=rows)
        for credits in found:
            for row, error in credits.wrong:
                self._wrong(error.kind, 1)
                self.quarantine.add(path, part.row_group, row, error)
            not_shown, duplicate, unused, counted = credits.outcomes.tolist()
            counts.clicks_not_shown += not_shown
            counts.duplicate_clicks += duplicate
            counts.unused_clicks += unused
            counts.counted_clicks += counted
            counts.clicks += 0 if known else credits.events
            counts.clicks_of_other_rows += credits.events - not_shown - duplicate - unused - counted
            counts.late_clicks += credits.late
            counts.undated_clicks += credits.undated
            for number, units, values in credits.groups:
                counts.inferred += len(units)
                counts.without_unit += units.null_count
                self._sums(number).add(units, values)

    def _wrong(self, kind: str, rows: int) -> None:
        if kind == "unknown version":
            self.counts.unknown_versions += rows
        else:
            self.counts.malformed += rows

    def _sums(self, number: int) -> UnitSums:
        if number not in self.sums:
            header = self.headers.known[number]
            self.sums[number] = UnitSums(
                len(header.rankers),
                len(self.actions.names),
                by_pair=header.by_pair,
                by_unit=self.cap is not None,
            )
        return self.sums[number]

    def _steps(
        self, pool: ThreadPoolExecutor, work: Callable[[Any], T], items: Iterable[Any], what: str, files: list[LogFile]
    ) -> Iterator[T]:
        """Yield what the threads make of items, in order, a few ahead."""
        total = sum(file.size for file in files)
        done = 0
        waiting: deque[tuple[Future[T], int]] = deque()
        self.progress(what, 0, total)

        def first() -> T:
            nonlocal done
            future, size = waiting.popleft()
            result = future.result()
            done = min(done + size, total)
            self.progress(what, done, total)
            return result

        for item in items:
            waiting.append((pool.submit(work, item), _bytes(item)))
            if len(waiting) > 2 * self.threads:
                yield first()
        while waiting:
            yield first()


def _put_aside(part: Part, loaded: Loaded, found: list[BatchCredits]) -> None:
    """Move what was found wrong when inferring to what was found wrong before, with the rows themselves."""
    wrong = [entry for credits in found for entry in credits.wrong]
    for credits in found:
        credits.wrong.clear()
    rows = contents(part, [row for row, _ in wrong])
    loaded.wrong.extend((row, error, raw) for (row, error), raw in zip(wrong, rows, strict=True))
    loaded.batches.clear()


def _bytes(item: Any) -> int:
    part = item if isinstance(item, Part) else next(x for x in item if isinstance(x, Part))
    return part.size


def read_actions(names: Sequence[str], dwell: float, window: timedelta | None, *, whole_pages: bool = True) -> Actions:
    """Return the actions that a replay is asked for, checked."""
    if isinstance(names, str):
        names = [names]
    if not 1 <= len(names) <= MOST_ACTIONS or len(set(names)) < len(names):
        raise DataError(f"actions are {list(names)}; expected 1 to {MOST_ACTIONS} different names, such as 'click'.")
    if not dwell >= 0:
        raise DataError(f"dwell is {dwell}; expected seconds from 0.")
    if window is not None and window < timedelta(0):
        raise DataError(f"window is {window}; expected a time from 0.")
    micro = None if window is None else round(window.total_seconds() * MICROSECONDS)
    return Actions(tuple(names), dwell, micro, whole_pages)


def check_cap(cap: int | None) -> None:
    """Raise `DataError` if a cap makes no sense."""
    if cap is not None and cap < 1:
        raise DataError(f"cap is {cap}; expected the most impressions of a unit, from 1.")


def _listed(paths: Paths) -> list[str | os.PathLike[str]]:
    return [paths] if isinstance(paths, str | os.PathLike) else list(paths)
