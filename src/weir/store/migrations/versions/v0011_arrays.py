"""Arrays: their indices are workloads of their own, made one after another."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the table and the columns; workloads that are there belong to no array."""
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "arrays",
        sa.Column("uid", number, primary_key=True, autoincrement=False),
        sa.Column("written", sa.Text(), nullable=False),
        sa.Column("only", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("again", sa.Text(), nullable=False),
        sa.Column("skipped", sa.Text(), nullable=False),
        sa.Column("counts", sa.Text(), nullable=False),
    )
    op.add_column("workloads", sa.Column("array_uid", number))
    op.add_column("workloads", sa.Column("array_index", sa.Integer()))
    op.add_column("workloads", sa.Column("replaced", sa.Boolean(), nullable=False, server_default=sa.false()))
    in_array = sa.text("array_uid IS NOT NULL")
    op.create_index(
        "workloads_array",
        "workloads",
        ["array_uid", "replaced", "array_index", "state"],
        sqlite_where=in_array,
        postgresql_where=in_array,
    )
