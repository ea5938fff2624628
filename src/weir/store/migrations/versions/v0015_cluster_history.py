"""History of a cluster: workloads as its API server stated them, and events for people."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Make the tables."""
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "cluster_workloads",
        sa.Column("uid", number, primary_key=True, autoincrement=False),
        sa.Column("namespace", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("why", sa.String()),
        sa.Column("evicted_s", sa.Double()),
        sa.Column("stated", sa.Text(), nullable=False),
    )
    op.create_index("cluster_workloads_name", "cluster_workloads", ["namespace", "name"])
    op.create_index("cluster_workloads_owner", "cluster_workloads", ["owner"])
    op.create_table(
        "cluster_events",
        sa.Column("source", sa.String(), primary_key=True),
        sa.Column("id", number, nullable=False),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("namespace", sa.String(), nullable=False),
        sa.Column("workload", sa.String()),
        sa.Column("project", sa.String()),
        sa.Column("pod", sa.String()),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("numbers", sa.Text(), nullable=False),
    )
    op.create_index("cluster_events_at", "cluster_events", ["at_s", "id"])
    op.create_index("cluster_events_namespace", "cluster_events", ["namespace", "at_s"])
    op.create_index("cluster_events_workload", "cluster_events", ["workload", "at_s"])
