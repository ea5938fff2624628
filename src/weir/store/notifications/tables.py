"""Tables of notifications: people's rules, queued notifications, and messages made of them."""

from sqlalchemy import Column, Double, Index, Integer, String, Table, Text, text

from weir.store.tables import NUMBER, metadata

notification_rules = Table(
    "notification_rules",
    metadata,
    Column("id", NUMBER, primary_key=True, autoincrement=True),
    Column("user", String, nullable=False),
    Column("project", String),
    Column("channel", String, nullable=False),
    Column("topics", Text, nullable=False),
    Column("target", String, nullable=False),
    Column("address_key", String, nullable=False),
    Column("quiet", String, nullable=False),
    Column("digest_s", Double, nullable=False),
    Column("created_s", Double, nullable=False),
    Column("dropped", Integer, nullable=False),
    sqlite_autoincrement=True,
)

notifications = Table(
    "notifications",
    metadata,
    Column("id", NUMBER, primary_key=True, autoincrement=True),
    Column("rule", NUMBER, nullable=False),
    Column("message", NUMBER),
    Column("at_s", Double, nullable=False),
    Column("topic", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("uid", NUMBER),
    Column("workload", String),
    Column("project", String),
    Column("sentence", Text, nullable=False),
    sqlite_autoincrement=True,
)
Index(
    "notifications_queued",
    notifications.c.rule,
    notifications.c.id,
    sqlite_where=text("message IS NULL"),
    postgresql_where=text("message IS NULL"),
)
Index("notifications_message", notifications.c.message)

notification_messages = Table(
    "notification_messages",
    metadata,
    Column("id", NUMBER, primary_key=True, autoincrement=True),
    Column("key", String, nullable=False),
    Column("rule", NUMBER, nullable=False),
    Column("made_s", Double, nullable=False),
    Column("size", Integer, nullable=False),
    Column("state", String, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_s", Double, nullable=False),
    Column("done_s", Double),
    Column("error", Text, nullable=False),
    sqlite_autoincrement=True,
)
Index("notification_messages_rule", notification_messages.c.rule, notification_messages.c.id)
Index(
    "notification_messages_pending",
    notification_messages.c.rule,
    notification_messages.c.due_s,
    sqlite_where=text("state = 'pending'"),
    postgresql_where=text("state = 'pending'"),
)
