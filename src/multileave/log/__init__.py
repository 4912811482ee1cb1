"""Log: the schema of logged impressions and clicks, the reader of rows, and the writers."""

# The schema first: it says what to install if Arrow is missing.
from multileave.log.schema import CLICKS, IMPRESSIONS, JOINED  # isort: skip
from multileave.log.reader import document_text, from_row
from multileave.log.writer import LogWriter, to_row, write_parquet

__all__ = ["CLICKS", "IMPRESSIONS", "JOINED", "LogWriter", "document_text", "from_row", "to_row", "write_parquet"]
