"""Hyper-parameter sweeps: their trials, and the results at their rungs."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables; workloads that are there belong to no sweep."""
    op.add_column("workloads", sa.Column("sweep", sa.String()))
    op.create_table(
        "sweeps",
        sa.Column("id", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("name", sa.String, nullable=False, unique=True),
        sa.Column("project", sa.String, nullable=False),
        sa.Column("user", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("created_s", sa.Double, nullable=False),
        sa.Column("ended_s", sa.Double),
        sa.Column("sentence", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "sweep_trials",
        sa.Column("sweep", _NUMBER, primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("uid", _NUMBER, nullable=False, unique=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("params", sa.Text, nullable=False),
        sa.Column("state_of_sampler", sa.Text, nullable=False),
        sa.Column("target", sa.Integer, nullable=False),
        sa.Column("parked", sa.Boolean, nullable=False),
    )
    op.create_table(
        "sweep_results",
        sa.Column("id", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("sweep", _NUMBER, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("rung", sa.Integer, nullable=False),
        sa.Column("step", _NUMBER, nullable=False),
        sa.Column("value", sa.Double),
        sa.Column("at_s", sa.Double, nullable=False),
        sa.Column("promoted_among", sa.Integer),
        sqlite_autoincrement=True,
    )
    op.create_index("sweep_results_of_trial", "sweep_results", ["sweep", "number", "rung"], unique=True)
