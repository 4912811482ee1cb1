"""Clicks in separate files, joined to impressions out of core by DuckDB.

DuckDB sees only ids and events, never ranks. Impressions are numbered by their place in the log, and DuckDB returns
the events in the order of these numbers; the log is then read a second time, and every part takes its events from
the stream.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
import pyarrow as pa

from multileave.errors import MissingExtra
from multileave.replay.reading.preparing import CLICK_ROWS, EVENT_FIELDS, no_events

ROWS = 1 << 32  # more than any part has
KEYS = pa.schema([("impression_id", pa.string()), ("place", pa.int64())])


def open_database(folder: str, *, memory: str | None, threads: int) -> Any:
    """Return a connection to a new database in a folder, which is also used for what exceeds memory."""
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtra(
            "Clicks in separate files need DuckDB, which is not installed: pip install 'multileave[replay]'"
        ) from error
    settings: dict[str, Any] = {"threads": threads, "temp_directory": folder}
    if memory is not None:
        settings["memory_limit"] = memory
    return duckdb.connect(os.path.join(folder, "join.duckdb"), config=settings)


def create_table(database: Any, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Create a table from a stream of batches."""
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    database.register("incoming", reader)
    database.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming").fetchall()
    database.unregister("incoming")


def stream(database: Any, query: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query in batches."""
    found: Any = database.sql(query)
    # The second is its name before DuckDB 1.4.
    read = found.to_arrow_reader if hasattr(found, "to_arrow_reader") else found.fetch_arrow_reader
    return iter(read(1 << 16))


class ClickJoin:
    """Events in any order, by the place of their impression in the log.

    memory: such as "4GB"; None for DuckDB's default.
    """

    def __init__(self, *, memory: str | None, threads: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="multileave-")
        self._database = open_database(self._folder.name, memory=memory, threads=threads)
        self._stream: Iterator[pa.RecordBatch] = iter(())
        self._held: list[tuple[Any, pa.StructArray]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream = iter(())
        self._database.close()
        self._folder.cleanup()

    def take_clicks(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Load all events, as batches of `CLICK_ROWS`."""
        create_table(self._database, "events", CLICK_ROWS, batches)

    def take_ids(self, ids: Iterable[tuple[Any, Any]]) -> None:
        """Load row numbers and impression ids of all parts of the log, in order."""
        batches = (
            pa.RecordBatch.from_arrays([names, pa.array(part * ROWS + rows)], schema=KEYS)
            for part, (rows, names) in enumerate(ids)
        )
        create_table(self._database, "keys", KEYS, batches)

    def missing_positions(self) -> bool:
        """Return whether some event has no position."""
        return bool(self._number("SELECT count(*) FROM events WHERE position IS NULL"))

    def orphans(self) -> int:
        """Return how many events belong to no impression of the log."""
        return self._number("SELECT count(*) FROM events ANTI JOIN keys ON events.impression_id = keys.impression_id")

    def start(self) -> None:
        """Start the join, also once more; `next_part` then returns the events of one part after another."""
        self._part, self._held = -1, []
        columns = ", ".join(f"events.{field.name}" for field in EVENT_FIELDS)
        self._stream = stream(
            self._database,
            f"SELECT keys.place, {columns} FROM events JOIN keys ON events.impression_id = keys.impression_id "
            "ORDER BY keys.place",
        )

    def next_part(self) -> tuple[Any, pa.StructArray]:
        """Return rows of the next part, rising, and the event of each."""
        self._part += 1
        first, end = self._part * ROWS, (self._part + 1) * ROWS
        while not self._held or self._held[-1][0][-1] < end:
            batch = next(self._stream, None)
            if batch is None:
                break
            if len(batch):
                columns = [batch.column(field.name).cast(field.type) for field in EVENT_FIELDS]
                events = pa.StructArray.from_arrays(columns, fields=EVENT_FIELDS)
                self._held.append((batch.column("place").to_numpy(), events))
        if not self._held:
            return np.zeros(0, dtype=np.int64), no_events()
        places = np.concatenate([place for place, _ in self._held])
        events = pa.concat_arrays([event for _, event in self._held])
        start, cut = np.searchsorted(places, [first, end])
        self._held = [(places[cut:], events.slice(cut))] if cut < len(places) else []
        return places[start:cut] - first, events.slice(start, cut - start)

    def _number(self, query: str) -> int:
        [(number,)] = self._database.execute(query).fetchall()
        return int(number)
