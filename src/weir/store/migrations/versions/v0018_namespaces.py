"""The namespace of a cluster's work in a column of its own: until now it was in that of the user.

The stated rows of workloads have their user. Sums of use don't, so those of the time before are of no user.
"""

import json

import sqlalchemy as sa
from alembic import op

from weir.store.history.workload_sums import fill

revision = "0018"
down_revision = "0017"

TOGETHER = 2000
_KEYS = ("span_s", "at_s", "project", "department", "user", "type", "node")
_SUMS = ("allocated_gpu_s", "seen_gpu_s", "used_gpu_s", "over_quota_gpu_s", "waiting_s")
_STATES = ("working_gpu_s", "starved_gpu_s", "parked_gpu_s", "left_gpu_s")


def upgrade() -> None:
    """Add the columns, and tell namespaces of a cluster from users."""
    connection = op.get_bind()
    is_cluster = bool(connection.execute(sa.text("SELECT 1 FROM pool WHERE id LIKE 'cluster-%'")).first())
    op.add_column("workloads", sa.Column("namespace", sa.String()))
    condition = sa.text("namespace IS NOT NULL")
    op.create_index(
        *("workloads_namespace", "workloads", ["namespace", "uid"]),
        sqlite_where=condition,
        postgresql_where=condition,
    )
    _add_key(is_cluster=is_cluster)
    if is_cluster:
        _name_users(connection)
        connection.execute(sa.text("DELETE FROM workload_sums WHERE kind = 'user'"))
        fill(connection, kinds=("user",))


def _add_key(*, is_cluster: bool) -> None:
    """Make the table of use once more: the namespace is a part of its key."""
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    types = {"span_s": sa.Integer(), "at_s": number}
    op.create_table(
        "uses_in_namespaces",
        *(
            sa.Column(name, types.get(name) or sa.String(), primary_key=True, autoincrement=False)
            for name in _KEYS
        ),
        sa.Column("namespace", sa.String(), primary_key=True, server_default=""),
        *(sa.Column(name, sa.Double(), nullable=False) for name in _SUMS),
        sa.Column("preempted", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Double(), nullable=False, server_default="0") for name in _STATES),
        sqlite_with_rowid=False,
    )
    rest = ", ".join(f'"{name}"' for name in (*_KEYS, *_SUMS, "preempted", *_STATES) if name != "user")
    user = "'', \"user\"" if is_cluster else "\"user\", ''"
    op.execute(
        f'INSERT INTO uses_in_namespaces ("user", namespace, {rest}) SELECT {user}, {rest} FROM uses'  # noqa: S608
    )
    op.drop_table("uses")
    op.rename_table("uses_in_namespaces", "uses")


def _name_users(connection: sa.Connection) -> None:
    """Set the columns from the stated values, some rows at a time, as all of them may need gigabytes."""
    stated = sa.text(
        "SELECT uid, namespace, stated FROM cluster_workloads WHERE uid > :after ORDER BY uid LIMIT :together"
    )
    change = sa.text('UPDATE workloads SET "user" = :user, namespace = :namespace WHERE uid = :uid')
    after = -1
    while found := connection.execute(stated, {"after": after, "together": TOGETHER}).all():
        rows = [
            {"uid": row.uid, "namespace": row.namespace, "user": json.loads(row.stated)["row"]["user"]}
            for row in found
        ]
        connection.execute(change, rows)
        after = found[-1].uid
