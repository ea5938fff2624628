"""The container that a workload's commands run in."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the column; existing workloads run as processes."""
    op.add_column("submissions", sa.Column("container", sa.Text(), nullable=False, server_default="{}"))
