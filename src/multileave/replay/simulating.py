"""Logs of simulated users, of any size, for tests, benchmarks and trying things out.

The loop is not shared with studies: theirs keeps sums and the documents that a draw can reach, this one every page and
its ids.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from multileave.clicks import Cascade
from multileave.data import QuerySet
from multileave.errors import DataError
from multileave.impression import FORMAT_VERSION
from multileave.kernels import kernel
from multileave.log.schema import CLICKS, EVENT, IMPRESSIONS, JOINED
from multileave.log.writer import ROW_GROUP, json_line, parquet_writer, spell_time
from multileave.methods.base import Method
from multileave.random import Seed, below, seed_state, uniform
from multileave.rankings import read_rankings

__all__ = ["LogSimulation", "write_log"]

START = 1_777_888_800_000_000  # microseconds; 2026-05-04, 10:00 UTC
APART = 250_000  # microseconds between impressions


@dataclass(frozen=True)
class LogSimulation:
    """Users who see result pages and click; `batches` yields their log.

    data: queries whose documents all rankers rank. method, user, k: as in a study. users: how many there are.
    purchases: the share of clicks that are followed by a purchase, a separate event.

    >>> from multileave.clicks import user
    >>> from multileave.data import synthetic
    >>> from multileave.methods import TeamDraft
    >>> simulation = LogSimulation(synthetic(queries=5, seed=1), TeamDraft(), user("perfect"), users=10)
    >>> [len(batch) for batch in simulation.batches(100, seed=1, size=64)]
    [64, 36]
    """

    data: QuerySet
    method: Method
    user: Cascade
    users: int
    k: int = 10
    purchases: float = 0.1

    def batches(self, impressions: int, *, seed: Seed = 0, size: int = 1 << 16) -> Iterator[pa.RecordBatch]:
        """Yield impressions with their clicks, as batches of `JOINED`."""
        if impressions < 1 or self.users < 1:
            raise DataError(f"impressions is {impressions} and users is {self.users}; expected integers from 1.")
        self.method.check_rankers(len(self.data.rankers))
        queries = self._queries()
        rng = seed_state(seed)
        for first in range(0, impressions, size):
            yield self._batch(queries, rng, first, min(size, impressions - first))

    def _queries(self) -> tuple[Any, ...]:
        """Return padded arrays of all queries: depth and documents, top, entering, ranks, labels, lengths, ids."""
        method, data = self.method, self.data
        count, rankers = len(data), len(data.rankers)
        sources = []
        for q in range(count):
            labels, rankings = data.query(q)
            source = read_rankings(rankings)
            sources.append((labels, source, source.number(method.read_depth(self.k, source.longest), whole=True)))
        depth = max(table.top.shape[1] for _, _, table in sources)
        most = max(table.documents for _, _, table in sources)
        sizes = np.zeros((count, 2), dtype=np.int64)
        top = np.zeros((count, rankers, depth), dtype=np.int32)
        entering = np.zeros((count, depth), dtype=np.int32)
        ranks = np.zeros((count, most, rankers), dtype=np.int32)
        grades = np.zeros((count, most), dtype=np.uint8)
        lengths = np.zeros((count, rankers), dtype=np.int32)
        ids = np.zeros((count, most), dtype=np.int64)
        for q, (labels, source, table) in enumerate(sources):
            there, used = table.documents, table.top.shape[1]
            numbers = np.arange(there, dtype=np.int32)
            sizes[q] = used, there
            top[q, :, :used], entering[q, :used] = table.top, table.entering
            ranks[q, :there], lengths[q] = source.ranks(numbers), source.lengths
            ids[q, :there] = np.array(source.ids(numbers), dtype=np.int64)
            grades[q, :there] = labels[ids[q, :there]]
        return sizes, top, entering, ranks, grades, lengths, ids

    def _batch(self, queries: tuple[Any, ...], rng: Any, first: int, count: int) -> pa.RecordBatch:
        method, rankers = self.method, len(self.data.rankers)
        drawn = self.k + method.beyond()
        shown = np.full((count, drawn), -1, dtype=np.int32)
        note = np.zeros((count, drawn), dtype=np.int32)
        clicked = np.zeros((count, drawn), dtype=np.uint8)
        what = np.zeros((count, 4), dtype=np.int64)  # query, user, drawn, seed of the rest
        stat = np.zeros((count, 2))
        integers, floats = method.workspace(rankers, queries[3].shape[1], self.k)
        record.bind(draw=method.draw_kernel, click=self.user.kernel)(
            *queries[:6], (self.k, self.users, int(method.draw_reads_ranks)), method.parameters, self.user.parameters,
            rng, (what, shown, note, clicked, stat), np.empty(drawn, dtype=np.uint8),
            np.empty(integers, dtype=np.int32), np.empty(floats),
        )  # fmt: skip
        return self._rows(queries, first, what, shown, note, clicked, stat, np.random.default_rng(what[:, 3]))

    def _rows(
        self, queries: tuple[Any, ...], first: int, what: Any, shown: Any, note: Any, clicked: Any, stat: Any, rng: Any
    ) -> pa.RecordBatch:
        method, rankers, count = self.method, len(self.data.rankers), len(what)
        ids, ranks = queries[6], queries[3]
        query, user, m = what[:, 0], what[:, 1], what[:, 2]
        there = np.arange(shown.shape[1]) < m[:, None]
        visible = there & (np.arange(shown.shape[1]) < self.k)
        names = _texts(f"q{q}d" for q in range(len(ids)))
        documents = pc.binary_join_element_wise(
            names.take(pa.array(np.repeat(query, shown.shape[1])[there.ravel()])),
            pa.array(ids[query[:, None], np.maximum(shown, 0)][there]).cast(pa.string()),
            "",
        )
        sees = visible[there]
        time = START + APART * np.arange(first, first + count)
        events = self._events(clicked & visible, there, documents, time, rng)
        kept_ranks = (
            ranks[query[:, None], np.maximum(shown, 0)][there] if method.keeps_ranks else np.zeros((0, rankers))
        )
        columns = {
            "version": np.full(count, FORMAT_VERSION, dtype=np.int32),
            "impression_id": _texts(f"i{number:09d}" for number in range(first, first + count)),
            "timestamp": pa.array(time).cast(pa.timestamp("us", tz="UTC")),
            "user_id": _texts(f"user-{number}" for number in user.tolist()),
            "session_id": pa.nulls(count, pa.string()),
            "query": _texts(f"query {number}" for number in query.tolist()),
            "method": pa.array([method.spelled] * count),
            "rankers": _repeated(pa.array(list(self.data.rankers)), count),
            "k": np.full(count, self.k, dtype=np.int32),
            "shown": _lists(visible.sum(axis=1), documents.filter(pa.array(sees))),
            "hidden": _lists((there & ~visible).sum(axis=1), documents.filter(pa.array(~sees))),
            "pinned": _lists(np.zeros(count), np.zeros(0, dtype=np.int32)),
            "ids": pa.nulls(count, pa.string()),
            "lengths": _lists(np.full(count, rankers), queries[5][query].ravel()),
            "ranks": _lists(m * rankers * method.keeps_ranks, kept_ranks.astype(np.int32).ravel()),
            "note": _lists(m * method.keeps_note, note[there] if method.keeps_note else np.zeros(0, dtype=np.int32)),
            "stat": _lists(np.full(count, method.keeps_stat), stat[:, : method.keeps_stat].ravel()),
            "clicks": events,
        }
        return pa.RecordBatch.from_arrays([pa.array(columns[name]) for name in JOINED.names], schema=JOINED)

    def _events(self, clicks: Any, there: Any, documents: pa.Array, time: Any, rng: Any) -> pa.ListArray:
        """Return the clicks of every row, each followed by its purchase if there is one."""
        places = np.zeros(there.shape, dtype=np.int64)
        places[there] = np.arange(there.sum())
        row, position = np.nonzero(clicks)
        bought = rng.random(len(row)) < self.purchases
        repeat = np.where(bought, 2, 1)
        is_click = np.ones(repeat.sum(), dtype=bool)
        is_click[np.cumsum(repeat)[bought] - 1] = False
        dwell = np.round(np.repeat(rng.exponential(40.0, len(row)), repeat), 1)
        after = np.repeat(rng.integers(1_000_000, 120_000_000, len(row)), repeat) + np.where(is_click, 0, 60_000_000)
        row, position = np.repeat(row, repeat), np.repeat(position, repeat)
        arrays = [
            documents.take(pa.array(places[row, position])),
            pa.array(position.astype(np.int32)),
            pa.array(["purchase", "click"]).take(pa.array(is_click.astype(np.int8))),
            pa.array(time[row] + after).cast(pa.timestamp("us", tz="UTC")),
            pa.array(dwell, mask=~is_click),
        ]
        return _lists(np.bincount(row, minlength=len(there)), pa.StructArray.from_arrays(arrays, fields=EVENT))


def _split(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return a joined batch as impressions and clicks."""
    lists = batch.column("clicks")
    events = lists.flatten()
    owner = batch.column("impression_id").take(
        pa.array(np.repeat(np.arange(len(batch)), lists.value_lengths().to_numpy()))
    )
    clicks = pa.RecordBatch.from_arrays([owner, *events.flatten()], schema=CLICKS)
    return batch.select(IMPRESSIONS.names), clicks


