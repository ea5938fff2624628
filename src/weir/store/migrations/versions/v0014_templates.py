"""Templates: submissions with parameters, by project."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "templates",
        sa.Column("project", sa.String, primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("user", sa.String, nullable=False),
        sa.Column("saved_wall_s", sa.Double, nullable=False),
        sa.Column("parameters", sa.Text, nullable=False),
        sa.Column("workload", sa.Text, nullable=False),
    )
