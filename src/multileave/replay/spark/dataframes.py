"""Log files as DataFrames that the Spark engine takes: JSON lines and Parquet, read through Spark."""

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
from multileave.replay.spark.batches import FILE, LINE, ROW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["failures", "read_log"]


def read_log(session: "SparkSession", paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> "DataFrame":
    """Return the impressions, or the clicks, of files and folders as a DataFrame for `multileave.replay.spark.replay`.

    paths: files, folders (whole trees) or URIs of JSON lines or Parquet, as Spark understands them.

    The columns are those of the Parquet files, and for JSON lines the line itself, which the engine reads, and puts
    into quarantine if it is wrong. Beside them stand the file of each and, in Parquet, the row.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    files = sorted({file for path in given for file in _files(session, os.fspath(path))})
    tables = [file for file in files if file.endswith(PARQUET)]
    texts = [file for file in files if not file.endswith(PARQUET)]
    frames = []
    place = F.col("_metadata.file_path").alias(FILE)
    if tables:
        with failures("Spark could not read the log"):
            # Files may have columns that others lack.
            frame = session.read.option("mergeSchema", "true").parquet(*tables)
        frames.append(frame.select("*", place, F.col("_metadata.row_index").alias(ROW)))
    if texts:
        frame = session.read.option("lineSep", "\n").text(texts)
        frames.append(frame.select(F.col("value").cast("binary").alias(LINE), place))
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def _files(session: "SparkSession", path: str) -> list[str]:
    """Return the log files of a path, listed by Spark, which does not open them for that."""
    listing = session.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        found = [row["path"] for row in listing.load(path).select("path").collect()]
    except AnalysisException as error:
        raise DataError(
            f"there is no file or folder {path}. Give files of JSON lines or Parquet, or their folder."
        ) from error
    if len(found) == 1 and found[0].rstrip("/").endswith("/" + path.rpartition("/")[2]):
        return found
    logs = [file for file in found if is_log_name(file.rpartition("/")[2])]
    if not logs:
        raise DataError(
            f"{path} holds no file that ends in .parquet, .jsonl, .jsonl.gz or .jsonl.zst. Give the folder of the log."
        )
    return logs


@contextmanager
def failures(what: str) -> Iterator[None]:
    """Raise `DataError` with what failed and the cause where Spark fails."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise DataError(f"{what}: {_cause(str(error))}") from error


def _cause(message: str) -> str:
    """Return the line of a long message that says what happened."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    told = [line for line in lines if line.partition(": ")[0].endswith(("Error", "Exception")) and ": " in line]
    # Of Python's traceback the last such line, of Java's the innermost cause.
    ours = [line for line in told if "." not in line.partition(": ")[0]]
    java = [line.removeprefix("Caused by: ") for line in told if line.startswith("Caused by: ")]
    return (ours or java or lines or ["no reason given"])[-1 if ours or java else 0][:500]
