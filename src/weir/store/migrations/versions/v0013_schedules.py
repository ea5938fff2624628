"""Schedules: submissions at the times of cron expressions."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "schedules",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("project", sa.String, nullable=False),
        sa.Column("user", sa.String, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("cron", sa.String, nullable=False),
        sa.Column("zone", sa.String, nullable=False),
        sa.Column("concurrency", sa.String, nullable=False),
        sa.Column("asked", sa.Text, nullable=False),
        sa.Column("suspended", sa.Boolean, nullable=False),
        sa.Column("next_wall_s", sa.Double),
        sa.Column("last_wall_s", sa.Double),
        sa.Column("last", sa.String),
        sa.Column("said", sa.Text, nullable=False),
        sa.Column("runs", sa.Text, nullable=False),
    )
