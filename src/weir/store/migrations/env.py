"""Run the migrations in the transaction of the caller that opens the database."""

from alembic import context

from weir.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=False,  # the transaction is the opener's: begun before, committed after all of them
)
context.run_migrations()
