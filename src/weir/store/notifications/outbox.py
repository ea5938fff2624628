"""Outbox of notifications, written in the transaction of their event and sent later.

A message has one or more notifications of a rule, which a receiver gets together. It is stored with a random
key before its first attempt, so each attempt carries the same key and the same notifications.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select, update

from weir.model.notifications import (
    Claim,
    DeliveryState,
    Notification,
    NotificationRule,
    OutboxMessage,
    Topic,
)
from weir.store.database.codec import record_of, row_of
from weir.store.database.database import Database, WriteListener
from weir.store.notifications.rules import RuleTable
from weir.store.notifications.tables import notification_messages, notification_rules, notifications
from weir.store.records import HistoryEvent, RecordPage

MESSAGE_SIZE_MAX = 100
"""Notifications in one message."""
TRIED_MAX = 20
"""Messages of one rule that a receiver has refused and that are tried again; then no new one is made."""
QUEUED_MAX = 100_000
"""Notifications of one rule that aren't in a message yet; further ones are dropped and counted."""
KEPT_S = 30 * 86400.0
"""Time for which messages and notifications are kept."""
FORGOTTEN_TOGETHER = 1000
PENDING: DeliveryState = "pending"


class NotificationOutbox(WriteListener):
    """The outbox of a database. `on_queued` gets the rules with new notifications, on the writer's thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.rules = RuleTable(database)
        self.on_queued: Callable[[Collection[int]], None] = lambda _: None
        self._queued = Counter(database.read(_count_queued))
        self._new: Counter[int] = Counter()
        database.listeners.append(self)

    # Calls of the writer

    def on_begin(self) -> None:
        """Drop the counts of a rolled-back transaction."""
        self._new.clear()

    def committed(self) -> None:
        """Report rules with new notifications to the sender."""
        if self._new:
            self._queued += self._new  # also removes zero counts
            rules = [rule for rule, count in self._new.items() if count > 0]
            self._new.clear()
            self.on_queued(rules)

    def enqueue(self, connection: Connection, events: Sequence[HistoryEvent]) -> None:
        """Add notifications of events, in the transaction that writes the events."""
        rows = []
        for rule, topic, event in self.rules.index.matches(connection, events):
            if self._queued[rule.id] + self._new[rule.id] >= QUEUED_MAX:
                table = notification_rules
                change = update(table).where(table.c.id == rule.id).values(dropped=table.c.dropped + 1)
                connection.execute(change)
                continue
            self._new[rule.id] += 1
            rows.append(_notification_row(rule, topic, event))
        if rows:
            connection.execute(insert(notifications), rows)

    # Calls of the sender

    def rule(self, id_: int) -> NotificationRule | None:
        """Return a rule; None if it was deleted."""
        return self.rules.index.rules.get(id_)

    def waiting(self) -> Sequence[int]:
        """Return the rules with something to send."""

        def read(connection: Connection) -> set[int]:
            pending = select(notification_messages.c.rule).where(notification_messages.c.state == PENDING)
            return {*_count_queued(connection), *connection.execute(pending.distinct()).scalars()}

        return sorted(self._database.read(read))

    def claim(self, rule: NotificationRule, now_s: float) -> Claim:
        """Return the message of a rule that is due, a new one if there is none and a digest is due."""
        claim = self._database.read(lambda connection: _look(connection, rule, now_s))
        if not claim.is_queued:
            return claim
        return self._database.write(lambda connection: self._claim(connection, rule, now_s)).result()

    def _claim(self, connection: Connection, rule: NotificationRule, now_s: float) -> Claim:
        """Make a message of queued notifications, unless another caller just has."""
        claim = _look(connection, rule, now_s)
        return Claim(self._make(connection, rule, now_s)) if claim.is_queued else claim

    def _make(self, connection: Connection, rule: NotificationRule, now_s: float) -> OutboxMessage:
        queued = connection.execute(_QUEUED, {"of_rule": rule.id}).all()
        message = OutboxMessage(
            id=0,
            key=f"msg_{secrets.token_hex(12)}",
            rule=rule.id,
            made_s=now_s,
            size=len(queued),
            state=PENDING,
            attempts=0,
            due_s=now_s,
            done_s=None,
            error="",
        )
        row = row_of(message, "id", "done_s", "notifications")
        made = connection.execute(insert(notification_messages).values(row)).inserted_primary_key
        assert made is not None
        ids = [notification.id for notification in queued]
        of_message = update(notifications).where(notifications.c.id.in_(ids)).values(message=made[0])
        connection.execute(of_message)
        self._new[rule.id] -= len(queued)
        told = tuple(record_of(Notification, row) for row in queued)
        return _message(connection.execute(select(notification_messages).where(_id_is(made[0]))).one(), told)

    def delivered(self, message: OutboxMessage, at_s: float) -> "Future[None]":
        """Store that a receiver has confirmed a message."""
        return self._set(message, state="delivered", done_s=at_s, error="", attempts=message.attempts + 1)

    def retry(self, message: OutboxMessage, due_s: float, error: str) -> "Future[None]":
        """Store that an attempt failed, and when the next one is due."""
        return self._set(message, due_s=due_s, error=error, attempts=message.attempts + 1)

    def give_up(self, message: OutboxMessage, at_s: float, error: str) -> "Future[None]":
        """Store that a message isn't tried again."""
        return self._set(message, state="failed", done_s=at_s, error=error, attempts=message.attempts + 1)

    def _set(self, message: OutboxMessage, **values: object) -> "Future[None]":
        def work(connection: Connection) -> None:
            connection.execute(update(notification_messages).where(_id_is(message.id)).values(**values))

        return self._database.write(work, durable=False)

    # Lists

    def messages(
        self,
        rules: Collection[int],
        *,
        states: Collection[DeliveryState] = (),
        after: int | None = None,
        limit: int = 100,
    ) -> RecordPage[OutboxMessage]:
        """Return a page of messages of these rules, newest first, each with its first notification."""
        table = notification_messages
        where = [table.c.rule.in_(rules)]
        if states:
            where.append(table.c.state.in_(states))
        query = select(table).where(*where)
        if after is not None:
            query = query.where(table.c.id < after)

        def read(connection: Connection) -> RecordPage[OutboxMessage]:
            rows = connection.execute(query.order_by(table.c.id.desc()).limit(limit + 1)).all()
            total = connection.execute(select(func.count()).select_from(table).where(*where)).scalar_one()
            firsts = _first_notifications(connection, [row.id for row in rows[:limit]])
            items = [_message(row, firsts.get(row.id, ())) for row in rows[:limit]]
            return RecordPage(items, total, items[-1].id if len(rows) > limit else None)

        return self._database.read(read)

    def pending_of(self, rules: Collection[int]) -> Mapping[int, tuple[int, int, str]]:
        """Return by rule: notifications not delivered yet, those dropped, and why the last attempt failed."""

        def read(connection: Connection) -> dict[int, tuple[int, int, str]]:
            table = notification_messages
            sizes, errors = Counter(_count_queued(connection)), dict[int, str]()
            of_rules = select(table.c.rule, table.c.size, table.c.error).where(
                table.c.rule.in_(rules), table.c.state == PENDING
            )
            for row in connection.execute(of_rules.order_by(table.c.id)):
                sizes[row.rule] += row.size
                errors[row.rule] = row.error or errors.get(row.rule, "")
            dropped = select(notification_rules.c.id, notification_rules.c.dropped)
            rows = connection.execute(dropped.where(notification_rules.c.id.in_(rules)))
            return {row.id: (sizes[row.id], row.dropped, errors.get(row.id, "")) for row in rows}

        return self._database.read(read)

    def tidy(self, now_s: float) -> int:
        """Delete messages past their retention, and remains of deleted rules; return their number."""
        messages, gone = notification_messages, 0
        existing = select(notification_rules.c.id)
        old = select(messages.c.id).where(
            (messages.c.made_s < now_s - KEPT_S) | messages.c.rule.not_in(existing)
        )

        def work(connection: Connection) -> int:
            ids = list(connection.execute(old.limit(FORGOTTEN_TOGETHER)).scalars())
            connection.execute(delete(notifications).where(notifications.c.message.in_(ids)))
            stale = (notifications.c.message.is_(None)) & (notifications.c.at_s < now_s - KEPT_S)
            remains = notifications.c.rule.not_in(existing) | stale
            connection.execute(delete(notifications).where(remains))
            connection.execute(delete(messages).where(messages.c.id.in_(ids)))
            return len(ids)

        while (count := self._database.write(work, durable=False).result()) > 0:
            gone += count
        return gone


