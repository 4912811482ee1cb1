"""Rankers that were dropped from an experiment."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; no ranker has been dropped before."""
    op.add_column("experiments", sa.Column("drops", sa.Text(), nullable=True))


def downgrade() -> None:
    """Remove the column; earlier versions show all rankers again."""
    op.drop_column("experiments", "drops")