def _texts(values: Iterator[str]) -> pa.StringArray:
    return pa.array(list(values), pa.string())


def _lists(sizes: Any, values: Any) -> pa.ListArray:
    return pa.ListArray.from_arrays(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32), pa.array(values))


def _repeated(values: pa.Array, count: int) -> pa.ListArray:
    return _lists(np.full(count, len(values)), values.take(pa.array(np.tile(np.arange(len(values)), count))))


def draw(*arguments: Any) -> int:
    """Stand in for a method's draw kernel in `record`."""
    return 0


def click(*arguments: Any) -> int:
    """Stand in for a user's kernel in `record`."""
    return 0


@kernel
def record(sizes, top, entering, ranks, grades, lengths, page, params, user, rng, found, labels, work_i, work_f):  # type: ignore[no-untyped-def]  # fmt: skip
    """Show pages of uniformly chosen queries to users, some of whom search often, and record what happens."""
    k, users, reads_ranks = page
    what, shown, note, clicked, stat = found
    for row in range(len(what)):
        q = below(rng, len(sizes))
        depth, documents = sizes[q]
        what[row, 0] = q
        what[row, 1] = np.int64(users * uniform(rng) ** 1.5)
        m = draw(
            top[q][:, :depth].copy(), entering[q, :depth], ranks[q, : reads_ranks * documents], lengths[q], k, params,
            rng, shown[row], note[row], stat[row], work_i, work_f,
        )  # fmt: skip
        what[row, 2] = m
        what[row, 3] = below(rng, 2**30)
        for x in range(m):
            labels[x] = grades[q, shown[row, x]]
        click(labels[:m], min(k, m), user, rng, clicked[row, :m])


