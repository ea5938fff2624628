"""GPU time by the state of the workloads that hold the GPUs: working, starved, parked or left."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add the columns; nothing is known of the time before."""
    for name in ("working_gpu_s", "starved_gpu_s", "parked_gpu_s", "left_gpu_s"):
        op.add_column("uses", sa.Column(name, sa.Double(), nullable=False, server_default="0"))
