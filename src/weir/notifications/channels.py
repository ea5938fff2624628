"""Attempts to deliver a message over each channel, each with an outcome in a sentence.

No attempt takes longer than twice the timeout, follows a redirect,
or reads more than the status of an answer.
"""

import asyncio
import smtplib
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from functools import partial
from pathlib import Path

import httpx

from weir.control.clock import Clock
from weir.model.notifications import NotificationRule, OutboxMessage
from weir.notifications.ip_addresses import Address
from weir.notifications.message_texts import mail_of, signature_headers, slack_body, webhook_body
from weir.notifications.notification_settings import (
    MailSettings,
    NotificationSettings,
    read_password,
)
from weir.notifications.receiver_address import NoAddress, ReceiverAddress
from weir.notifications.webhook_targets import (
    TargetRefused,
    WebhookTarget,
    checked_target,
    resolve,
)
from weir.service.blocking_calls import BlockingCalls
from weir.version import __version__

BLOCKING_CALLS_MAX = 100
CONNECTS_MAX = 3
"""Addresses of one name to try."""
RETRY_AFTER_S_MAX = 86400.0
_TEXT_LENGTH_MAX = 200


class DeliveryProblem(Enum):
    """Kinds of failure: the receiver can't be reached, it refuses this message, or it wants no more."""

    RECEIVER = auto()
    MESSAGE = auto()
    GONE = auto()


