"""Wall time of all runs, the first start and the exit code of a workload."""

from alembic import op
from sqlalchemy import Column, Double, Integer, text

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns. The last run is all that is known of workloads that ended before."""
    op.add_column("workloads", Column("wall_s", Double, nullable=False, server_default=text("0")))
    op.add_column("workloads", Column("first_started_s", Double))
    op.add_column("workloads", Column("exit_code", Integer))
    op.execute(
        "UPDATE workloads SET wall_s = ended_s - started_s, first_started_s = started_s "
        "WHERE ended_s IS NOT NULL AND started_s IS NOT NULL AND ended_s > started_s"
    )
