"""Segments of impressions."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; earlier impressions have no segment."""
    op.add_column("impressions", sa.Column("segment", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop the column, and so the segments."""
    op.drop_column("impressions", "segment")
