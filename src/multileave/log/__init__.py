"""Log: the schema of logged impressions and clicks, and the writer that applications use."""

# The schema first: it says what to install if Arrow is missing.
from multileave.log.schema import CLICKS, IMPRESSIONS, JOINED, from_row, to_row  # isort: skip
from multileave.log.writer import LogWriter, write_parquet

__all__ = ["CLICKS", "IMPRESSIONS", "JOINED", "LogWriter", "from_row", "to_row", "write_parquet"]
