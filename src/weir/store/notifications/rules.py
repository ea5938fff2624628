"""Rules of notifications: which events they match, and the table that holds them.

A rule of a person matches the events of that person's workloads, and events of the whole pool. A rule of a
project matches the events of the project.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select

from weir.control.port import LifecycleRule
from weir.model.notifications import NotificationRule, Topic
from weir.store.database.codec import record_of, row_of
from weir.store.database.database import Database
from weir.store.errors import NoSuchRule, TooManyRules
from weir.store.notifications.tables import notification_messages, notification_rules, notifications
from weir.store.records import HistoryEvent
from weir.store.tables import ENDED, workloads

RULES_MAX = 5000
"""Rules of one pool."""
OWNERS_TOGETHER = 500
"""Workloads whose users are read by one query."""


def topics_of(event: HistoryEvent) -> frozenset[Topic]:
    """Return the topics of an event. Kinds without a topic have none."""
    if event.kind == ENDED:
        return _topics_of_end(event.numbers)
    if event.kind == "stopping":
        return _NONE if event.numbers.get("rule") == LifecycleRule.GANG_FAILED else _EVICTION
    if event.kind.endswith("_warning"):
        return _IDLE_WARNING if event.kind.startswith("idle") else _WARNING
    return _TOPICS.get(event.kind, _NONE)


def _topics_of_end(numbers: Mapping[str, object]) -> frozenset[Topic]:
    """Return the topics of an end; a time rule or a failed dependency counts as a failure."""
    if (
        numbers.get("how") == "failed"
        or numbers.get("rule", LifecycleRule.WITHDRAWN) != LifecycleRule.WITHDRAWN
    ):
        return _FAILURE
    return _END


_NONE: frozenset[Topic] = frozenset()
_END: frozenset[Topic] = frozenset(("end",))
_FAILURE: frozenset[Topic] = frozenset(("failure", "end"))
_EVICTION: frozenset[Topic] = frozenset(("eviction",))
_WARNING: frozenset[Topic] = frozenset(("warning",))
_IDLE_WARNING: frozenset[Topic] = frozenset(("idle", "warning"))
_TOPICS: Mapping[str, frozenset[Topic]] = {
    "started": frozenset(("start",)),
    "drained": _EVICTION,
    "protection_lost": _IDLE_WARNING,
    "idle_suspended": frozenset(("idle",)),
    "quota_met": frozenset(("quota",)),
    "node": frozenset(("maintenance",)),
}
"""Topics of the other kinds of events."""


class RuleIndex:
    """Rules by the events that they match. It never changes: a change of rules makes a new one."""

    def __init__(self, rules: Iterable[NotificationRule]) -> None:
        self.rules = {rule.id: rule for rule in rules}
        self._of_user: dict[str, list[NotificationRule]] = defaultdict(list)
        self._of_project: dict[str, list[NotificationRule]] = defaultdict(list)
        for rule in self.rules.values():
            if rule.project is None:
                self._of_user[rule.user].append(rule)
            else:
                self._of_project[rule.project].append(rule)

    def matches(
        self, connection: Connection, events: Sequence[HistoryEvent]
    ) -> list[tuple[NotificationRule, Topic, HistoryEvent]]:
        """Return each rule with an event that it matches and the first topic that does."""
        if not self.rules:
            return []
        told = [(event, topics) for event in events if (topics := topics_of(event))]
        owners = self._owners(connection, [event.uid for event, _ in told if event.uid is not None])
        matched = []
        for event, topics in told:
            for rule in self._candidates(event, owners):
                topic = next((candidate for candidate in rule.topics if candidate in topics), None)
                if topic is not None:
                    matched.append((rule, topic, event))
        return matched

    def _candidates(self, event: HistoryEvent, owners: Mapping[int, str]) -> Iterable[NotificationRule]:
        if event.project is None and event.uid is None:
            return self.rules.values() if event.kind == "node" else ()
        of_project = self._of_project.get(event.project or "", ())
        of_user = () if event.uid is None else self._of_user.get(owners.get(event.uid, ""), ())
        return (*of_user, *of_project)

    def _owners(self, connection: Connection, uids: Sequence[int]) -> dict[int, str]:
        """Return the users of workloads, if any rule is a person's."""
        owners: dict[int, str] = {}
        if self._of_user:
            for start in range(0, len(uids), OWNERS_TOGETHER):
                some = select(workloads.c.uid, workloads.c.user).where(
                    workloads.c.uid.in_(uids[start : start + OWNERS_TOGETHER])
                )
                owners.update({row.uid: row.user for row in connection.execute(some)})
        return owners


class RuleTable:
    """The rules in a database, all kept in memory, since each event is compared with them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.index = database.read(read_rules)

    def add(self, rule: NotificationRule, most: int) -> NotificationRule:
        """Add a rule; return it with its number.

        Raises:
            TooManyRules: the person has `most` rules, or the pool has as many as it may.
        """

        def work(connection: Connection) -> tuple[int, RuleIndex]:
            table = notification_rules
            own = select(func.count()).where(table.c.user == rule.user)
            if connection.execute(own).scalar_one() >= most:
                raise TooManyRules(f"{rule.user} has {most} notifications, the maximum: remove one.")
            if connection.execute(select(func.count()).select_from(table)).scalar_one() >= RULES_MAX:
                raise TooManyRules(f"The pool has {RULES_MAX:,} notifications, the maximum: remove one.")
            values = {**row_of(rule, "id"), "dropped": 0}
            row = connection.execute(insert(table).values(values)).inserted_primary_key
            assert row is not None
            return row[0], read_rules(connection)

        id_, self.index = self._database.write(work).result()
        return self.index.rules[id_]

    def remove(self, id_: int) -> None:
        """Remove a rule with its unsent messages.

        Raises:
            NoSuchRule: the rule was deleted already.
        """

        def work(connection: Connection) -> RuleIndex:
            table = notification_rules.c
            if connection.execute(select(table.id).where(table.id == id_)).first() is None:
                raise NoSuchRule(f"There is no notification {id_}.")
            delete_rules(connection, [id_])
            return read_rules(connection)

        self.index = self._database.write(work).result()

    def read(self) -> None:
        """Read the rules into memory."""
        self.index = self._database.read(read_rules)


def delete_rules(connection: Connection, ids: Sequence[int]) -> None:
    """Delete rules, their notifications and their messages."""
    connection.execute(delete(notification_rules).where(notification_rules.c.id.in_(ids)))
    connection.execute(delete(notifications).where(notifications.c.rule.in_(ids)))
    connection.execute(delete(notification_messages).where(notification_messages.c.rule.in_(ids)))


def delete_rules_of_project(connection: Connection, project: str) -> None:
    """Delete the rules of a project, in the transaction that deletes it."""
    of_project = select(notification_rules.c.id).where(notification_rules.c.project == project)
    delete_rules(connection, list(connection.execute(of_project).scalars()))


def read_rules(connection: Connection) -> RuleIndex:
    """Return all rules."""
    rows = connection.execute(select(notification_rules).order_by(notification_rules.c.id))
    return RuleIndex(map(_rule, rows))


def _rule(row: Row[Any]) -> NotificationRule:
    return record_of(NotificationRule, row, topics=tuple(json.loads(row.topics)))
