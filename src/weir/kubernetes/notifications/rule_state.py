"""The outbox of one rule: its status in memory, and every change of it."""

import asyncio
import secrets
from bisect import insort
from collections.abc import Iterable

from weir.kubernetes.api.object_numbers import moment, number_of, seconds_of, workload_number
from weir.kubernetes.crd.notification_objects import (
    CHANNELS,
    DELIVERIES_MAX,
    FAILING,
    QUEUED_MAX,
    READY,
    REFUSAL_MAX,
    REFUSED,
    SENTENCE_MAX,
    TOLD_MAX,
    TOPICS,
    NotificationRuleObject,
    QueuedNotification,
    RuleDelivery,
    RuleMessage,
)
from weir.kubernetes.crd.objects import WorkloadSpec
from weir.kubernetes.writes.statuses.stated_events import StatedEvent
from weir.model.notifications import (
    Claim,
    Notification,
    NotificationRule,
    OutboxMessage,
)
from weir.model.plain_text import printable
from weir.model.resources import seconds
from weir.notifications.notification_settings import ADDRESS
from weir.notifications.quiet_hours import read_quiet_hours

MESSAGE_SIZE_MAX = 100
"""Notifications in one message."""
TRIED_MAX = 5
"""Limit of refused messages of a rule that are retried; above it, no new message is made."""
RECEIVER_MAX = 253


