"""The Spark engine: the local engine's verdicts from DataFrames, on a cluster.

Spark joins, shuffles and groups; `tasks` does what the local engine does, through `mapInArrow`. Rows are inferred
where they are, and only the sums of units are shuffled, so that each unit ends up in one partition. There the sums
become tallies, which the driver merges. All counts travel in rows, so lost executors and retried tasks change nothing.
"""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial, reduce
from typing import TYPE_CHECKING

from multileave.errors import DataError, MissingExtra
from multileave.replay.reading.preparing import EVENT_FIELDS, NEEDED
from multileave.replay.report import Counts, Replay
from multileave.replay.run import Settings
from multileave.replay.spark.batches import AGAIN, BLOCK, EVENTS, FILE, HERE, ID, KEEP, LINE, NUMBER, ROW, WRONG
from multileave.replay.spark.tasks import (
    CLICKS_FOUND,
    FOUND,
    PARTIAL,
    Job,
    infer_rows,
    merge_units,
    prepare_clicks,
)

try:
    import pandas  # noqa: F401  # mapInArrow needs it
    from pyspark import StorageLevel
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    from multileave.replay.spark.dataframes import failures
except ImportError as error:
    raise MissingExtra(
        f"The Spark engine needs {error.name}, which is not installed: pip install 'multileave[spark]'"
    ) from error

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

LOG = (*NEEDED, "stat", "impression_id", "timestamp", "shown", "hidden", "ids", "clicks")
EVENT = [field.name for field in EVENT_FIELDS]


def replay(
    impressions: "DataFrame",
    clicks: "DataFrame | None" = None,
    *,
    unit: str | None = "user_id",
    actions: Sequence[str] = ("click",),
    dwell: float = 30.0,
    window: timedelta | None = None,
    cap: int | None = None,
    filter: "Column | None" = None,
    quarantine: str | None = None,
    check_ids: bool = False,
    partitions: int | None = None,
    setup: Callable[[], None] | None = None,
    method: str | None = None,
    rates: bool = True,
    segment: str | None = None,
) -> Replay:
    """Infer a log in DataFrames; return what `multileave.replay.replay` returns for the same log.

    impressions: rows of `IMPRESSIONS`, or of `JOINED` if there are no separate clicks; or the result of `read_log`.
    clicks: rows of `CLICKS`; they may be late, repeated and in any order.
    unit, actions, dwell, window, cap, check_ids, method, rates, segment: as in the local engine.
    filter: a condition on the columns of impressions; rows for which it is false or null are left out.
    quarantine: a folder for the rows that cannot be inferred, overwritten; all executors must reach it.
    partitions: over how many to spread the units; by default spark.sql.shuffle.partitions, fewer for a small log.
    setup: called first in every task, for example to register your own methods.
    """
    settings = Settings.checked(actions, dwell, window, unit=unit, cap=cap, method=method, rates=rates, segment=segment)
    with failures("Spark could not replay the log"):
        rows = _rows(impressions, [unit, segment], filter)
        # Separate clicks belong to rows that are filtered out, too.
        repeats = _has_repeats(rows if clicks is not None else rows.where(KEEP))
        if clicks is not None:
            rows = _joined(rows, clicks)
        if repeats:
            rows = _ordered_by_id(rows)
        job = Job(settings, clicks is not None, quarantine is not None, repeats, setup)
        partial_sums = rows.mapInArrow(partial(infer_rows, job), _spark(PARTIAL))
        if quarantine is not None:
            # Read twice.
            partial_sums = partial_sums.persist(StorageLevel.DISK_ONLY)
        try:
            found = _merged(partial_sums, job, partitions)
            found = replace(found, files=len(impressions.inputFiles())).ordered(settings.actions.names)
            if quarantine is not None and found.reasons:
                _write_wrong(partial_sums, quarantine, sum(found.reasons.values()))
                found = replace(found, quarantine=quarantine)
        finally:
            if quarantine is not None:
                partial_sums.unpersist()
    return found.check_segments(segment)


