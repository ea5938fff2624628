"""Delivery of notifications: receivers that wait, fail or hang, mail with TLS, and addresses that are refused."""

import asyncio
import email
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword
from tests.oidc.pool import Authority
from tests.unit.local.server.receivers import Receivers, receivers, settings, until
from tests.unit.store.fixtures import opened

from weir.control.clock import Clock, boot_time
from weir.local.server.notifications.receiver_addresses import ReceiverAddresses
from weir.model.notifications import NotificationRule, OutboxMessage
from weir.notifications.notification_settings import MailSettings, NotificationSettings
from weir.notifications.receiver_address import ReceiverAddress
from weir.notifications.sender import NotificationSender
from weir.notifications.webhook_targets import (
    TargetRefused,
    checked_target,
    refusal_of,
    resolve,
)
from weir.service.blocking_calls import BlockingCalls
from weir.store.records import HistoryEvent
from weir.store.store import Store

NEVER_S = 10**6


class Sending:
    """A store with a sender, and rules of the project vision that match its events."""

    def __init__(self, store: Store, home: Path, chosen: NotificationSettings) -> None:
        self.store = store
        self.addresses = ReceiverAddresses(home)
        self.ahead_s = 0.0
        self.clock = Clock(wall=lambda: time.time() + self.ahead_s, boot=lambda: boot_time() + self.ahead_s)
        self.sender = NotificationSender(store.outbox, chosen, self.addresses, self.clock)
        self.sender.start()

    def rule(self, target: str, channel: Any = "webhook", **words: Any) -> NotificationRule:
        key = ""
        if channel != "mail":
            key = f"{len(self.store.outbox.rules.index.rules):032}"
            self.addresses.put(key, ReceiverAddress(target, "whsec_c2VjcmV0"))
        rule = NotificationRule(
            user="ann", project="vision", channel=channel, topics=("quota",), target=target, address_key=key, **words
        )  # fmt: skip
        return self.store.outbox.rules.add(rule, 100)

    def tell(self, *sentences: str) -> None:
        at_s = self.clock()
        self.store.events.record(
            [HistoryEvent(at_s, "quota_met", each, project="vision") for each in sentences]
        )

    async def until(self, rule: NotificationRule, *states: str) -> list[OutboxMessage]:
        """Wait until all messages of a rule have one of these states; return them, oldest first."""
        async with asyncio.timeout(120):
            while True:
                found = self.store.outbox.messages([rule.id], limit=1000).items
                pending = self.store.outbox.pending_of([rule.id])[rule.id][0]
                of_messages = sum(each.size for each in found if each.state == "pending")
                if found and pending == of_messages and all(each.state in states for each in found):
                    return list(reversed(found))
                await asyncio.sleep(0.02)


@contextmanager
def sending(home: Path, chosen: NotificationSettings) -> Iterator[Sending]:
    with opened(home) as store:
        found = Sending(store, home, chosen)
        try:
            yield found
        finally:
            found.sender.close()


@pytest.fixture
def hooks() -> Iterator[Receivers]:
    with receivers() as found:
        yield found


async def test_receivers_that_hang_or_fail_keep_no_other_waiting(tmp_path: Path, hooks: Receivers) -> None:
    """Far more receivers hang than may be tried at once."""
    chosen = settings(hooks.origin, timeout=1, retry_max=1)
    with sending(tmp_path, chosen) as run:
        hanging = [run.rule(f"{hooks.origin}/hanging") for _ in range(80)]
        failing = run.rule(f"{hooks.origin}/503")
        good = run.rule(f"{hooks.origin}/ok")
        for turn in range(20):
            run.tell(f"Event {turn}.")
            hooks.until(turn + 1)  # while all of the others wait
        await run.until(good, "delivered")
        assert hooks.of("/hanging") == []
        hooks.released.set()
        for each in hanging:
            await run.until(each, "delivered")
        await until(lambda: "503" in run.store.outbox.messages([failing.id]).items[-1].error)
        assert {each.state for each in run.store.outbox.messages([failing.id]).items} == {"pending"}


