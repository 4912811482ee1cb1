"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "api_keys",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("revoked", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("hash"),
    )
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
    op.create_table(
        "experiments",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("parent", sa.Integer(), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("start_of_slice", sa.Float(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("started", sa.BigInteger(), nullable=True),
        sa.Column("stopped", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_experiments")),
    )
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_secrets")),
    )
    op.create_table(
        "impressions",
        sa.Column("id", sa.LargeBinary(length=16), nullable=False),
        sa.Column("experiment", sa.Integer(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("query", sa.Text(), nullable=True),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("delivered", sa.Integer(), nullable=False),
        sa.Column("missing", sa.Text(), nullable=True),
        sa.Column("latest", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("dirty", sa.Boolean(), nullable=False),
        sa.Column("counted_delivered", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("counted", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(
            ["experiment"],
            ["experiments.number"],
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_impressions")),
    )
    op.create_index(
        "ix_impressions_dirty",
        "impressions",
        ["experiment"],
        unique=False,
        sqlite_where=sa.text("dirty"),
        postgresql_where=sa.text("dirty"),
    )
    op.create_index("ix_impressions_recent", "impressions", ["experiment", "created"], unique=False)
    op.create_index("ix_impressions_unit", "impressions", ["unit"], unique=False)
    op.create_table(
        "ledgers",
        sa.Column("experiment", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment"],
            ["experiments.number"],
        ),
        sa.PrimaryKeyConstraint("experiment", name=op.f("pk_ledgers")),
    )
    op.create_table(
        "looks",
        sa.Column("experiment", sa.Integer(), nullable=False),
        sa.Column("impressions", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment"],
            ["experiments.number"],
        ),
        sa.PrimaryKeyConstraint("experiment", "impressions", name=op.f("pk_looks")),
    )
    op.create_table(
        "units",
        sa.Column("experiment", sa.Integer(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("impressions", sa.Integer(), nullable=False),
        sa.Column("sums", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment"],
            ["experiments.number"],
        ),
        sa.PrimaryKeyConstraint("experiment", "unit", name=op.f("pk_units")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drop all tables."""
    for table in ("api_keys", "events", "ledgers", "looks", "units", "impressions", "experiments", "secrets"):
        op.drop_table(table)
