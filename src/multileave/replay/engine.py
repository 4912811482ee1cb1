"""The local engine: all cores read and infer parts of a log, and one thread adds them up in order.

Threads read, prepare and infer parts; the kernels and Arrow release the interpreter's lock. The calling thread adds
the results to the units' sums, part by part, so the same files give the same numbers to the last bit. Memory holds a
few parts and the units. Which rows repeat others is known only at the end; if there are any, the log is inferred again
without them.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from multileave.methods.base import Method
from multileave.replay.inferring.batches import BatchCredits
from multileave.replay.inferring.events import SATISFIED
from multileave.replay.inferring.row_keys import ROW
from multileave.replay.reading.click_join import ClickJoin
from multileave.replay.reading.files import LogFile, Part, Paths, find_files, parts
from multileave.replay.reading.parts import Loaded, OtherFormat, Wants, load, load_clicks, load_ids
from multileave.replay.reading.preparing import attach_clicks
from multileave.replay.repeats import Repeats
from multileave.replay.report import Quarantine, Replay
from multileave.replay.run import Run, Settings

T = TypeVar("T")
Progress = Callable[[str, int, int], None]


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
    rates: bool = True,
    segment: str | None = None,
) -> Replay:
    """Infer a log of impressions; return a tally and a verdict for each comparison and action.

    An impression counts once: of rows with the same id, the first that is valid, by the order of paths.

    paths: files, folders or URIs of impressions, which hold their clicks unless `clicks` is given.
    clicks: files, folders or URIs of clicks; they may be late, repeated and in any order.
    unit: the column that identifies the unit (user or session); with None, or null in a row, each impression is
        its own unit.
    actions: "click", "cart", "purchase" or any other in the log; "satisfied" is a click with at least
        `dwell` seconds on the document; "purchase:value" adds up the values of purchases in its rates.
    window: how long after its impression a click counts. Earlier clicks count, as clocks differ.
    cap: units with more impressions than this, such as bots, are left out.
    filter: a pyarrow expression on the columns of the log; other rows are left out.
    quarantine: a file for the rows that cannot be inferred, with the reason.
    memory: the most that the join with clicks may use, such as "4GB".
    progress: called with the current step, and how many bytes of how many are done.
    check_ids: has no effect, as impressions with a repeated id are always found and left out.
    whole_pages: False if impressions may lack some of what was shown; exposure balance is then not checked.
    other: how to read JSON lines of another format.
    method: infer as this method would, if it can read the lists in the log: ppm, dpm and opm read each other's
        lists, and rpm reads team drafts whose rows hold ranks.
    rates: whether to estimate what each ranker would earn alone, if the method has propensities.
    segment: a column that divides the traffic into at most 200 segments, such as a device: each comparison then also
        has a verdict for each segment, and a test of whether preferences differ between them.
    """
    settings = Settings.checked(
        actions, dwell, window, unit=unit, cap=cap, method=method, whole_pages=whole_pages, rates=rates, segment=segment
    )
    threads = workers or os.cpu_count() or 1
    files = find_files(paths, filesystem)
    separate = None if clicks is None else find_files(clicks, filesystem)
    wants = Wants(
        unit, filter, times=window is not None, dwell=SATISFIED in settings.actions.bases, other=other
    )  # fmt: skip
    with Quarantine(quarantine) as wrong, ThreadPoolExecutor(threads) as pool:
        run = LocalRun(settings, wrong, pool, threads, progress, separate=separate is not None)
        if separate is None:
            run.infer_files(files, wants)
        else:
            with ClickJoin(memory=memory, threads=threads) as join:
                run.infer_joined(files, separate, join, wants)
        return run.finish(len(files)).check_segments(segment)


class LocalRun(Run):
    """A replay by the threads of this machine."""

    def __init__(
        self,
        settings: Settings,
        quarantine: Quarantine,
        pool: ThreadPoolExecutor,
        threads: int,
        progress: Progress | None,
        *,
        separate: bool,
    ) -> None:
        super().__init__(settings, quarantine, separate=separate)
        self.pool, self.threads = pool, threads
        self.progress = progress or (lambda what, done, total: None)

    def infer_files(self, files: list[LogFile], wants: Wants, join: ClickJoin | None = None) -> None:
        """Infer a log, and if impressions are repeated, once more without them; join: holds separate clicks."""
        before = replace(self.counts), self.quarantine.mark()
        with Repeats() as repeats:
            for part, keys in self._infer_once(files, wants, join, []):
                repeats.add(keys, part.span)
            self.progress("looking for repeated impressions", 0, 0)
            repeated, conflicts = repeats.find()
        if repeated:
            self.restart(*before)
            self.counts.conflicting_impressions = conflicts
            deque(self._infer_once(files, wants, join, repeated), maxlen=0)

    def _infer_once(
        self, files: list[LogFile], wants: Wants, join: ClickJoin | None, repeated: list[Any]
    ) -> Iterator[tuple[Part, list[Any]]]:
        """Infer a log without repeated rows, bool for each part; yield the parts and the keys of their rows."""

        def work(part: Part, joined: Any, again: Any) -> tuple[Loaded, list[BatchCredits], list[dict[str, Any]]]:
            loaded = load(part, wants, self.headers)
            if joined is not None:
                loaded.batches = [attach_clicks(batch, part.first, *joined) for batch in loaded.batches]
            if again is not None:
                loaded.leave_out(again, part.first)
            found = self.infer(loaded)
            return loaded, found, loaded.entries(part)

        left = iter(repeated)
        if join is not None:
            join.start()

        def more() -> tuple[Any, Any]:
            return None if join is None else join.next_part(), next(left, None)

        for part, (loaded, found, wrong) in self._steps("inferring", files, work, more):
            self.take(loaded, found, wrong)
            for credits in found:
                credits.keys[:, ROW] -= np.uint64(part.first)
            yield part, [credits.keys for credits in found]

    def infer_joined(self, files: list[LogFile], clicks: list[LogFile], join: ClickJoin, wants: Wants) -> None:
        """Infer a log whose clicks are in separate files."""
        join.take_clicks(self._click_batches(clicks, wants.other))
        ids = self._steps("reading ids", files, lambda part: load_ids(part, wants.other))
        join.take_ids(found for _, found in ids)
        self.progress("joining", 0, 0)
        self.counts.orphan_clicks = join.orphans()
        self.infer_files(files, replace(wants, separate=True, documents=join.missing_positions()), join)

    def _click_batches(self, files: list[LogFile], other: OtherFormat | None) -> Iterator[pa.RecordBatch]:
        for part, loaded in self._steps("reading clicks", files, lambda part: load_clicks(part, other)):
            self.counts.clicks += loaded.rows
            self.counts.unused_clicks += loaded.filtered
            self.counts.lost_parts += len(loaded.lost)
            self.counts.malformed_clicks += self.quarantine.add(loaded.entries(part))
            yield from loaded.batches

    def _steps(
        self,
        what: str,
        files: list[LogFile],
        work: Callable[..., T],
        more: Callable[[], tuple[Any, ...]] = lambda: (),
    ) -> Iterator[tuple[Part, T]]:
        """Yield the parts of files with the results of threads, in order, working a few parts ahead.

        more: returns further arguments of `work`; called here, for one part after another.
        """
        done, total = 0, sum(file.size for file in files)
        left = parts(files)
        waiting: deque[tuple[Part, Future[T]]] = deque()
        self.progress(what, done, total)
        while True:
            for part in islice(left, 2 * self.threads + 1 - len(waiting)):
                waiting.append((part, self.pool.submit(work, part, *more())))
            if not waiting:
                return
            part, future = waiting.popleft()
            result = future.result()
            done = min(done + part.size, total)
            self.progress(what, done, total)
            yield part, result
