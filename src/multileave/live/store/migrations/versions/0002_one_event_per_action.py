"""One event for each position and action of an impression, and when an impression was last repeated."""

import time

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Merge events of the same position and action: the earliest time and the longest dwell, as for new ones.

    Verdicts stay the same: a position counts once, and a click is satisfied if its longest dwell is long enough.
    """
    _set_aside("pk_events")
    op.create_table(
        "events",
        sa.Column("impression", sa.LargeBinary(length=16), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("timestamp", sa.BigInteger(), nullable=False),
        sa.Column("dwell", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("impression", "position", "action", name=op.f("pk_events")),
        sqlite_with_rowid=False,
    )
    op.execute(
        "INSERT INTO events (impression, position, action, timestamp, dwell) "
        "SELECT impression, position, action, min(timestamp), max(dwell) FROM events_before "
        "GROUP BY impression, position, action"
    )
    op.drop_table("events_before")
    op.add_column("impressions", sa.Column("renewed", sa.BigInteger(), nullable=True))
    # When earlier repetitions were created is not known here; taking now keeps them one retention longer at most.
    op.execute(f"UPDATE impressions SET renewed = {time.time_ns() // 1000} WHERE latest > 0")


def downgrade() -> None:
    """Give every event an id again, made of its position and action."""
    op.drop_column("impressions", "renewed")
    _set_aside("pk_events")
    op.create_table(
        "events",
        sa.Column("impression", sa.LargeBinary(length=16), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("timestamp", sa.BigInteger(), nullable=False),
        sa.Column("dwell", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("impression", "id", name=op.f("pk_events")),
        sqlite_with_rowid=False,
    )
    op.execute(
        "INSERT INTO events (impression, id, position, action, timestamp, dwell) "
        "SELECT impression, position || '-' || action, position, action, timestamp, dwell FROM events_before"
    )
    op.drop_table("events_before")


def _set_aside(key: str) -> None:
    """Rename the table of events, with its key where names of keys must differ."""
    op.rename_table("events", "events_before")
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"ALTER TABLE events_before RENAME CONSTRAINT {key} TO {key}_before")
