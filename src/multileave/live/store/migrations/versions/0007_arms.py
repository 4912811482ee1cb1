"""Arms: pages of a single ranker, and their sums; values of events."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

COLUMNS = (("experiments", "arm_slices"), ("impressions", "arm"), ("ledgers", "arms"))


def upgrade() -> None:
    """Add the columns and the table; earlier experiments have no arms."""
    for table, column in COLUMNS:
        op.add_column(table, sa.Column(column, sa.Text(), nullable=True))
    op.add_column("events", sa.Column("value", sa.Float(), nullable=True))
    op.create_table(
        "arm_units",
        sa.Column("experiment", sa.Integer(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("arm", sa.Text(), nullable=False),
        sa.Column("sums", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["experiment"], ["experiments.number"]),
        sa.PrimaryKeyConstraint("experiment", "unit", "arm", name="pk_arm_units"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drop all of it. Impressions of arms go too: earlier versions would take them for comparisons."""
    impressions = "SELECT id FROM impressions WHERE arm IS NOT NULL"
    op.execute(f"DELETE FROM events WHERE impression IN ({impressions})")
    op.execute("DELETE FROM impressions WHERE arm IS NOT NULL")
    op.drop_table("arm_units")
    op.drop_column("events", "value")
    for table, column in COLUMNS:
        op.drop_column(table, column)
