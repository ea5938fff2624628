"""Nouns of notifications: rules, notifications, and the messages made of them."""

from dataclasses import dataclass
from typing import Literal

Topic = Literal["start", "end", "failure", "eviction", "idle", "warning", "quota", "maintenance"]
Channel = Literal["mail", "slack", "webhook", "desktop"]
DeliveryState = Literal["pending", "delivered", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationRule:
    """A rule. `address_key` finds the secret address of a webhook; `target` is the part that may be shown."""

    id: int = 0
    user: str
    project: str | None = None
    channel: Channel
    topics: tuple[Topic, ...]
    target: str
    address_key: str = ""
    quiet: str = ""
    digest_s: float = 0.0
    created_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Notification:
    """An event in the words of a notification rule."""

    at_s: float
    topic: Topic | str
    kind: str
    sentence: str
    uid: int | None = None
    workload: str | None = None
    project: str | None = None


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """A message with its state. `size` counts its notifications; a list has only the first of them."""

    id: int
    key: str
    rule: int
    made_s: float
    size: int
    state: DeliveryState
    attempts: int
    due_s: float
    done_s: float | None
    error: str
    notifications: tuple[Notification, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """A message to send now, or the time at which there may be one; neither if nothing is pending.

    `is_queued`: notifications are due that aren't in a message yet.
    """

    message: OutboxMessage | None = None
    next_s: float | None = None
    is_queued: bool = False