async def test_a_receiver_that_fails_gets_the_same_key_until_it_confirms(
    tmp_path: Path, hooks: Receivers
) -> None:
    with sending(tmp_path, settings(hooks.origin)) as run:
        rule = run.rule(f"{hooks.origin}/failing")
        for turn in range(5):
            run.tell(f"Event {turn}.")
        messages = await run.until(rule, "delivered")
    assert sum(each.attempts for each in messages) == hooks.attempts["/failing"]
    assert [each.key for each in hooks.confirmed] == [each.key for each in messages]
    told = [each["sentence"] for request in hooks.confirmed for each in request.told]
    assert told == [f"Event {turn}." for turn in range(5)]


async def test_a_message_that_no_one_confirms_is_given_up_and_listed(
    tmp_path: Path, hooks: Receivers
) -> None:
    with sending(tmp_path, settings(hooks.origin, give_up_after=3600.0)) as run:
        refused, failing = run.rule(f"{hooks.origin}/422"), run.rule(f"{hooks.origin}/503")
        run.tell("Event.")
        await until(lambda: min(hooks.attempts["/422"], hooks.attempts["/503"]) >= 2)
        run.ahead_s = 3601.0
        for rule in (refused, failing):
            (message,) = await run.until(rule, "failed")
            assert message.attempts >= 2
            assert message.done_s is not None
            page = run.store.outbox.messages([rule.id], states=["failed"])
            assert page.items[0].notifications[0].sentence == "Event."


async def test_an_address_that_no_request_can_be_made_of_is_recorded(
    tmp_path: Path, hooks: Receivers
) -> None:
    with sending(tmp_path, settings(hooks.origin)) as run:
        rule = run.rule(f"{hooks.origin}/ok")
        run.addresses.put(rule.address_key, ReceiverAddress(f"{hooks.origin}/ok", "whsec_a"))
        run.tell("Event.")
        await until(lambda: any(each.attempts for each in run.store.outbox.messages([rule.id]).items))
        found = run.store.outbox.messages([rule.id]).items
    assert found[0].error.startswith("its address can't be used")


async def test_a_refused_message_keeps_later_ones_from_nothing(tmp_path: Path, hooks: Receivers) -> None:
    chosen = settings(hooks.origin, retry_first=3600, retry_max=3600)
    with sending(tmp_path, chosen) as run:
        rule = run.rule(f"{hooks.origin}/422")
        run.tell("First.")
        await run.until(rule, "pending")
        run.tell("Second.")
        await until(lambda: len(run.store.outbox.messages([rule.id]).items) >= 2)


async def test_a_receiver_that_is_gone_is_not_tried_again(tmp_path: Path, hooks: Receivers) -> None:
    with sending(tmp_path, settings(hooks.origin)) as run:
        rule = run.rule(f"{hooks.origin}/410")
        run.tell("Event.")
        (message,) = await run.until(rule, "failed")
        assert message.attempts == 1


async def test_redirects_are_not_followed(tmp_path: Path, hooks: Receivers) -> None:
    with sending(tmp_path, settings(hooks.origin, give_up_after=0.3)) as run:
        rule = run.rule(f"{hooks.origin}/307")
        run.tell("Event.")
        (message,) = await run.until(rule, "failed")
        assert "redirects aren't followed" in message.error
        assert hooks.of("/ok") == []


async def test_notifications_beyond_the_limit_come_together(tmp_path: Path, hooks: Receivers) -> None:
    """Two rules of one receiver share its limit."""
    chosen = settings(hooks.origin, messages_per_minute=60, messages_burst=2)
    begun_s = time.monotonic()
    with sending(tmp_path, chosen) as run:
        rules = [run.rule(f"{hooks.origin}/ok") for _ in range(2)]
        for turn in range(100):
            run.tell(f"Event {turn}.")
        for rule in rules:
            await run.until(rule, "delivered")
    assert len(hooks.confirmed) <= 3 + time.monotonic() - begun_s
    told = [each["sentence"] for request in hooks.confirmed for each in request.told]
    assert sorted(told) == sorted([f"Event {turn}." for turn in range(100)] * 2)


