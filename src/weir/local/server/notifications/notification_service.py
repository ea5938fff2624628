"""Notifications of a pool, as people see them: rules, tests and deliveries.

A person's rules are theirs alone. The rules of a project belong to its leads: each of them sees and removes
those of the others.
"""

import asyncio
import secrets
from contextlib import suppress

from weir.api.notifications import (
    DeliveryPage,
    DeliveryRow,
    DesktopNotification,
    DesktopPage,
    NotificationAsked,
    NotificationMade,
    NotificationPage,
    NotificationRow,
    NotificationTested,
)
from weir.local.server.access.authorization import Action, Person, may, require
from weir.local.server.http.problem_details import FieldErrors, RequestRefused
from weir.local.server.notifications.receiver_addresses import ReceiverAddresses
from weir.local.server.state.pool_state import PoolState
from weir.local.server.state.queue_lookup import no_such_queue
from weir.model.notifications import DeliveryState, NotificationRule, OutboxMessage
from weir.notifications.message_texts import message_of_test, new_signing_secret, subject, text_lines
from weir.notifications.notification_settings import ADDRESS, NotificationSettings
from weir.notifications.quiet_hours import quiet_for_s, read_quiet_hours
from weir.notifications.receiver_address import ReceiverAddress
from weir.notifications.sender import NotificationSender
from weir.notifications.webhook_targets import TargetRefused, checked_target

TEST_S_MAX = 25.0
"""Less than clients wait for an answer."""


