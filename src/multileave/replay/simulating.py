"""Logs of simulated users, of any size, for tests, benchmarks and trying things out.

Pages are drawn one by one in Python: the compiled loop of a study keeps sums, a log needs every page.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multileave.clicks import ClickModel
from multileave.data import QuerySet
from multileave.errors import DataError
from multileave.log.schema import CLICKS, IMPRESSIONS, JOINED
from multileave.log.writer import ROW_GROUP, json_line, parquet_writer, spell_time, to_row
from multileave.methods.base import Method
from multileave.random import Seed, State, below, next_word, seed_state, uniform

START = datetime(2026, 5, 4, 10, tzinfo=UTC)
APART = timedelta(microseconds=250_000)  # between impressions
LATE = timedelta(hours=1)


@dataclass(frozen=True)
class LogSimulation:
    """Users who see result pages and click; `batches` yields their log.

    data: queries whose documents all rankers rank. method, user, k: as in a study. users: how many there are.
    purchases: the share of clicks that are followed by a purchase, a separate event with a value.

    >>> from multileave.clicks import user
    >>> from multileave.data import synthetic
    >>> from multileave.methods import TeamDraft
    >>> simulation = LogSimulation(synthetic(queries=5, seed=1), TeamDraft(), user("perfect"), users=10)
    >>> [len(rows) for rows in simulation.batches(100, seed=1, size=64)]
    [64, 36]
    """

    data: QuerySet
    method: Method
    user: ClickModel
    users: int
    k: int = 10
    purchases: float = 0.1

    def batches(self, impressions: int, *, seed: Seed = 0, size: int = 1 << 16) -> Iterator[list[dict[str, Any]]]:
        """Yield impressions with their clicks, as rows of `JOINED`."""
        if impressions < 1 or self.users < 1:
            raise DataError(f"impressions is {impressions} and users is {self.users}; expected integers from 1.")
        self.method.check_rankers(len(self.data.rankers))
        queries = [self._query(number) for number in range(len(self.data))]
        state = seed_state(seed)
        rng = np.random.default_rng(state.tolist())
        prices = np.random.default_rng([*state.tolist(), 1])
        for first in range(0, impressions, size):
            rows = [self._page(queries, state, number) for number in range(first, min(first + size, impressions))]
            self._add_events(rows, rng, prices)
            yield rows

    def _query(self, number: int) -> tuple[dict[str, list[str]], dict[str, int]]:
        """Return the rankings of a query, and the grades of its documents; their ids are unique in the log."""
        labels, rankings = self.data.query(number)
        names = [f"q{number}d{document}" for document in range(len(labels))]
        named = [[names[document] for document in ranking] for ranking in rankings.tolist()]
        return dict(zip(self.data.rankers, named, strict=True)), dict(zip(names, labels.tolist(), strict=True))

    def _page(self, queries: list[tuple[Any, ...]], rng: State, number: int) -> dict[str, Any]:
        """Show a page of a uniformly chosen query to a user; return its row, with the positions of clicks."""
        query = below(rng, len(queries))
        user = int(self.users * uniform(rng) ** 1.5)  # some search often
        rankings, grades = queries[query]
        kept = self.method.keeps_propensities
        impression = self.method.combine(rankings, self.k, seed=int(next_word(rng)), propensities=kept)
        labels = np.array([grades[document] for document in impression.shown], dtype=np.uint8)
        clicked = np.zeros(len(labels), dtype=np.uint8)
        # A user who may go back has a kernel that numbers the clicks in their order.
        click = getattr(self.user, "order_kernel", self.user.kernel)
        click(labels, len(labels), self.user.parameters, rng, clicked)
        positions = np.flatnonzero(clicked)
        return to_row(
            impression,
            impression_id=f"i{number:09d}",
            timestamp=START + APART * number,
            user_id=f"user-{user}",
            query=f"query {query}",
            clicks=positions[np.argsort(clicked[positions], kind="stable")].tolist(),
        )

    def _add_events(self, rows: list[dict[str, Any]], rng: np.random.Generator, prices: np.random.Generator) -> None:
        """Replace clicked positions by events, each followed by its purchase if there is one."""
        count = sum(len(row["clicks"]) for row in rows)
        bought = (rng.random(count) < self.purchases).tolist()
        dwell = np.round(rng.exponential(40.0, count), 1).tolist()
        after = rng.integers(1_000_000, 120_000_000, count).tolist()
        worth = np.round(prices.lognormal(3.0, 0.7, count), 2).tolist()
        event = 0
        for row in rows:
            events = []
            times = sorted(after[event : event + len(row["clicks"])])  # a later click comes later
            for position, later in zip(row["clicks"], times, strict=True):
                what = {"document": row["shown"][position], "position": position}
                time = row["timestamp"] + timedelta(microseconds=later)
                events.append({**what, "action": "click", "timestamp": time, "dwell": dwell[event]})
                if bought[event]:
                    events.append(
                        {**what, "action": "purchase", "timestamp": time + timedelta(minutes=1), "value": worth[event]}
                    )
                event += 1
            row["clicks"] = events


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
        for number, rows in enumerate(simulation.batches(impressions, seed=seed, size=size)):
            if separate:
                events = [{"impression_id": row["impression_id"], **event} for row in rows for event in row["clicks"]]
                _append(clicked[int(rng.integers(files))], _shuffled(events, duplicates, late, rng), CLICKS)
            _append(shown[number % files], rows, IMPRESSIONS if separate else JOINED)
    return written


def _append(file: Any, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    if isinstance(file, pq.ParquetWriter):
        file.write_batch(pa.RecordBatch.from_pylist(rows, schema=schema))
        return
    for row in rows:
        events = [{**event, "timestamp": spell_time(event["timestamp"])} for event in row.get("clicks", ())]
        named = {name: row.get(name) for name in schema.names}
        file.write(json_line({**named, "clicks": events} if "clicks" in named else named))


def _shuffled(
    events: list[dict[str, Any]], duplicates: float, late: float, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Return clicks in random order, some twice and some an hour late."""
    delayed = (rng.random(len(events)) < late).tolist()
    moved = [{**e, "timestamp": e["timestamp"] + LATE * is_late} for e, is_late in zip(events, delayed, strict=True)]
    order = np.concatenate([np.arange(len(moved)), np.flatnonzero(rng.random(len(moved)) < duplicates)])
    return [moved[place] for place in rng.permutation(order).tolist()]
