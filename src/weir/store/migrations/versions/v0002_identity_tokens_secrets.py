"""Identity of the pool; labels, expiry and last use of tokens; names of the secrets a workload uses."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the table and the columns."""
    op.create_table(
        "pool",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_s", sa.Double(), nullable=False),
        sa.Column("opened", NUMBER, nullable=False),
        sa.Column("has_leftovers", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.add_column("tokens", sa.Column("label", sa.String(), nullable=False, server_default=""))
    op.add_column("tokens", sa.Column("expires_s", sa.Double(), nullable=True))
    op.add_column("tokens", sa.Column("used_s", sa.Double(), nullable=True))
    op.add_column("submissions", sa.Column("secrets", sa.Text(), nullable=False, server_default="{}"))
