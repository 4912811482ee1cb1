"""Replay: verdicts from logs. The log's format, its writer, and the engine that reads it."""

# The schema first: it says what to install where Arrow is absent.
from multileave.log import CLICKS, IMPRESSIONS, JOINED, LogWriter, from_row, to_row, write_parquet  # isort: skip
from multileave.replay.engine import replay
from multileave.replay.report import Comparison, Counts, Replay

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
