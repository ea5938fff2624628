"""What Alembic runs: migrations in the transaction of whoever opens the database."""

from alembic import context

from weir.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=False,  # the transaction is the opener's: begun before, committed after all of them
)
context.run_migrations()
