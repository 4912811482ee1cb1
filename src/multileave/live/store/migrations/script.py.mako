"""${message}."""

import sqlalchemy as sa
from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring the tables up to this revision."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Bring the tables back to the one before."""
    ${downgrades if downgrades else "pass"}
