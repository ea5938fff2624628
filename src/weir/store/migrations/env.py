"""Run the migrations in the transaction of the caller that opens the database."""

from alembic import context

from weir.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=False,  # the caller holds one transaction for all migrations
)
context.run_migrations()
