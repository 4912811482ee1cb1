"""How alembic runs the migrations: on the connection that the store passes in."""

from alembic import context

from multileave.live.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
