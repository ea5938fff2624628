"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make them."""
    _device_uses()
    _events()
    _marks()
    _queues()
    _submissions()
    _tokens()
    _uses()
    _workload_uses()
    _workloads()


def _device_uses() -> None:
    op.create_table(
        "device_uses",
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("device", sa.Integer(), nullable=False),
        sa.Column("span_s", sa.Integer(), nullable=False),
        sa.Column("at_s", NUMBER, nullable=False),
        sa.Column("allocated_gpu_s", sa.Double(), nullable=False),
        sa.Column("seen_gpu_s", sa.Double(), nullable=False),
        sa.Column("used_gpu_s", sa.Double(), nullable=False),
        sa.Column("memory_most", NUMBER, nullable=False),
        sa.PrimaryKeyConstraint("node", "device", "span_s", "at_s"),
        sqlite_with_rowid=False,
    )
    op.create_index("device_uses_at", "device_uses", ["span_s", "at_s"], unique=False)


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("uid", NUMBER, nullable=True),
        sa.Column("workload", sa.String(), nullable=True),
        sa.Column("project", sa.String(), nullable=True),
        sa.Column("pod", sa.String(), nullable=True),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("numbers", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("events_kind", "events", ["kind", "id"], unique=False)
    op.create_index(
        "events_one_end",
        "events",
        ["uid"],
        unique=True,
        sqlite_where=sa.text("kind = 'ended'"),
        postgresql_where=sa.text("kind = 'ended'"),
    )
    op.create_index("events_project", "events", ["project", "id"], unique=False)
    op.create_index("events_uid", "events", ["uid", "id"], unique=False)


def _marks() -> None:
    op.create_table(
        "marks",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def _queues() -> None:
    op.create_table(
        "queues",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("parent", sa.String(), nullable=True),
        sa.Column("is_project", sa.Boolean(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def _submissions() -> None:
    op.create_table(
        "submissions",
        sa.Column("uid", NUMBER, autoincrement=False, nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("environment", sa.Text(), nullable=False),
        sa.Column("directory", sa.Text(), nullable=False),
        sa.Column("grace_s", sa.Double(), nullable=False),
        sa.Column("asked", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("uid"),
    )


def _tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", NUMBER, autoincrement=True, nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("projects", sa.Text(), nullable=False),
        sa.Column("created_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("sha256"),
        sqlite_autoincrement=True,
    )


def _uses() -> None:
    op.create_table(
        "uses",
        sa.Column("span_s", sa.Integer(), nullable=False),
        sa.Column("at_s", NUMBER, nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("department", sa.String(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("allocated_gpu_s", sa.Double(), nullable=False),
        sa.Column("seen_gpu_s", sa.Double(), nullable=False),
        sa.Column("used_gpu_s", sa.Double(), nullable=False),
        sa.Column("over_quota_gpu_s", sa.Double(), nullable=False),
        sa.Column("waiting_s", sa.Double(), nullable=False),
        sa.Column("preempted", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("span_s", "at_s", "project", "department", "user", "type", "node"),
        sqlite_with_rowid=False,
    )


def _workload_uses() -> None:
    op.create_table(
        "workload_uses",
        sa.Column("uid", NUMBER, autoincrement=False, nullable=False),
        sa.Column("span_s", sa.Integer(), nullable=False),
        sa.Column("at_s", NUMBER, nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("allocated_gpu_s", sa.Double(), nullable=False),
        sa.Column("seen_gpu_s", sa.Double(), nullable=False),
        sa.Column("used_gpu_s", sa.Double(), nullable=False),
        sa.Column("over_quota_gpu_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("uid", "span_s", "at_s", "node"),
        sqlite_with_rowid=False,
    )
    op.create_index("workload_uses_at", "workload_uses", ["span_s", "at_s"], unique=False)


def _workloads() -> None:
    op.create_table(
        "workloads",
        sa.Column("uid", NUMBER, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("department", sa.String(), nullable=True),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("preemptible", sa.Boolean(), nullable=False),
        sa.Column("devices", sa.Double(), nullable=False),
        sa.Column("pods", sa.Integer(), nullable=False),
        sa.Column("submitted_s", sa.Double(), nullable=False),
        sa.Column("started_s", sa.Double(), nullable=True),
        sa.Column("ended_s", sa.Double(), nullable=True),
        sa.Column("ran_s", sa.Double(), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("starts", sa.Integer(), nullable=False),
        sa.Column("settled", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("restarts", sa.Integer(), nullable=False),
        sa.Column("retry_at_s", sa.Double(), nullable=True),
        sa.Column("promised", sa.Text(), nullable=True),
        sa.Column("saved_s", sa.Double(), nullable=True),
        sa.Column("held", sa.Text(), nullable=True),
        sa.Column("withdrawn_s", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("uid"),
        sqlite_autoincrement=True,
    )
    op.create_index("workloads_ended", "workloads", ["ended_s"], unique=False)
    op.create_index(
        "workloads_live_name",
        "workloads",
        ["name"],
        unique=True,
        sqlite_where=sa.text("state = 'live'"),
        postgresql_where=sa.text("state = 'live'"),
    )
    op.create_index("workloads_name", "workloads", ["name", "uid"], unique=False)
    op.create_index("workloads_project", "workloads", ["project", "uid"], unique=False)
    op.create_index("workloads_state", "workloads", ["state", "uid"], unique=False)