def _look(connection: Connection, rule: NotificationRule, now_s: float) -> Claim:
    """Return the due message of a rule, or the time until the next one."""
    table = notification_messages
    of_rule = select(table).where(table.c.rule == rule.id, table.c.state == PENDING)
    row = connection.execute(of_rule.order_by(table.c.due_s, table.c.id).limit(1)).first()
    if row is not None and row.due_s <= now_s:
        return Claim(_message(row, _notifications_of(connection, row.id)))
    times = [] if row is None else [row.due_s]
    named = {"of_rule": rule.id}
    if row is not None and len(connection.execute(_SOME_PENDING, named).all()) == TRIED_MAX:
        return Claim(next_s=row.due_s)
    queued = connection.execute(_QUEUED.limit(1), named).first()
    if queued is not None:
        due_s = queued.at_s + rule.digest_s
        if due_s <= now_s or not rule.digest_s:
            return Claim(is_queued=True)
        times.append(due_s)
    return Claim(next_s=min(times, default=None))


_QUEUED = (
    select(notifications)
    .where(notifications.c.rule == bindparam("of_rule"), notifications.c.message.is_(None))
    .order_by(notifications.c.id)
    .limit(MESSAGE_SIZE_MAX)
)
_SOME_PENDING = (
    select(notification_messages.c.id)
    .where(notification_messages.c.rule == bindparam("of_rule"), notification_messages.c.state == PENDING)
    .limit(TRIED_MAX)
)


def _id_is(id_: int) -> Any:
    return notification_messages.c.id == id_


def _count_queued(connection: Connection) -> dict[int, int]:
    counts = select(notifications.c.rule, func.count()).where(notifications.c.message.is_(None))
    return {row[0]: row[1] for row in connection.execute(counts.group_by(notifications.c.rule))}


def _notification_row(rule: NotificationRule, topic: Topic, event: HistoryEvent) -> dict[str, Any]:
    names = ("at_s", "kind", "uid", "workload", "project", "sentence")
    return {name: getattr(event, name) for name in names} | {"rule": rule.id, "topic": topic}


def _notifications_of(connection: Connection, message: int) -> tuple[Notification, ...]:
    table = notifications
    rows = connection.execute(select(table).where(table.c.message == message).order_by(table.c.id))
    return tuple(record_of(Notification, row) for row in rows)


def _first_notifications(
    connection: Connection, messages: Sequence[int]
) -> Mapping[int, tuple[Notification, ...]]:
    table = notifications
    first = select(func.min(table.c.id)).where(table.c.message.in_(messages)).group_by(table.c.message)
    rows = connection.execute(select(table).where(table.c.id.in_(first)))
    return {row.message: (record_of(Notification, row),) for row in rows}


def _message(row: Row[Any], told: tuple[Notification, ...]) -> OutboxMessage:
    return record_of(OutboxMessage, row, notifications=told)
