"""The conditions for the first start of a workload."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the column; workloads that are there may start at once."""
    op.add_column("submissions", sa.Column("conditions", sa.Text(), nullable=False, server_default="{}"))
