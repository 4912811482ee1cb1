"""Spark: the same verdicts from DataFrames, on a cluster."""

from multileave.replay.spark.engine import read_log, replay

__all__ = ["read_log", "replay"]
