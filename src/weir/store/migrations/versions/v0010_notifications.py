"""Rules of notifications, and their outbox."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_QUEUED = sa.text("message IS NULL")
_PENDING = sa.text("state = 'pending'")


def upgrade() -> None:
    """Make the tables."""
    _rules()
    _outbox()


def _rules() -> None:
    op.create_table(
        "notification_rules",
        sa.Column("id", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("user", sa.String, nullable=False),
        sa.Column("project", sa.String),
        sa.Column("channel", sa.String, nullable=False),
        sa.Column("topics", sa.Text, nullable=False),
        sa.Column("target", sa.String, nullable=False),
        sa.Column("address_key", sa.String, nullable=False),
        sa.Column("quiet", sa.String, nullable=False),
        sa.Column("digest_s", sa.Double, nullable=False),
        sa.Column("created_s", sa.Double, nullable=False),
        sa.Column("dropped", sa.Integer, nullable=False),
        sqlite_autoincrement=True,
    )


def _outbox() -> None:
    op.create_table(
        "notifications",
        sa.Column("id", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("rule", _NUMBER, nullable=False),
        sa.Column("message", _NUMBER),
        sa.Column("at_s", sa.Double, nullable=False),
        sa.Column("topic", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("uid", _NUMBER),
        sa.Column("workload", sa.String),
        sa.Column("project", sa.String),
        sa.Column("sentence", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "notifications_queued",
        "notifications",
        ["rule", "id"],
        sqlite_where=_QUEUED,
        postgresql_where=_QUEUED,
    )
    op.create_index("notifications_message", "notifications", ["message"])
    op.create_table(
        "notification_messages",
        sa.Column("id", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("key", sa.String, nullable=False),
        sa.Column("rule", _NUMBER, nullable=False),
        sa.Column("made_s", sa.Double, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_s", sa.Double, nullable=False),
        sa.Column("done_s", sa.Double),
        sa.Column("error", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("notification_messages_rule", "notification_messages", ["rule", "id"])
    op.create_index(
        "notification_messages_pending",
        "notification_messages",
        ["rule", "due_s"],
        sqlite_where=_PENDING,
        postgresql_where=_PENDING,
    )