class Notifications:
    """The notifications of a pool. `settings` are set before `start`."""

    def __init__(self, pool: PoolState) -> None:
        self.settings = NotificationSettings()
        self._pool = pool
        self._outbox = pool.store.outbox
        self._addresses = ReceiverAddresses(pool.home)
        self._sender: NotificationSender | None = None

    def start(self) -> None:
        """Begin to send; delete addresses without a rule."""
        self._sender = NotificationSender(self._outbox, self.settings, self._addresses, self._pool.clock)
        self._forget_addresses()
        self._sender.start()

    def close(self) -> None:
        """Stop sending."""
        if self._sender is not None:
            self._sender.close()

    @property
    def trouble(self) -> str | None:
        """Return why no message can be sent now; None if messages are sent."""
        return None if self._sender is None else self._sender.trouble

    # Rules

    async def add(self, asked: NotificationAsked, person: Person) -> NotificationMade:
        """Add a rule.

        Raises:
            RequestRefused: the rule is invalid, or not allowed.
        """
        if asked.project is not None:
            if asked.project not in self._pool.inventory.projects:
                raise no_such_queue("project", asked.project)
            require(person, Action.NOTIFY, asked.project)
        shown, address = self._checked(asked)
        rule = NotificationRule(
            user=person.user,
            project=asked.project,
            channel=asked.channel,
            topics=tuple(dict.fromkeys(asked.on)),
            target=shown,
            address_key="" if address is None else secrets.token_hex(16),
            quiet=asked.quiet,
            digest_s=asked.digest,
            created_s=self._pool.clock(),
        )
        rule = await asyncio.to_thread(self._store, rule, address)
        secret = address.secret if address is not None and asked.channel == "webhook" else None
        return NotificationMade(**_row_fields(rule), secret=secret)

    def _checked(self, asked: NotificationAsked) -> tuple[str, ReceiverAddress | None]:
        """Return the target to show and the secret address, if there is one."""
        fields = FieldErrors("The notification")
        try:
            read_quiet_hours(asked.quiet)
        except ValueError as error:
            fields.add(("quiet",), f"quiet: {error}")
        if asked.channel == "desktop" and asked.project is not None:
            fields.add(("project",), "project: a desktop is a person's; leave the project out")
        shown, address = "", None
        try:
            shown, address = self._target(asked)
        except TargetRefused as refused:
            fields.add(("target",), f"target: {refused}")
        fields.refuse_if_any()
        return shown, address

    def _target(self, asked: NotificationAsked) -> tuple[str, ReceiverAddress | None]:
        """Return the target to show and the secret address.

        Raises:
            TargetRefused: the target isn't valid, or not allowed.
        """
        if asked.channel == "mail":
            return self._checked_mail(asked.target), None
        if asked.channel == "desktop":
            if asked.target:
                raise TargetRefused("a desktop has none; leave it out")
            return f"desktop of {self._pool.node.name}", None
        target = checked_target(asked.target, self.settings.webhooks.hosts)
        return target.shown, ReceiverAddress(asked.target, new_signing_secret())

    def _checked_mail(self, address: str) -> str:
        mail = self.settings.mail
        if mail is None:
            raise TargetRefused(
                "this pool sends no mail; its administrator names a mail server in `weir up --notifications`"
            )
        if ADDRESS.fullmatch(address) is None:
            raise TargetRefused(
                f"{address[:80]!r} is no mail address; write one such as mia@{mail.domains[0]}"
            )
        if not mail.allows(address):
            domains = ", ".join(mail.domains[:5])
            raise TargetRefused(f"mail to {address[:80]} isn't allowed; the administrator allows {domains}")
        return address

    def _store(self, rule: NotificationRule, address: ReceiverAddress | None) -> NotificationRule:
        """Store the address first: a crash between the two leaves an address that the next start deletes."""
        try:
            if address is not None:
                self._addresses.put(rule.address_key, address)
        except OSError as error:
            raise RequestRefused(503, f"The address can't be stored: {error.strerror or error}.") from None
        return self._outbox.rules.add(rule, self.settings.limits.rules_per_person)

    async def all(self, person: Person) -> NotificationPage:
        """Return the rules that a person may see, with their pending messages."""
        rules = self._visible(person)
        state = await asyncio.to_thread(self._outbox.pending_of, [rule.id for rule in rules])
        rows = []
        for rule in rules:
            pending, dropped, error = state.get(rule.id, (0, 0, ""))
            row = NotificationRow(
                **_row_fields(rule), pending=pending, dropped=dropped, trouble=error or None
            )
            rows.append(row)
        return NotificationPage(total=len(rows), items=rows)

    async def remove(self, id_: int, person: Person) -> None:
        """Remove a rule, with everything that it would still send."""
        rule = self._visible_rule(id_, person)
        await asyncio.to_thread(self._outbox.rules.remove, id_)
        with suppress(OSError):  # deleted at the next start
            await asyncio.to_thread(self._addresses.delete, rule.address_key)

    async def test(self, id_: int, person: Person) -> NotificationTested:
        """Send a test message now, and return its outcome; quiet hours and digests are ignored."""
        rule, now_s = self._visible_rule(id_, person), self._pool.clock()
        if rule.channel == "desktop":
            raise RequestRefused(
                409, "A desktop fetches its messages: `weir notify watch` shows a test by itself."
            )
        sentence = f"This is a test of notification {rule.id}, sent by {person.user}."
        message = message_of_test(rule.id, sentence, now_s, rule.project)
        if self._sender is None or self._sender.trouble:
            raise RequestRefused(503, "The pool sends no notifications now.")
        try:
            async with asyncio.timeout(TEST_S_MAX):
                attempt = await self._sender.test(rule, message)
        except TimeoutError:
            return NotificationTested(delivered=False, sentence="the receiver doesn't answer in time")
        return NotificationTested(delivered=attempt.problem is None, sentence=attempt.sentence)

    async def deliveries(
        self, person: Person, states: tuple[DeliveryState, ...], after: int | None, limit: int
    ) -> DeliveryPage:
        """Return a page of messages of the rules that a person may see, newest first."""
        rules = {rule.id: rule for rule in self._visible(person)}
        page = await asyncio.to_thread(
            self._outbox.messages, list(rules), states=states, after=after, limit=limit
        )
        items = [_delivery_row(message, rules[message.rule]) for message in page.items]
        next_page = None if page.after is None else str(page.after)
        return DeliveryPage(total=page.total, next=next_page, items=items)

    async def for_desktop(self, person: Person) -> DesktopPage:
        """Return the messages for a person's desktop. Each is returned again until it is confirmed."""
        items = []
        for rule in self._desktop_rules(person):
            now_s = self._pool.clock()
            if quiet_for_s(rule.quiet, self._pool.clock.on_wall(now_s)):
                continue
            claim = await asyncio.to_thread(self._outbox.claim, rule, now_s)
            if (message := claim.message) is not None:
                text = "\n".join(text_lines(message, self._pool.clock.on_wall))
                row = DesktopNotification(id=message.id, key=message.key, subject=subject(message), text=text)
                items.append(row)
        return DesktopPage(total=len(items), items=items)

    async def confirm(self, id_: int, person: Person) -> None:
        """Store that the desktop of a person has shown a message; repeating it does no harm."""
        rules = [rule.id for rule in self._desktop_rules(person)]
        page = await asyncio.to_thread(self._outbox.messages, rules, after=id_ + 1, limit=1)
        if not page.items or page.items[0].id != id_:
            raise RequestRefused(404, f"There is no message {id_} for your desktop.")
        if page.items[0].state == "pending":
            await asyncio.wrap_future(self._outbox.delivered(page.items[0], self._pool.clock()))

    def _desktop_rules(self, person: Person) -> list[NotificationRule]:
        rules = self._outbox.rules.index.rules.values()
        return [rule for rule in rules if rule.channel == "desktop" and rule.user == person.user]

    def _visible(self, person: Person) -> list[NotificationRule]:
        rules = self._outbox.rules.index.rules.values()
        return [rule for rule in rules if _may_see(rule, person)]

    def _visible_rule(self, id_: int, person: Person) -> NotificationRule:
        rule = self._outbox.rules.index.rules.get(id_)
        if rule is None or not _may_see(rule, person):
            raise RequestRefused(404, f"There is no notification {id_}; `weir notify list` shows yours.")
        return rule

    def _forget_addresses(self) -> None:
        keys = {rule.address_key for rule in self._outbox.rules.index.rules.values()}
        with suppress(OSError):  # the next delivery reports it
            self._addresses.keep_only(keys)


def _may_see(rule: NotificationRule, person: Person) -> bool:
    if rule.project is None:
        return rule.user == person.user or person.is_admin
    return may(person, Action.NOTIFY, rule.project)


def _row_fields(rule: NotificationRule) -> dict[str, object]:
    names = ("id", "channel", "target", "project", "user", "quiet", "digest_s", "created_s")
    return {name: getattr(rule, name) for name in names} | {"on": list(rule.topics)}


def _delivery_row(message: OutboxMessage, rule: NotificationRule) -> DeliveryRow:
    names = ("id", "key", "rule", "state", "attempts", "made_s", "done_s", "size", "error")
    fields = {name: getattr(message, name) for name in names}
    about = message.notifications[0].sentence if message.notifications else ""
    due_s = message.due_s if message.state == "pending" else None
    return DeliveryRow(**fields, channel=rule.channel, target=rule.target, due_s=due_s, about=about)
