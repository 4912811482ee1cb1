"""Log files as DataFrames for the Spark engine: JSON lines and Parquet, read by Spark."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

from multileave.errors import DataError
from multileave.replay.reading.files import PARQUET, is_log_name
from multileave.replay.spark.batches import BLOCK, FILE, LINE, ROW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_log(session: "SparkSession", paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> "DataFrame":
    """Return the impressions, or the clicks, of files and folders as a DataFrame for `multileave.replay.spark.replay`.

    paths: files, folders (recursively) or URIs of JSON lines or Parquet that Spark can read.

    The columns are those of the Parquet files; JSON lines are kept as text for the engine to parse, so that invalid
    ones are quarantined. Two more columns hold the file and, for Parquet, the row, or else where its block starts.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    files = sorted({file for path in given for file in _files(session, os.fspath(path))})
    tables = [file for file in files if file.endswith(PARQUET)]
    texts = [file for file in files if not file.endswith(PARQUET)]
    frames = []
    place = F.col("_metadata.file_path").alias(FILE)
    if tables:
        with failures("Spark could not read the log"):
            # Files may have different columns.
            frame = session.read.option("mergeSchema", "true").parquet(*tables)
        frames.append(frame.select("*", place, F.col("_metadata.row_index").alias(ROW)))
    if texts:
        frame = session.read.option("lineSep", "\n").text(texts)
        block = F.col("_metadata.file_block_start").alias(BLOCK)
        frames.append(frame.select(F.col("value").cast("binary").alias(LINE), place, block))
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def _files(session: "SparkSession", path: str) -> list[str]:
    """Return the log files of a path, as Spark lists them without opening them."""
    listing = session.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        found = [row["path"] for row in listing.load(path).select("path").collect()]
    except AnalysisException as error:
        raise DataError(
            f"There is no file or folder {path}. Pass files of JSON lines or Parquet, or their folder."
        ) from error
    if len(found) == 1 and found[0].rstrip("/").endswith("/" + path.rpartition("/")[2]):
        return found
    logs = [file for file in found if is_log_name(file.rpartition("/")[2])]
    if not logs:
        raise DataError(
            f"{path} has no files ending in .parquet, .jsonl, .jsonl.gz or .jsonl.zst. Pass the folder of the log."
        )
    return logs


@contextmanager
def failures(what: str) -> Iterator[None]:
    """Turn errors of Spark into `DataError`, with what failed and the cause."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise DataError(f"{what}: {_cause(str(error))}") from error


def _cause(message: str) -> str:
    """Return the line of a long message that names the cause."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    told = [line for line in lines if line.partition(": ")[0].endswith(("Error", "Exception")) and ": " in line]
    # The last such line of Python's traceback, or the innermost cause of Java's.
    ours = [line for line in told if "." not in line.partition(": ")[0]]
    java = [line.removeprefix("Caused by: ") for line in told if line.startswith("Caused by: ")]
    return (ours or java or lines or ["no reason given"])[-1 if ours or java else 0][:500]