class RuleState:
    """A rule and its outbox.

    `is_changed`: the status has changes that aren't written; `writing` is held while they are, and none is
    begun before `write_after_s` of the monotonic clock. After a write the next one isn't due before
    `rests_until_s`, unless an event of `unwritten` workloads can be read nowhere else.
    `surplus`: why the rule isn't used, if there are too many.
    """

    def __init__(self, rule: NotificationRuleObject, now_s: float) -> None:
        self.surplus = ""
        self.writing = asyncio.Lock()
        self.write_after_s = self.rests_until_s = 0.0
        self.unwritten: set[str] = set()  # uids of workloads with events that aren't stored yet
        self.uid = rule.metadata.uid
        self.id = number_of(rule.metadata.uid)
        self.namespace, self.name = rule.metadata.namespace, rule.metadata.name
        self.status = rule.status
        self.is_changed = False
        if self.status.told_until is None:
            created = rule.metadata.creation_timestamp
            # Times are whole seconds, and an event of the rule's first second counts
            self.status.told_until = moment((seconds_of(created) if created else now_s) - 1)
        self._told_before = {key.rpartition("-")[2] for key in self.status.told}
        self._told: dict[str, set[str]] = {}  # events notified in this term, by uid of the workload
        self.status.pending = len(self.status.queued) + sum(
            len(message.notifications) for message in self.status.messages
        )
        self.since_s = seconds_of(self.status.told_until)
        if 0 < self.status.observed_generation < rule.metadata.generation:
            self._begin_at(now_s)  # the rule was changed while no leader watched
        self.rule = self._take_spec(rule)

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def unreadable(self) -> str:
        """Return why the rule can't be used; empty if it can."""
        return self.surplus or self._invalid

    def admit(self, now_s: float) -> None:
        """Use a rule that was one too many, for events from now on."""
        self.surplus = ""
        self._begin_at(now_s)

    def respecify(self, rule: NotificationRuleObject, now_s: float) -> bool:
        """Apply a spec if it is newer, to events from now on; pending notifications stay."""
        if rule.metadata.generation <= self.status.observed_generation:
            return False
        self._begin_at(now_s)
        self.rule = self._take_spec(rule)
        return True

    def _begin_at(self, now_s: float) -> None:
        self.since_s = now_s
        self.status.told_until, self.status.told = moment(now_s), []
        self._told.clear()
        self._told_before.clear()

    def _take_spec(self, rule: NotificationRuleObject) -> NotificationRule:
        """Return the spec as the sender reads it."""
        self.spec = rule.spec
        if self.status.observed_generation != rule.metadata.generation:
            self.status.observed_generation = rule.metadata.generation
            self.is_changed = True
        spec = rule.spec
        channel = next((name for name in CHANNELS if name == spec.channel), None)
        self._invalid, digest_s = "", 0.0
        try:
            digest_s = seconds(spec.digest) if spec.digest else 0.0
            read_quiet_hours(spec.quiet)
        except ValueError as error:
            self._invalid = str(error)
        if channel is None:
            self._invalid = f"{spec.channel[:40]!r} is no channel; write mail, slack or webhook"
        if channel == "mail" and ADDRESS.fullmatch(spec.address) is None:
            self._invalid = f"{spec.address[:80]!r} is no mail address; write one such as mia@lab.example"
        return NotificationRule(
            id=self.id,
            user=spec.user,
            project=spec.project or None,
            channel=channel or "mail",
            topics=tuple(topic for written in spec.topics for topic in TOPICS if topic == written),
            target=spec.address,
            address_key="" if channel == "mail" else str(self.id),
            quiet=spec.quiet,
            digest_s=digest_s,
        )

    # Events

    def take(self, events: Iterable[StatedEvent], workload: WorkloadSpec, uid: str, name: str) -> bool:
        """Queue the events that are new and match; return True if there are any."""
        spec, queued, told = self.spec, False, self._told.get(uid, set())
        owner = workload.owner
        if self.surplus or spec.user not in ("", workload.user) or spec.project not in ("", workload.project):
            return False
        for event in events:
            if event.at_s <= self.since_s or event.id in told or event.id in self._told_before:
                continue
            topic = next((candidate for candidate in self.rule.topics if candidate in event.topics), None)
            if topic is None:
                continue
            self._tell(event, uid)
            if self.status.pending >= QUEUED_MAX:
                self.status.dropped += 1
                continue
            notification = QueuedNotification(
                at=moment(event.at_s),
                topic=topic,
                kind=event.kind,
                sentence=printable(event.sentence, SENTENCE_MAX),
                uid=workload_number(name.partition("/")[0], owner.uid, owner.gang, uid=uid),
                workload=name,
                project=workload.project,
            )
            self.status.queued.append(notification)
            self.status.pending += 1
            queued = True
        return queued

    def forget(self, uid: str) -> None:
        """Drop the remembered events of a workload that was deleted.

        The next leader can't read them either, so those that aren't written are written soon.
        """
        self._told.pop(uid, None)
        if uid in self.unwritten:
            self.rests_until_s = 0.0

    def _tell(self, event: StatedEvent, uid: str) -> None:
        """Record that an event was processed; the status keeps the latest ones for the next leader."""
        self.is_changed = True
        self.unwritten.add(uid)
        self._told.setdefault(uid, set()).add(event.id)
        told = self.status.told
        insort(told, f"{int(event.at_s):010}-{event.id}")
        if len(told) > TOLD_MAX:
            gone_s = float(told.pop(0).partition("-")[0])
            self.status.told_until = moment(max(gone_s, seconds_of(self.status.told_until)))

    # Messages

    def claim(self, now_s: float) -> Claim:
        """Return the message that is due, a new one if a digest is due, or the time until then."""
        messages, queued = self.status.messages, self.status.queued
        first = min(messages, key=lambda message: message.due_at, default=None)
        if first is not None and seconds_of(first.due_at) <= now_s:
            return Claim(self._outbox_message(first))
        times = [] if first is None else [seconds_of(first.due_at)]
        if queued and len(messages) < TRIED_MAX:
            due_s = seconds_of(queued[0].at) + self.rule.digest_s
            if due_s <= now_s or not self.rule.digest_s:
                return Claim(self._outbox_message(self._make(now_s)))
            times.append(due_s)
        return Claim(next_s=min(times, default=None))

    def _make(self, now_s: float) -> RuleMessage:
        told = self.status.queued[:MESSAGE_SIZE_MAX]
        del self.status.queued[:MESSAGE_SIZE_MAX]
        timestamp = moment(now_s)
        message = RuleMessage(
            key=f"msg_{secrets.token_hex(12)}", made_at=timestamp, due_at=timestamp, notifications=list(told)
        )
        self.status.messages.append(message)
        self.is_changed = True
        return message

    def conclude(self, key: str, now_s: float, error: str) -> None:
        """Record that a message is over: delivered, or failed for good with an error."""
        message = self._message(key)
        if message is None:
            return
        self.status.messages.remove(message)
        self.status.pending = max(0, self.status.pending - len(message.notifications))
        delivery = RuleDelivery(
            key=key,
            state="failed" if error else "delivered",
            made_at=message.made_at,
            done_at=moment(now_s),
            attempts=message.attempts + 1,
            size=len(message.notifications),
            about=message.notifications[0].sentence if message.notifications else "",
            error=printable(error, SENTENCE_MAX),
        )
        self.status.deliveries = [delivery, *self.status.deliveries][:DELIVERIES_MAX]
        self._describe(error)

    def retry(self, key: str, due_s: float, error: str) -> None:
        """Record that an attempt failed, and when the next one is due."""
        message = self._message(key)
        if message is not None:
            message.attempts += 1
            message.due_at = moment(due_s + 1)  # whole seconds, never too early
            message.error = printable(error, SENTENCE_MAX)
            self._describe(error)

    def _message(self, key: str) -> RuleMessage | None:
        return next((message for message in self.status.messages if message.key == key), None)

    def _describe(self, error: str) -> None:
        phase = FAILING if error else READY
        self.status.phase, self.status.message = phase, printable(error, SENTENCE_MAX)
        self.is_changed = True

    def check(self, receiver: str, refusal: str) -> None:
        """Record the receiver, and why nothing can be sent to it; empty if it can."""
        status = self.status
        if refusal:
            phase, message = REFUSED, printable(refusal, REFUSAL_MAX)
        elif status.phase == FAILING:
            phase, message = FAILING, status.message
        else:
            phase, message = READY, ""
        outcome = (phase, message, receiver[:RECEIVER_MAX])
        if (status.phase, status.message, status.receiver) != outcome:
            status.phase, status.message, status.receiver = outcome
            self.is_changed = True

    def _outbox_message(self, message: RuleMessage) -> OutboxMessage:
        told = tuple(map(_notification, message.notifications))
        made_s, due_s = seconds_of(message.made_at), seconds_of(message.due_at)
        size, attempts = len(told), message.attempts
        return OutboxMessage(
            0, message.key, self.id, made_s, size, "pending", attempts, due_s, None, message.error, told
        )


def _notification(queued: QueuedNotification) -> Notification:
    return Notification(
        at_s=seconds_of(queued.at),
        topic=queued.topic,
        kind=queued.kind,
        sentence=queued.sentence,
        uid=queued.uid,
        workload=queued.workload or None,
        project=queued.project or None,
    )
