"""The local engine: all cores read and infer parts of a log, and one thread adds them up in order.

Threads read, prepare and infer parts; the kernels and Arrow release the interpreter's lock. The calling thread adds
the results to the units' sums, part by part, so the same files in the same order give the same numbers to the last
bit. Memory holds a few parts and the units.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from multileave.errors import DataError
from multileave.log.reader import MICROSECONDS
from multileave.methods.base import Method, get_method
from multileave.replay.inferring.batches import BatchCredits, infer_batch
from multileave.replay.inferring.events import Actions
from multileave.replay.inferring.unit_sums import UnitSums
from multileave.replay.reading.click_join import ClickJoin
from multileave.replay.reading.comparisons import Headers
from multileave.replay.reading.files import LogFile, Part, Paths, find_files, parts
from multileave.replay.reading.parts import Loaded, OtherFormat, Wants, contents, load, load_clicks, load_ids
from multileave.replay.reading.preparing import attach_clicks
from multileave.replay.report import Comparison, Counts, Quarantine, Replay

T = TypeVar("T")
Progress = Callable[[str, int, int], None]

MOST_ACTIONS = 32


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
    """Infer a log of impressions; return a tally and a verdict for each comparison and action.

    paths: files, folders or URIs of impressions, which hold their clicks unless `clicks` is given.
    clicks: files, folders or URIs of clicks; they may be late, repeated and in any order.
    unit: the column that identifies the unit (user or session); with None, or null in a row, each impression is
        its own unit.
    actions: "click", "cart", "purchase" or any other in the log; "satisfied" is a click with at least
        `dwell` seconds on the document.
    window: how long after its impression a click counts. Earlier clicks count, as clocks differ.
    cap: units with more impressions than this, such as bots, are left out.
    filter: a pyarrow expression on the columns of the log; other rows are left out.
    quarantine: a file for the rows that cannot be inferred, with the reason.
    memory: the most that the join with clicks may use, such as "4GB".
    progress: called with the current step, and how many bytes of how many are done.
    check_ids: count impressions with a repeated id, which separate clicks imply. Reads the log once more, and
        needs disk space for its ids.
    whole_pages: False if impressions may lack some of what was shown; exposure balance is then not checked.
    other: how to read JSON lines of another format.
    method: infer as this method would, if it can read the lists in the log: ppm, dpm and opm read each other's
        lists, and rpm reads team drafts whose rows hold ranks.
    """
    chosen = read_actions(actions, dwell, window, whole_pages=whole_pages)
    check_cap(cap)
    threads = workers or os.cpu_count() or 1
    wrong = Quarantine(Path(quarantine) if quarantine is not None else None)
    run = Run(chosen, cap, wrong, threads, progress, None if method is None else get_method(method))
    files = find_files(paths, filesystem)
    wants = Wants(unit, filter, times=window is not None, dwell="satisfied" in chosen.names, other=other)
    try:
        with ThreadPoolExecutor(threads) as pool:
            if clicks is None:
                run.infer(pool, files, wants)
                if check_ids:
                    with ClickJoin(memory=memory, threads=threads) as join:
                        run.count_repeats(pool, files, join, wants)
            else:
                separate = find_files(clicks, filesystem)
                with ClickJoin(memory=memory, threads=threads) as join:
                    run.infer_joined(pool, files, separate, join, wants)
    finally:
        run.quarantine.close()
    return run.finish(len(files))


class Run:
    """The state of a replay: counts, the quarantine, and sums by unit for each header."""

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

    def infer(
        self, pool: ThreadPoolExecutor, files: list[LogFile], wants: Wants, join: ClickJoin | None = None
    ) -> None:
        """Infer a log; join: holds the clicks, if they are separate."""

        def work(given: tuple[Part, Any]) -> tuple[Part, Loaded, list[BatchCredits], int]:
            part, joined = given
            loaded = load(part, wants, self.headers)
            batches = loaded.batches
            if joined is not None:
                batches = [attach_clicks(batch, part.first, *joined) for batch in batches]
            found = [infer_batch(batch, self.headers, self.actions) for batch in batches]
            _fetch_wrong(part, loaded, found)
            return part, loaded, found, 0 if joined is None else len(joined[0])

        given = ((part, None if join is None else join.events(number)) for number, part in enumerate(parts(files)))
        for part, loaded, found, events in self._steps(pool, work, given, "inferring", files):
            if join is not None:
                self.counts.clicks_of_other_rows += events - sum(credits.events for credits in found)
            self.take(part, loaded, found, known=join is not None)

    def count_repeats(self, pool: ThreadPoolExecutor, files: list[LogFile], join: ClickJoin, wants: Wants) -> None:
        """Count impressions with a repeated id."""
        join.take_ids(self._ids(pool, files, wants))
        self.counts.repeated_impressions = join.repeated_ids()

    def infer_joined(
        self, pool: ThreadPoolExecutor, files: list[LogFile], clicks: list[LogFile], join: ClickJoin, wants: Wants
    ) -> None:
        """Infer a log whose clicks are in separate files."""
        join.take_clicks(self._click_batches(pool, clicks, wants.other))
        self.count_repeats(pool, files, join, wants)
        self.progress("joining", 0, 0)
        self.counts.orphan_clicks = join.orphans()
        documents = join.missing_positions()
        join.start()
        self.infer(pool, files, replace(wants, ids=True, documents=documents), join)

    def finish(self, files: int) -> Replay:
        """Return the result."""
        held: dict[tuple[str, frozenset[str], str], Comparison] = {}
        for number, sums in sorted(self.sums.items()):
            header = self.headers.known[number]
            for place, action in enumerate(self.actions.names):
                tally, left_out = sums.tally(header.rankers, place, self.cap)
                self.counts.units_over_cap += left_out if place == 0 else 0
                found = Comparison(str(header.method), action, tally)
                there = held.setdefault(found.key, found)
                if there is not found:
                    there.tally.merge(tally)
        return Replay(tuple(held.values()), self.counts, files, **self.quarantine.results())

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
            self.counts.malformed_clicks += self._quarantine(part, loaded)
            yield from loaded.batches

    def take(self, part: Part, loaded: Loaded, found: list[BatchCredits], *, known: bool = False) -> None:
        """Add the rows of a part; known: its events have been counted already."""
        counts = self.counts
        counts.rows += loaded.rows
        counts.filtered += loaded.filtered
        newer = sum(error.kind == "unknown version" for _, error, _ in loaded.wrong)
        counts.unknown_versions += newer
        counts.malformed += self._quarantine(part, loaded) - newer
        for credits in found:
            counts.malformed += len(credits.wrong)
            for row, error in credits.wrong:
                self.quarantine.add(part.file.path, part.row_group, row, error)
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

    def _quarantine(self, part: Part, loaded: Loaded) -> int:
        """Quarantine the invalid and the lost rows of a part; return how many there are."""
        for row, error, raw in loaded.wrong:
            self.quarantine.add(part.file.path, part.row_group, row, error, raw)
        for rows, error in loaded.lost:
            self.counts.lost_parts += 1
            self.quarantine.add(part.file.path, part.row_group, None, error, rows=rows)
        return len(loaded.wrong) + sum(rows for rows, _ in loaded.lost)

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
        """Yield the results of threads in the order of the items, working a few items ahead."""
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


def _fetch_wrong(part: Part, loaded: Loaded, found: list[BatchCredits]) -> None:
    """Add rows that inference found invalid to those that reading found, with their content."""
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
    """Return the actions of a replay, checked."""
    if isinstance(names, str):
        names = [names]
    if not 1 <= len(names) <= MOST_ACTIONS or len(set(names)) < len(names):
        raise DataError(f"actions are {list(names)}; expected 1 to {MOST_ACTIONS} different names, such as 'click'.")
    if not dwell >= 0:
        raise DataError(f"dwell is {dwell}; expected seconds from 0.")
    if window is not None and window < timedelta(0):
        raise DataError(f"window is {window}; expected a duration from 0.")
    micro = None if window is None else round(window.total_seconds() * MICROSECONDS)
    return Actions(tuple(names), dwell, micro, whole_pages)


def check_cap(cap: int | None) -> None:
    """Raise `DataError` for an invalid cap."""
    if cap is not None and cap < 1:
        raise DataError(f"cap is {cap}; expected the maximum impressions of a unit, from 1.")
