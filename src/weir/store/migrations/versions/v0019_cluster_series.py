"""Reported values of a cluster's workloads over time."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Make the table."""
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "cluster_series",
        sa.Column("uid", number, primary_key=True, autoincrement=False),
        sa.Column("series", sa.Text(), nullable=False),
    )
