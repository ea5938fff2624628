"""The position of each workload on the idle ladder."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the column; workloads that are there have not been idle so far."""
    op.add_column("workloads", sa.Column("idle", sa.Text(), nullable=False, server_default="{}"))
