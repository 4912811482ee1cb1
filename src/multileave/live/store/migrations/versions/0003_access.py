"""Sessions, keys with expiry, scope and last use, and the audit log."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

REFUSED = "The audit log is append-only."
SQLITE = (
    f"CREATE TRIGGER audit_update BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, '{REFUSED}'); END",
    f"CREATE TRIGGER audit_delete BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, '{REFUSED}'); END",
    # INSERT OR REPLACE deletes a row without its trigger
    "CREATE TRIGGER audit_replace BEFORE INSERT ON audit "
    "WHEN EXISTS (SELECT 1 FROM audit WHERE number = NEW.number) "
    f"BEGIN SELECT RAISE(ABORT, '{REFUSED}'); END",
)
POSTGRES = (
    f"CREATE FUNCTION keep_audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '{REFUSED}'; END $$",
    "CREATE TRIGGER audit_change BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION keep_audit()",
    "CREATE TRIGGER audit_truncate BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION keep_audit()",
)


def upgrade() -> None:
    """Create the tables and their triggers, and add the columns of keys."""
    op.add_column("api_keys", sa.Column("expires", sa.BigInteger(), nullable=True))
    op.add_column("api_keys", sa.Column("experiments", sa.Text(), nullable=True))
    op.add_column("api_keys", sa.Column("used", sa.BigInteger(), nullable=True))
    op.create_table(
        "sessions",
        sa.Column("hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("key", sa.Integer(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["key"],
            ["api_keys.number"],
        ),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_sessions")),
    )
    op.create_index("ix_sessions_key", "sessions", ["key"], unique=False)
    op.create_table(
        "audit",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.String(length=16), nullable=False),
        sa.Column("key", sa.Integer(), nullable=True),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("action", sa.String(length=32), nullable=False),
        sa.Column("experiment", sa.Integer(), nullable=True),
        sa.Column("details", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_audit")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_experiment", "audit", ["experiment", "number"], unique=False)
    for statement in SQLITE if op.get_bind().dialect.name == "sqlite" else POSTGRES:
        op.execute(statement)


def downgrade() -> None:
    """Drop the tables, their triggers and the columns of keys."""
    op.drop_table("audit")
    if op.get_bind().dialect.name != "sqlite":
        op.execute("DROP FUNCTION keep_audit()")
    op.drop_table("sessions")
    with op.batch_alter_table("api_keys") as keys:
        for column in ("used", "experiments", "expires"):
            keys.drop_column(column)