def write_log(
    simulation: LogSimulation,
    folder: Path,
    impressions: int,
    *,
    files: int = 1,
    separate: bool = False,
    lines: bool = False,
    duplicates: float = 0.0,
    late: float = 0.0,
    seed: Seed = 0,
) -> list[Path]:
    """Write a simulated log to folder/impressions and, if separate, folder/clicks; return the files.

    Separate clicks are shuffled within blocks and over files; `duplicates` and `late` are the shares of those that are
    logged twice or an hour late.
    """
    written: list[Path] = []
    rng = np.random.default_rng(seed_state(seed).tolist())
    with ExitStack() as stack:

        def opened(kind: str, schema: pa.Schema) -> list[Any]:
            (folder / kind).mkdir(parents=True, exist_ok=True)
            end = "jsonl" if lines else "parquet"
            paths = [folder / kind / f"part-{number:05d}.{end}" for number in range(files)]
            written.extend(paths)
            if lines:
                return [stack.enter_context(path.open("wb")) for path in paths]
            return [stack.enter_context(parquet_writer(path, schema)) for path in paths]

        shown = opened("impressions", IMPRESSIONS if separate else JOINED)
        clicked = opened("clicks", CLICKS) if separate else []
        size = min(ROW_GROUP, -(-impressions // files))
        for number, joined in enumerate(simulation.batches(impressions, seed=seed, size=size)):
            if not separate:
                _append(shown[number % files], joined)
                continue
            batch, clicks = _split(joined)
            _append(shown[number % files], batch)
            _append(clicked[int(rng.integers(files))], _shuffled(clicks, duplicates, late, rng))
    return written


def _append(file: Any, batch: pa.RecordBatch) -> None:
    if isinstance(file, pq.ParquetWriter):
        file.write_batch(batch)
        return
    for row in batch.to_pylist():
        for event in row.get("clicks", ()):
            event["timestamp"] = spell_time(event["timestamp"])
        file.write(json_line(row))


def _shuffled(clicks: pa.RecordBatch, duplicates: float, late: float, rng: np.random.Generator) -> pa.RecordBatch:
    """Return clicks in random order, some twice and some an hour late."""
    place = clicks.schema.get_field_index("timestamp")
    delay = np.where(rng.random(len(clicks)) < late, 3_600_000_000, 0)
    times = pa.array(clicks.column(place).cast(pa.int64()).to_numpy() + delay).cast(clicks.schema.field(place).type)
    clicks = clicks.set_column(place, clicks.schema.field(place), times)
    order = np.concatenate([np.arange(len(clicks)), np.flatnonzero(rng.random(len(clicks)) < duplicates)])
    return clicks.take(pa.array(rng.permutation(order)))
