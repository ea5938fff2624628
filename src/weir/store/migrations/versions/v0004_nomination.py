"""The nomination of a workload under its own name."""

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Rename the column; SQLite and PostgreSQL keep its values."""
    op.execute("ALTER TABLE workloads RENAME COLUMN promised TO nomination")
