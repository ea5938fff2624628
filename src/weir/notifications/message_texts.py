"""Texts of messages. Sentences hold words of jobs, so each channel escapes its special characters."""

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from weir.model.notifications import Notification, OutboxMessage
from weir.model.plain_text import printable

LINES_MAX = 50
"""Sentences in a text for people; webhooks get all."""
SENTENCE_LENGTH_MAX = 500
SECRET_PREFIX = "whsec_"  # noqa: S105 - of the format, not a secret
_SECRET_BYTES = 32
_SUBJECT_LENGTH_MAX = 120
WallTime = Callable[[float], float]
"""Converts a time of the timeline to the wall clock."""


def new_signing_secret() -> str:
    """Return a new secret that signs the requests to a webhook."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def message_of_test(rule: int, sentence: str, now_s: float, project: str | None = None) -> OutboxMessage:
    """Return a message that is in no outbox, to test the receiver of a rule."""
    told, key = Notification(now_s, "test", "test", sentence, project=project), f"msg_{secrets.token_hex(12)}"
    return OutboxMessage(0, key, rule, now_s, 1, "pending", 0, now_s, None, "", (told,))


def text_lines(message: OutboxMessage, on_wall: WallTime) -> list[str]:
    """Return one line for each notification, with its time."""
    told = message.notifications[:LINES_MAX]
    lines = [f"{_moment(on_wall(notification.at_s))}  {_sentence(notification)}" for notification in told]
    others = len(message.notifications) - len(told)
    return [*lines, f"… and {others} more: see `weir events`"] if others > 0 else lines


def subject(message: OutboxMessage) -> str:
    """Return the subject of a message."""
    first = message.notifications[0]
    if len(message.notifications) == 1:
        return f"[weir] {_sentence(first)}"[:_SUBJECT_LENGTH_MAX]
    names = list(
        dict.fromkeys(
            notification.workload for notification in message.notifications if notification.workload
        )
    )
    about = f": {', '.join(names[:3])}{' …' if len(names) > 3 else ''}" if names else ""
    return f"[weir] {len(message.notifications)} notifications{about}"[:_SUBJECT_LENGTH_MAX]


def mail_of(
    message: OutboxMessage, sender: str, address: str, on_wall: WallTime, now_s: float
) -> EmailMessage:
    """Return the mail. Its Message-ID is the same for each attempt."""
    mail = EmailMessage(policy=SMTP)
    mail["From"], mail["To"], mail["Subject"] = sender, address, subject(message)
    mail["Date"] = format_datetime(datetime.fromtimestamp(now_s, UTC))
    mail["Message-ID"] = f"<{message.key}@{sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    names = [notification.workload for notification in message.notifications if notification.workload]
    hint = f"`weir describe {names[0]}` shows more. " if names else ""
    end = f"{hint}`weir notify list` shows your notifications, `weir notify delete` deletes one."
    mail.set_content("\n".join([*text_lines(message, on_wall), "", end, ""]))
    return mail


def slack_body(message: OutboxMessage, on_wall: WallTime) -> bytes:
    """Return the body for Slack and its like. Mentions and links in words of jobs stay plain text."""
    text = "\n".join(text_lines(message, on_wall))
    for character, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, escaped)
    return json.dumps({"text": text.replace("@", "@\u200b")}).encode()


def webhook_body(message: OutboxMessage, on_wall: WallTime) -> bytes:
    """Return the body of a signed webhook, the same for each attempt."""
    told = [
        {
            "at": _iso(on_wall(notification.at_s)),
            "topic": notification.topic,
            "kind": notification.kind,
            "uid": notification.uid,
            "workload": notification.workload,
            "project": notification.project,
            "sentence": notification.sentence,
        }
        for notification in message.notifications
    ]
    body = {
        "type": "weir.notifications",
        "timestamp": _iso(on_wall(message.made_s)),
        "data": {"notifications": told},
    }
    return json.dumps(body, separators=(",", ":")).encode()


def signature_headers(key: str, secret: str, body: bytes, now_s: float) -> dict[str, str]:
    """Return the headers of Standard Webhooks: HMAC-SHA256 over id, time and body."""
    timestamp = str(int(now_s))
    signed = b".".join((key.encode(), timestamp.encode(), body))
    digest = hmac.digest(base64.b64decode(secret.removeprefix(SECRET_PREFIX)), signed, hashlib.sha256)
    signature = f"v1,{base64.b64encode(digest).decode()}"
    return {"webhook-id": key, "webhook-timestamp": timestamp, "webhook-signature": signature}


def _sentence(told: Notification) -> str:
    return printable(told.sentence, SENTENCE_LENGTH_MAX)


def _moment(wall_s: float) -> str:
    return f"{datetime.fromtimestamp(wall_s).astimezone():%Y-%m-%d %H:%M:%S %Z}"


def _iso(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).isoformat().replace("+00:00", "Z")
