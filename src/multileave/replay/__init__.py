"""Replay: verdicts from logs. The log's format, its writer, and the engine that reads it."""

# The schema first: it says what to install where Arrow is absent.
from multileave.replay.schema import CLICKS, IMPRESSIONS, JOINED, from_row, to_row  # isort: skip
from multileave.replay.engine import replay
from multileave.replay.report import Comparison, Counts, Replay
from multileave.replay.writing import LogWriter, write_parquet

__all__ = [
    "CLICKS",
    "IMPRESSIONS",
    "JOINED",
    "Comparison",
    "Counts",
    "LogWriter",
    "Replay",
    "from_row",
    "replay",
    "to_row",
    "write_parquet",
]
