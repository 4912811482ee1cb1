"""multileave replay --engine spark: a Spark session around the Spark engine."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multileave.cli.loading import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from multileave.replay import Replay


def run_on_spark(
    master: str | None,
    sources: list[str] | None,
    paths: Sequence[str],
    *,
    clicks: Sequence[str] | None,
    quarantine: Path | None,
    progress: Callable[[str, int, int], None],
    **options: Any,
) -> "Replay":
    """Replay files on Spark; master: None for Spark's own setting. sources: the arguments of --load."""
    from multileave.replay import spark

    progress("starting Spark", 0, 0)
    with _session(master) as session:
        names = []
        for source in sources or []:
            # Executors import the same files.
            if source.endswith(".py"):
                session.sparkContext.addPyFile(source)
            names.append(Path(source).stem if source.endswith(".py") else source)
        progress("replaying on Spark", 0, 0)
        return spark.replay(
            spark.read_log(session, paths),
            spark.read_log(session, clicks) if clicks else None,
            quarantine=None if quarantine is None else str(quarantine.absolute()),
            setup=partial(load, names) if names else None,
            **options,
        )


@contextmanager
def _session(master: str | None) -> Iterator["SparkSession"]:
    """Yield the active session, or a new one that is stopped at the end."""
    from pyspark.sql import SparkSession

    from multileave.replay.spark.dataframes import failures

    running = SparkSession.getActiveSession()
    builder = SparkSession.builder.appName("multileave replay")
    # Spark's own progress bar would overwrite ours.
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    if master is not None:
        builder = builder.master(master)
    needs = "a Java runtime (apt-get install openjdk-17-jre-headless) and a master that can be reached"
    with failures(f"Spark does not start. It needs {needs}"):
        session = builder.getOrCreate()
    # Failures are reported in one line at the end.
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        if running is None:
            session.stop()
