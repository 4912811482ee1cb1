"""The tables of the store; `migrations/` creates them and brings older databases up to date.

An impression is `dirty` from when it is recorded or gets a new event until it has been added to the sums of its unit
and to the tallies; `counted` is what it contributed, so that it can be taken out again. Only `live.aggregation` and
`live.arms` write units, ledgers and summaries. An impression whose `unit` is empty is past its retention: all it had is
deleted, and it stays only to know the latest of its repetitions, for as long as that is kept.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    literal_column,
    text,
)

metadata = MetaData(
    naming_convention={"ix": "ix_%(table_name)s_%(column_0_N_name)s", "pk": "pk_%(table_name)s"},
)

# Times are microseconds since 1970, which all databases order and compare the same way.

experiments = Table(
    "experiments",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("definition", Text, nullable=False),  # JSON
    Column("version", Integer, nullable=False),
    Column("parent", Integer),
    Column("status", String(16), nullable=False),
    Column("start_of_slice", Float, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("started", BigInteger),
    Column("stopped", BigInteger),
    Column("drops", Text),  # JSON of the rankers that were dropped; null: none
    Column("arm_slices", Text),  # JSON of the slices that arms own; null: none
)

impressions = Table(
    "impressions",
    metadata,
    Column("id", LargeBinary(16), primary_key=True),
    Column("experiment", Integer, ForeignKey("experiments.number"), nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("unit", Text, nullable=False),
    Column("query", Text),
    Column("payload", Text, nullable=False),  # JSON of the impression as drawn, all pages; empty: nothing to compare
    Column("delivered", Integer, nullable=False),  # documents of the pages that were requested
    Column("missing", Text),  # JSON of the rankers that did not answer
    Column("latest", Integer, nullable=False, server_default=text("0")),  # the number of its latest repetition
    Column("renewed", BigInteger),  # when that was created; null: never repeated after the window
    Column("dirty", Boolean, nullable=False),
    Column("counted_delivered", Integer, nullable=False, server_default=text("0")),  # 0: not counted yet
    Column("counted", LargeBinary),
    Column("segment", Text),  # of the first request
    Column("arm", Text),  # the ranker whose own page it is; null: it compares rankers
)
Index(
    "ix_impressions_dirty",
    impressions.c.experiment,
    sqlite_where=impressions.c.dirty,
    postgresql_where=impressions.c.dirty,
)
# SQLAlchemy writes "dirty = 1" for SQLite, which the index with its condition "dirty" is not used for.
DIRTY: ColumnElement[bool] = literal_column("impressions.dirty")
Index("ix_impressions_recent", impressions.c.experiment, impressions.c.created)
Index("ix_impressions_unit", impressions.c.unit)

events = Table(
    "events",
    metadata,
    Column("impression", LargeBinary(16), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("action", Text, primary_key=True),
    Column("timestamp", BigInteger, nullable=False),  # the earliest that was reported
    Column("dwell", Float),  # the longest that was reported
    Column("value", Float),  # the largest that was reported
    sqlite_with_rowid=False,
)

units = Table(
    "units",
    metadata,
    Column("experiment", Integer, ForeignKey("experiments.number"), primary_key=True),
    Column("unit", Text, primary_key=True),
    Column("impressions", Integer, nullable=False),
    Column("sums", LargeBinary, nullable=False),  # float64 (actions, 1 + pairs): clicks, then preferences
    sqlite_with_rowid=False,
)

arm_units = Table(
    "arm_units",
    metadata,
    Column("experiment", Integer, ForeignKey("experiments.number"), primary_key=True),
    Column("unit", Text, primary_key=True),
    Column("arm", Text, primary_key=True),
    Column("sums", LargeBinary, nullable=False),  # float64 (actions, metrics + 1): metrics, then impressions
    sqlite_with_rowid=False,
)

ledgers = Table(
    "ledgers",
    metadata,
    Column("experiment", Integer, ForeignKey("experiments.number"), primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),  # JSON, a tally for each action
    Column("arms", Text),  # JSON, sums for each arm and action; null: none
)

summaries = Table(
    "summaries",
    metadata,
    Column("experiment", Integer, ForeignKey("experiments.number"), primary_key=True, autoincrement=False),
    Column("standing", String(16), nullable=False),
    Column("state", Text, nullable=False),  # JSON of the whole summary
)

looks = Table(
    "looks",
    metadata,
    Column("experiment", Integer, ForeignKey("experiments.number"), primary_key=True),
    Column("impressions", Integer, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("state", Text, nullable=False),  # JSON, for each action the units, the pairs, and a scheduled look's tally
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("name", Text, nullable=False),
    Column("role", String(16), nullable=False),
    Column("hash", LargeBinary(32), nullable=False, unique=True),
    Column("created", BigInteger, nullable=False),
    Column("revoked", BigInteger),
    Column("expires", BigInteger),
    Column("experiments", Text),  # JSON of the numbers that it is limited to
    Column("used", BigInteger),  # within a minute or so
)

sessions = Table(
    "sessions",
    metadata,
    Column("hash", LargeBinary(32), primary_key=True),  # of the cookie
    Column("key", Integer, ForeignKey("api_keys.number"), nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
)
Index("ix_sessions_key", sessions.c.key)

audit = Table(  # append-only: triggers refuse changes
    "audit",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False),
    Column("actor", String(16), nullable=False),
    Column("key", Integer),
    Column("name", Text),
    Column("action", String(32), nullable=False),
    Column("experiment", Integer),
    Column("details", Text, nullable=False),  # JSON
    sqlite_autoincrement=True,
)
Index("ix_audit_experiment", audit.c.experiment, audit.c.number)

secrets = Table(  # the hashing keys by purpose; "service": the secret of impression ids, on Postgres without a setting
    "secrets",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", Text, nullable=False),
)
