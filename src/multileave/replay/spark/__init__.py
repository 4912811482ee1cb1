"""Spark: the same verdict from DataFrames, on a cluster."""

from multileave.replay.spark.engine import replay  # isort: skip  # it names the install line if Spark is missing
from multileave.replay.spark.dataframes import read_log

__all__ = ["read_log", "replay"]
