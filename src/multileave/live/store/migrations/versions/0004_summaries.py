"""Summaries: each experiment's result in short, for lists."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table; the service fills it when it next adds impressions to the verdicts."""
    op.create_table(
        "summaries",
        sa.Column("experiment", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("standing", sa.String(length=16), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["experiment"], ["experiments.number"]),
        sa.PrimaryKeyConstraint("experiment", name=op.f("pk_summaries")),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("summaries")
