"""Replay: verdicts from logs, with the log's schema and writer for convenience."""

# The log first: it says what to install if Arrow is missing.
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
