"""The tables of the first version: a new database is made from `weir.store.tables`, without migrations."""

revision = "0019"
down_revision = None


def upgrade() -> None:
    """Do nothing: no database is older."""
