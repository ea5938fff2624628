"""Make a new database, or run the missing migrations, in the transaction of the caller that opens it."""

from alembic import context

import weir.store.cluster.tables
import weir.store.notifications.tables  # noqa: F401 - the tables of both join the metadata
from weir.store.tables import metadata

connection = context.config.attributes["connection"]
if context.config.attributes["is_new"]:
    metadata.create_all(connection, checkfirst=False)
context.configure(
    connection=connection,
    target_metadata=metadata,
    transactional_ddl=False,  # the caller holds one transaction for all migrations
)
context.run_migrations()
