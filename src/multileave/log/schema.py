"""The log format: the columns of impressions, of clicks, and of both joined.

A log has two notations of the same columns. Parquet follows the Arrow schemas below. In JSON lines an
impression is what `Impression.to_dict` returns, with nested ranks and [position, document] pins, plus
the envelope (impression_id, timestamp, user_id, ...); the flat form of Parquet is valid there too.

Ranks are flat, document by document, 0 if a ranker did not return it. They are int32 in memory;
Parquet packs them into as few bits as the largest needs. Document ids are strings; if some are not,
`ids` is "json" and every id is JSON text. Other columns take no part in inference, but can be used in
filters or identify the unit.

CONTRIBUTING says how to add a column. Client, replay, service and integrations read and write rows with this
package alone.
"""

from multileave.errors import MissingExtra
from multileave.impression import FORMAT_VERSION

try:
    import pyarrow as pa
except ImportError as error:
    raise MissingExtra("Logs need pyarrow, which is not installed: pip install 'multileave[replay]'") from error

TIME = pa.timestamp("us", tz="UTC")

IMPRESSIONS = pa.schema(
    [
        pa.field("version", pa.int32(), nullable=False),
        pa.field("impression_id", pa.string()),
        pa.field("timestamp", TIME),
        pa.field("user_id", pa.string()),
        pa.field("session_id", pa.string()),
        pa.field("query", pa.string()),
        pa.field("method", pa.string(), nullable=False),
        pa.field("rankers", pa.list_(pa.string()), nullable=False),
        pa.field("k", pa.int32(), nullable=False),
        pa.field("shown", pa.list_(pa.string()), nullable=False),
        pa.field("hidden", pa.list_(pa.string()), nullable=False),
        pa.field("pinned", pa.list_(pa.int32()), nullable=False),
        pa.field("ids", pa.string()),
        pa.field("lengths", pa.list_(pa.int32()), nullable=False),
        pa.field("ranks", pa.list_(pa.int32()), nullable=False),
        pa.field("note", pa.list_(pa.int32()), nullable=False),
        pa.field("stat", pa.list_(pa.float64()), nullable=False),
    ]
)
"""The Arrow schema of impressions."""

# A click without its impression. It needs a document or a position; if both are given, the position
# counts. dwell: seconds spent on the document. value: what it is worth, such as the price of what was bought. An event
# without an action is a click.
EVENT = [
    pa.field("document", pa.string()),
    pa.field("position", pa.int32()),
    pa.field("action", pa.string()),
    pa.field("timestamp", TIME),
    pa.field("dwell", pa.float64()),
    pa.field("value", pa.float64()),
]
CLICKS = pa.schema([pa.field("impression_id", pa.string(), nullable=False), *EVENT])
"""The Arrow schema of clicks in separate files."""
JOINED = IMPRESSIONS.append(pa.field("clicks", pa.list_(pa.struct(EVENT)), nullable=False))
"""The Arrow schema of impressions with their clicks."""

assert FORMAT_VERSION == 1, "a new format version needs its own schemas here"