async def test_a_digest_waits_for_its_time(tmp_path: Path, hooks: Receivers) -> None:
    with sending(tmp_path, settings(hooks.origin)) as run:
        digest = run.rule(f"{hooks.origin}/ok", digest_s=2.0)
        begun_s = run.clock()
        run.tell(*(f"Event {turn}." for turn in range(10)))
        messages = await run.until(digest, "delivered")
        assert messages[0].made_s >= begun_s + 2.0
        told = [each["sentence"] for request in hooks.confirmed for each in request.told]
        assert told == [f"Event {turn}." for turn in range(10)]
        assert len(messages) <= 2


async def test_https_needs_a_certificate_for_the_name(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with receivers(authority, tmp_path) as hooks:
        trusting = {"webhooks": {"hosts": [hooks.origin], "ca_file": str(authority.file)}}
        limits = {"limits": {"retry_first": 0.05, "give_up_after": 0.3, "timeout": "120s"}}
        with sending(tmp_path / "a", NotificationSettings.model_validate(trusting | limits)) as run:
            rule = run.rule(f"{hooks.origin}/ok")
            run.tell("Event.")
            await run.until(rule, "delivered")
        without = {"webhooks": {"hosts": [hooks.origin]}}
        with sending(tmp_path / "b", NotificationSettings.model_validate(without | limits)) as run:
            rule = run.rule(f"{hooks.origin}/ok")
            run.tell("Event.")
            (message,) = await run.until(rule, "failed")
            assert "certificate" in message.error.lower()


class Mailbox:
    """Keeps the mails of a server; addresses that begin with refused are unknown."""

    def __init__(self) -> None:
        self.mails: list[Any] = []

    async def handle_RCPT(  # noqa: N802 - the name that the server calls
        self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any
    ) -> str:
        if address.startswith("refused"):
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802 - see above
        self, _server: Any, _session: Any, envelope: Any
    ) -> str:
        self.mails.append((envelope.rcpt_tos, email.message_from_bytes(envelope.content)))
        return "250 taken"


@contextmanager
def mail_server(folder: Path, security: str) -> Iterator[tuple[Mailbox, MailSettings]]:
    """Serve mail with TLS on localhost for one account."""
    authority, mailbox = Authority(folder), Mailbox()
    authority.certify(folder / "mail.pem", folder / "mail.key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "mail.pem", folder / "mail.key")

    def check(_server: Any, _session: Any, _envelope: Any, _mechanism: str, auth: Any) -> AuthResult:
        fits = isinstance(auth, LoginPassword) and (auth.login, auth.password) == (b"weir", b"pass word")
        return AuthResult(success=fits, handled=False)

    tls = (
        {"ssl_context": context} if security == "tls" else {"tls_context": context, "require_starttls": True}
    )
    server = Controller(
        mailbox, hostname="localhost", port=0, authenticator=check, auth_required=True,
        auth_require_tls=security != "tls", **tls,
    )  # fmt: skip
    server._trigger_server = lambda: socket.create_connection(server.server.sockets[0].getsockname()).close()
    server.start()
    password = folder / "password"
    password.write_text("pass word\n")
    password.chmod(0o600)
    written = {
        "host": "localhost", "port": server.server.sockets[0].getsockname()[1], "security": security,
        "ca_file": str(authority.file), "user": "weir", "password_file": str(password),
        "from": "weir@lab.example", "domains": ["lab.example"],
    }  # fmt: skip
    try:
        yield mailbox, MailSettings.model_validate(written)
    finally:
        server.stop()


@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")  # the whole connection has it
@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_mail_goes_over_tls_with_a_password(tmp_path: Path, security: str) -> None:
    with mail_server(tmp_path, security) as (mailbox, mail):
        chosen = settings().model_copy(update={"mail": mail})
        with sending(tmp_path / "home", chosen) as run:
            rule = run.rule("mia@lab.example", "mail")
            run.tell("vision got GPUs of its quota back.")
            (message,) = await run.until(rule, "delivered")
    ((to, found),) = mailbox.mails
    assert to == ["mia@lab.example"]
    assert found["Subject"] == "[weir] vision got GPUs of its quota back."
    assert found["Message-ID"] == f"<{message.key}@lab.example>"
    assert found["Auto-Submitted"] == "auto-generated"
    assert "vision got GPUs of its quota back." in found.get_payload()


async def test_mail_that_is_refused_or_not_trusted_is_not_delivered(tmp_path: Path) -> None:
    with mail_server(tmp_path, "starttls") as (mailbox, mail):
        wrong = tmp_path / "wrong"
        wrong.write_text("wrong\n")
        wrong.chmod(0o600)
        limits = settings(give_up_after=0.3)
        for at, change, address, sentence in (
            (0, {}, "refused@lab.example", "550 no such user"),
            (1, {"ca_file": None}, "mia@lab.example", "certificate"),
            (4, {"ca_file": str(wrong)}, "mia@lab.example", f"ca_file {wrong} can't be used"),
            (2, {"password_file": str(wrong)}, "mia@lab.example", "535"),
            (3, {"domains": ["other.example"]}, "mia@lab.example", "doesn't allow mail"),
        ):
            chosen = limits.model_copy(update={"mail": mail.model_copy(update=change)})
            with sending(tmp_path / str(at), chosen) as run:
                rule = run.rule(address, "mail")
                run.tell("Event.")
                (message,) = await run.until(rule, "failed")
                assert sentence in message.error
    assert mailbox.mails == []


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.0.1", "::1", "0.0.0.0", "::", "169.254.169.254", "169.254.1.1", "fe80::1"),
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "2002:7f00:1::", "224.0.0.1"),
        *("100.100.100.200", "168.63.129.16", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"),
        *("255.255.255.255", "240.0.0.1", "fd00:c1::a9fe:a9fe"),
    ],
)
def test_addresses_of_the_machine_and_of_metadata_are_refused(address: str) -> None:
    assert refusal_of(ip_address(address), is_named=False) is not None