def _rows(impressions: "DataFrame", chosen: Sequence[str | None], condition: "Column | None") -> "DataFrame":
    """Return the columns that tasks need, with those chosen, and where each row comes from."""
    wanted = dict.fromkeys([*LOG, *(name for name in chosen if name), LINE, FILE, ROW, BLOCK])
    columns = [F.col(name) for name in wanted if name in impressions.columns]
    if FILE not in impressions.columns:
        columns.append(F.input_file_name().alias(FILE))
    kept = F.lit(True) if condition is None else F.coalesce(condition, F.lit(False))
    rows = impressions.select(*columns, kept.alias(KEEP), F.monotonically_increasing_id().alias(NUMBER))
    return rows.withColumn(ID, _id(rows))


def _joined(rows: "DataFrame", clicks: "DataFrame") -> "DataFrame":
    """Join impressions and events; events without an impression, and invalid ones, become separate rows."""
    if FILE not in clicks.columns:
        clicks = clicks.withColumn(FILE, F.input_file_name())
    checked = clicks.mapInArrow(prepare_clicks, _spark(CLICKS_FOUND))
    events = (
        checked.groupBy(F.col("impression_id").alias("__clicked"), F.col("wrong").alias(WRONG))
        # Sorted, as Spark's order differs each time.
        .agg(F.sort_array(F.collect_list(F.struct(*EVENT))).alias(EVENTS))
    )
    shown = rows.drop("clicks").withColumn(HERE, F.lit(True))
    joined = shown.join(events, F.col(ID) == F.col("__clicked"), "full_outer")
    joined = joined.withColumn(ID, F.coalesce(ID, "__clicked", WRONG)).drop("__clicked")
    nothing = F.array().cast(joined.schema[EVENTS].dataType)
    return joined.withColumn(EVENTS, F.coalesce(EVENTS, nothing))


def _id(rows: "DataFrame") -> "Column":
    named = F.col("impression_id").cast("string") if "impression_id" in rows.columns else F.lit(None).cast("string")
    if LINE in rows.columns:
        named = F.coalesce(named, F.get_json_object(F.col(LINE).cast("string"), "$.impression_id"))
    return named


def _has_repeats(rows: "DataFrame") -> bool:
    """Return whether two rows may have the same id; only hashes of ids are shuffled."""
    hashes = rows.where(F.col(ID).isNotNull()).select(F.xxhash64(ID).alias("hash"))
    return not hashes.groupBy("hash").count().where("count > 1").isEmpty()


def _ordered_by_id(rows: "DataFrame") -> "DataFrame":
    """Bring rows with the same id together, in the order of the log."""
    order = [F.col(name) for name in (FILE, BLOCK, ROW, NUMBER) if name in rows.columns]
    # Rows without an id are spread, by what is the same when a task is retried.
    keyed = rows.withColumn("__key", F.coalesce(F.col(ID), F.concat(F.lit("alone "), F.col(NUMBER).cast("string"))))
    again = F.row_number().over(Window.partitionBy("__key").orderBy(*order)) > 1
    return keyed.withColumn(AGAIN, again).sortWithinPartitions("__key", *order).drop("__key")


def _merged(partial_sums: "DataFrame", job: Job, partitions: int | None) -> Replay:
    """Bring the sums of each unit together, turn them into tallies, and merge these."""
    # Rows without a unit are spread by partition.
    spread = F.coalesce("unit", F.spark_partition_id().cast("string"))
    keyed = partial_sums.where(F.col("entry").isNull()).drop("entry").withColumn("__place", spread)
    # Without a number, Spark coalesces small partitions.
    by_unit = keyed.repartition(partitions, "__place") if partitions else keyed.repartition("__place")
    sorted_units = by_unit.drop("__place").sortWithinPartitions("key", "unit")
    found = sorted_units.mapInArrow(partial(merge_units, job), _spark(FOUND)).collect()
    return reduce(Replay.merge, (pickle.loads(row["found"]) for row in found), Replay((), Counts(), 0))


def _write_wrong(partial_sums: "DataFrame", folder: str, expected: int) -> None:
    """Write the invalid rows, a file for each partition that has some."""
    entries = partial_sums.where(F.col("entry").isNotNull()).select("entry")
    entries.write.mode("overwrite").text(folder)
    held = partial_sums.sparkSession.read.text(folder).count()
    if held != expected:
        raise DataError(
            f"The quarantine {folder} holds {held:,} of {expected:,} invalid rows. Pass a folder that all executors "
            "and the driver reach, such as on HDFS or in an object store."
        )


def _spark(schema: "pa.Schema") -> "StructType":
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