@dataclass(frozen=True, slots=True)
class Attempt:
    """Outcome of an attempt. `problem` is None if the receiver has confirmed the message."""

    sentence: str
    problem: DeliveryProblem | None = None
    retry_after_s: float = 0.0


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Return a context that trusts the authorities of a file, or those of the machine.

    Raises:
        ValueError: the file can't be used.
    """
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        why = "it has no certificate; write authorities in PEM"
    except OSError as error:
        why = str(error.strerror)
    raise ValueError(f"ca_file {ca_file} can't be used: {why}") from None


def unusable_authorities(settings: NotificationSettings) -> list[str]:
    """Return the mistakes in the files of authorities that the settings name."""
    files = {settings.webhooks.ca_file, None if settings.mail is None else settings.mail.ca_file}
    mistakes = []
    for ca_file in files - {None}:
        try:
            tls_context(ca_file)
        except ValueError as error:
            mistakes.append(str(error))
    return mistakes


class Channels:
    """Connections to receivers, in one event loop."""

    def __init__(
        self, settings: NotificationSettings, clock: Clock, password: Callable[[Path], str] = read_password
    ) -> None:
        """Create the channels. `password` reads the file with the password of the mail server."""
        self._settings = settings
        self._password = password
        self._clock = clock
        self._calls = BlockingCalls(BLOCKING_CALLS_MAX)
        self._http: httpx.AsyncClient | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._http is not None:
            await self._http.aclose()

    def _client(self) -> httpx.AsyncClient:
        """Return the client of webhooks. Reading the machine's authorities takes long; few pools need it.

        Raises:
            ValueError: the file with authorities can't be used.
        """
        if self._http is None:
            self._http = httpx.AsyncClient(
                verify=tls_context(self._settings.webhooks.ca_file),
                timeout=self._settings.limits.timeout,
                trust_env=False,  # a proxy would resolve the name a second time
                follow_redirects=False,
                # Connections aren't kept: each is checked for the name of one receiver only.
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
                headers={"User-Agent": f"weir/{__version__}", "Content-Type": "application/json"},
            )
        return self._http

    async def deliver(
        self, rule: NotificationRule, address: ReceiverAddress | NoAddress | None, message: OutboxMessage
    ) -> Attempt:
        """Try to deliver a message once."""
        try:
            async with asyncio.timeout(2 * self._settings.limits.timeout):
                if rule.channel == "mail":
                    return await self._mail(rule, message)
                return await self._post(rule, address, message)
        except TimeoutError:
            return Attempt("the receiver doesn't answer in time", DeliveryProblem.RECEIVER)
        except TargetRefused as refused:
            return Attempt(str(refused), DeliveryProblem.RECEIVER)
        # The text of the error may contain the secret address
        except (ValueError, httpx.InvalidURL) as error:
            return Attempt(f"its address can't be used: {type(error).__name__}", DeliveryProblem.RECEIVER)

    async def _post(
        self, rule: NotificationRule, address: ReceiverAddress | NoAddress | None, message: OutboxMessage
    ) -> Attempt:
        if not isinstance(address, ReceiverAddress):
            sentence = "it names no address" if address is None else address.sentence
            return Attempt(sentence, DeliveryProblem.RECEIVER)
        target = checked_target(address.url, self._settings.webhooks.hosts)
        headers: dict[str, str] = {}
        if rule.channel == "slack":
            body = slack_body(message, self._clock.on_wall)
        else:
            body = webhook_body(message, self._clock.on_wall)
            now_s = self._clock.on_wall(self._clock())
            headers = signature_headers(message.key, address.secret, body, now_s)
        return await self._send(target, await resolve(target, self._calls), body, headers)

    async def _send(
        self, target: WebhookTarget, addresses: list[Address], body: bytes, headers: dict[str, str]
    ) -> Attempt:
        try:
            client = self._client()
        except ValueError as error:
            return Attempt(str(error), DeliveryProblem.RECEIVER)
        for address in addresses[:CONNECTS_MAX]:
            request = client.build_request(
                "POST",
                target.url_at(address),
                content=body,
                headers={**headers, "Host": target.netloc},
                extensions={"sni_hostname": target.host},
            )
            try:
                answer = await client.send(request, stream=True)
            except httpx.ConnectError as error:
                failure = Attempt(
                    f"{target.host} can't be reached: {_words(error)}", DeliveryProblem.RECEIVER
                )
                continue
            except httpx.HTTPError as error:
                return Attempt(f"{target.host} gave no answer: {_words(error)}", DeliveryProblem.RECEIVER)
            await answer.aclose()
            return _outcome(answer)
        return failure

    async def _mail(self, rule: NotificationRule, message: OutboxMessage) -> Attempt:
        mail = self._settings.mail
        if mail is None:
            return Attempt("the administrator has not set up mail", DeliveryProblem.RECEIVER)
        if not mail.allows(rule.target):
            return Attempt(f"the administrator doesn't allow mail to {rule.target}", DeliveryProblem.RECEIVER)
        now_s = self._clock.on_wall(self._clock())
        try:
            made = mail_of(message, mail.sender, rule.target, self._clock.on_wall, now_s)
            await self._calls.run(
                partial(_send_mail, mail, self._password, made, self._settings.limits.timeout)
            )
        except smtplib.SMTPRecipientsRefused as error:
            refusals = [_answered(*answer) for answer in error.recipients.values()]
            return Attempt(f"the mail server refuses {rule.target}: {refusals[0]}", DeliveryProblem.MESSAGE)
        except (smtplib.SMTPDataError, smtplib.SMTPSenderRefused) as error:
            reply = _answered(error.smtp_code, error.smtp_error)
            return Attempt(f"the mail server refuses the mail: {reply}", DeliveryProblem.MESSAGE)
        except (smtplib.SMTPException, OSError, ValueError) as error:
            return Attempt(f"the mail server can't be used: {_words(error)}", DeliveryProblem.RECEIVER)
        return Attempt(f"the mail server took the mail to {rule.target}")


def _send_mail(
    settings: MailSettings, read: Callable[[Path], str], mail: EmailMessage, timeout_s: float
) -> None:
    """Hand a mail to the server. It may hang for some timeouts, so it runs in a thread of its own."""
    password = None if settings.password_file is None else read(Path(settings.password_file))
    context = tls_context(settings.ca_file)
    server: smtplib.SMTP
    if settings.security == "tls":
        server = smtplib.SMTP_SSL(settings.host, settings.port, timeout=timeout_s, context=context)
    else:
        server = smtplib.SMTP(settings.host, settings.port, timeout=timeout_s)
    with server:
        if settings.security == "starttls":
            server.starttls(context=context)
        if settings.user is not None and password is not None:
            server.login(settings.user, password)
        server.send_message(mail)


def _outcome(answer: httpx.Response) -> Attempt:
    status = answer.status_code
    if answer.is_success:
        return Attempt(f"the receiver answered {status}")
    if status == httpx.codes.GONE:
        return Attempt("the receiver answered 410: it wants no more messages", DeliveryProblem.GONE)
    if answer.is_redirect:
        return Attempt(f"the receiver answered {status}: redirects aren't followed", DeliveryProblem.RECEIVER)
    if answer.is_client_error and status not in (401, 403, 404, 408, 425, 429):
        return Attempt(f"the receiver answered {status}: it refuses this message", DeliveryProblem.MESSAGE)
    retry_after_s = _retry_after_s(answer)
    return Attempt(f"the receiver answered {status}", DeliveryProblem.RECEIVER, retry_after_s)


def _retry_after_s(answer: httpx.Response) -> float:
    """Return the pause that a receiver wishes, in seconds or as a date."""
    written = answer.headers.get("Retry-After", "").strip()
    if written.isascii() and written.isdigit():
        return min(float(written[:9]), RETRY_AFTER_S_MAX)
    try:
        until = parsedate_to_datetime(written)
        sent = parsedate_to_datetime(answer.headers.get("Date", ""))
        return min(max(0.0, (until - sent).total_seconds()), RETRY_AFTER_S_MAX)
    except (TypeError, ValueError):
        return 0.0


def _answered(code: int, text: bytes | str) -> str:
    decoded = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return f"{code} {' '.join(decoded.split())[:_TEXT_LENGTH_MAX]}"


def _words(error: Exception) -> str:
    """Return an error in words, without the address, which may be a secret."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:_TEXT_LENGTH_MAX]
