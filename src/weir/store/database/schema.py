"""Bringing the schema up to date when a database is opened."""

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from weir.store.errors import StoreFailed

FIRST, HEAD = "0019", "0019"
"""The version of the first release, and the newest migration.

The newest is checked first: Alembic is only imported if there is work to do.
"""
MIGRATIONS = Path(__file__).parents[1] / "migrations"


def bring_up_to_date(connection: Connection) -> None:
    """Make the tables of a new database, or run the missing migrations of an old one, in one transaction."""
    with connection.begin():
        if is_current(connection):
            return
        from alembic import command
        from alembic.config import Config
        from alembic.script import ScriptDirectory
        from alembic.util import CommandError

        revision = _revision(connection)
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        config.attributes.update(connection=connection, is_new=revision is None)
        if revision is None:
            command.stamp(config, "head")
            return
        revisions = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        if revision not in revisions:
            raise StoreFailed(f"The database {made_by(revision)}: use that version.")
        try:
            command.upgrade(config, "head")
        except CommandError as error:
            raise StoreFailed(f"The database can't be brought up to date: {error}.") from error


def made_by(revision: str) -> str:
    """Return the clause about a database that this version can't use."""
    version = "a newer version" if revision > HEAD else "a version before the first release"
    return f"was made by {version} of Weir"


def is_current(connection: Connection) -> bool:
    """Return True if the schema is that of this version."""
    return _revision(connection) == HEAD


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
