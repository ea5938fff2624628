"""Indices of arrays that were stopped before they were queued: a row each, in place of one list."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Make the table from the values of the lists, and drop these."""
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    skips = op.create_table(
        "array_skips",
        sa.Column("uid", number, primary_key=True, autoincrement=False),
        sa.Column("array_index", sa.Integer, primary_key=True, autoincrement=False),
        sqlite_with_rowid=False,
    )
    written = op.get_bind().execute(sa.text("SELECT uid, skipped FROM arrays WHERE skipped <> '[]'"))
    rows = [{"uid": row[0], "array_index": index} for row in written for index in json.loads(row[1])]
    if rows:
        op.bulk_insert(skips, rows)
    op.drop_column("arrays", "skipped")
