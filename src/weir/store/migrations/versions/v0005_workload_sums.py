"""Sums over ended workloads by day, usage by 30 days and of the whole pool, and indexes for parts of days.

`fill` reads and writes the tables as they are now: a later change of their columns has to keep it right, or
to copy it here.
"""

import sqlalchemy as sa
from alembic import op

from weir.store.history.workload_sums import fill

revision = "0005"
down_revision = "0004"

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
SUMS = ("allocated_gpu_s", "seen_gpu_s", "used_gpu_s", "over_quota_gpu_s", "waiting_s")
COUNTED = sa.text("kind IN ('stopped', 'quota_met')")


def upgrade() -> None:
    """Make the table and the indexes, and sum up the stored workloads."""
    op.create_table(
        "workload_sums",
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("span_s", sa.Integer(), nullable=False),
        sa.Column("at_s", NUMBER, nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("ended", sa.Integer(), nullable=False),
        sa.Column("submitted", sa.Integer(), nullable=False),
        sa.Column("evicted", sa.Integer(), nullable=False),
        sa.Column("lost_gpu_s", sa.Double(), nullable=False),
        sa.Column("waits", sa.LargeBinary(), nullable=False),
        sa.Column("reclaims", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "span_s", "at_s", "key"),
        sqlite_with_rowid=False,
    )
    op.create_index("workloads_started", "workloads", ["first_started_s"])
    op.create_index("workloads_submitted", "workloads", ["submitted_s"])
    op.create_index("workloads_user", "workloads", ["user", "uid"])
    op.create_index(
        "events_counted", "events", ["kind", "at_s"], sqlite_where=COUNTED, postgresql_where=COUNTED
    )
    fill(op.get_bind())
    _sum_usage()


def _sum_usage() -> None:
    op.execute(
        'INSERT INTO uses SELECT 2592000, at_s - at_s % 2592000, project, department, "user", type, node,'
        " sum(allocated_gpu_s), sum(seen_gpu_s), sum(used_gpu_s), sum(over_quota_gpu_s), sum(waiting_s),"
        " sum(preempted) FROM uses WHERE span_s = 86400"
        ' GROUP BY at_s - at_s % 2592000, project, department, "user", type, node'
    )
    op.create_table(
        "pool_uses",
        sa.Column("span_s", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at_s", NUMBER, autoincrement=False, nullable=False),
        *(sa.Column(name, sa.Double(), nullable=False) for name in SUMS),
        sa.PrimaryKeyConstraint("span_s", "at_s"),
        sqlite_with_rowid=False,
    )
    op.execute(
        "INSERT INTO pool_uses SELECT span_s, at_s, sum(allocated_gpu_s), sum(seen_gpu_s), sum(used_gpu_s),"
        " sum(over_quota_gpu_s), sum(waiting_s) FROM uses GROUP BY span_s, at_s"
    )