@pytest.mark.parametrize("address", ["192.0.2.1", "10.1.2.3", "2001:db8::1", "8.8.8.8", "fd12::1"])
def test_other_addresses_of_an_allowed_name_are_connected_to(address: str) -> None:
    assert refusal_of(ip_address(address), is_named=False) is None


def test_metadata_is_refused_even_if_it_is_named() -> None:
    assert refusal_of(ip_address("169.254.169.254"), is_named=True) is not None


async def test_a_name_that_means_this_machine_is_refused() -> None:
    target = checked_target("https://localhost/x", ["localhost"])
    with pytest.raises(TargetRefused, match="it is this machine"):
        await resolve(target, BlockingCalls(4))


@pytest.mark.parametrize(
    ("url", "entry"),
    [
        ("https://hooks.slack.com/x", "hooks.slack.com"),
        ("https://HOOKS.slack.com:443/x", "hooks.slack.com"),
        ("https://a.b.example.com/x", "*.example.com"),
        ("https://chat.example.com:8443/x?y=1", "https://chat.example.com:8443"),
        ("http://127.0.0.1:80/", "http://127.0.0.1"),
    ],
)
def test_allowed_targets(url: str, entry: str) -> None:
    assert checked_target(url, [entry]).path.startswith("/")


@pytest.mark.parametrize(
    ("url", "entry"),
    [
        ("http://hooks.slack.com/x", "hooks.slack.com"),
        ("https://hooks.slack.com:8443/x", "hooks.slack.com"),
        ("https://evilexample.com/x", "*.example.com"),
        ("https://example.com/x", "*.example.com"),
        ("https://hooks.slack.com.evil.example/x", "hooks.slack.com"),
        ("https://hooks.slack.com@evil.example/x", "hooks.slack.com"),
        ("https://evil.example#hooks.slack.com", "hooks.slack.com"),
        ("https://hooks.slack.com\\@evil.example/", "hooks.slack.com"),
        ("https://2130706433/", "http://127.0.0.1"),
        ("gopher://hooks.slack.com/x", "hooks.slack.com"),
    ],
)
def test_other_targets_are_refused(url: str, entry: str) -> None:
    with pytest.raises(TargetRefused):
        checked_target(url, [entry])


async def test_calls_that_hang_are_counted() -> None:
    calls, released = BlockingCalls(2), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang() -> None:
        asyncio.run_coroutine_threadsafe(released.wait(), loop).result()

    hanging = [asyncio.ensure_future(calls.run(hang)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(OSError, match="too many"):
        await calls.run(hang)
    released.set()
    await asyncio.gather(*hanging)
    assert await calls.run(lambda: 7) == 7
