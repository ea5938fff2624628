"""Bodies and answers about notifications: rules, deliveries and tests."""

from typing import Annotated

from pydantic import Field

from weir.api.workload_list import Answer, Page, PointInTime, Shown
from weir.model.notifications import Channel, DeliveryState, Topic
from weir.scenario_io.scalars import Span
from weir.scenario_io.specs import Entry

TARGET_LENGTH_MAX = 2000


class NotificationAsked(Entry):
    """A new rule. `target` is the mail address, or the URL of a webhook; `project` makes it the project's.

    `quiet` is a time of the day without messages, such as 22:00-07:00; `digest` collects notifications for a
    duration, such as 1h, into one message.
    """

    channel: Channel
    target: Annotated[str, Field(max_length=TARGET_LENGTH_MAX)] = ""
    on: Annotated[list[Topic], Field(min_length=1, max_length=20)]
    project: Annotated[str, Field(max_length=253)] | None = None
    quiet: Annotated[str, Field(max_length=20)] = ""
    digest: Span = 0.0


class NotificationRow(Answer):
    """A rule. `target` leaves out the secret part of a URL; `user` created it.

    `name`: its namespace and name on a cluster, which has no short numbers.
    `pending`: notifications that aren't delivered yet. `dropped`: those that exceeded the limit of pending
    ones. `trouble`: why the last attempt failed; None if it didn't.
    """

    id: int
    name: str | None = None
    channel: Shown[Channel]
    target: str
    on: list[Shown[Topic]]
    project: str | None = None
    user: str
    quiet: str = ""
    digest_s: float = 0.0
    created_s: PointInTime
    pending: int = 0
    dropped: int = 0
    trouble: str | None = None


class NotificationMade(NotificationRow):
    """A new rule; only this answer shows the secret that signs its requests."""

    secret: str | None = None


class NotificationPage(Page):
    """Rules that a person may see."""

    items: list[NotificationRow]


class NotificationTested(Answer):
    """Outcome of a test: if the receiver confirmed it, and the course of the test in a sentence."""

    delivered: bool
    sentence: str


class DeliveryRow(Answer):
    """A message of one or more notifications. Every attempt carries the same `key`, so that doubles show.

    `rule`: the number of its rule; `name`: the name of that rule on a cluster.
    """

    id: int
    key: str
    rule: int
    name: str | None = None
    channel: Shown[Channel]
    target: str
    state: Shown[DeliveryState]
    attempts: int
    made_s: PointInTime
    due_s: PointInTime | None = None
    done_s: PointInTime | None = None
    size: int
    about: str
    error: str = ""


class DesktopNotification(Answer):
    """A message for the desktop of a person. It comes again until its `id` is confirmed."""

    id: int
    key: str
    subject: str
    text: str


class DesktopPage(Page):
    """Messages for the desktop of a person that aren't confirmed."""

    items: list[DesktopNotification]


class DeliveryPage(Page):
    """Messages of a person's rules, newest first."""

    items: list[DeliveryRow]
