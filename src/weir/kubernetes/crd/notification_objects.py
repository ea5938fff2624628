"""The kind `NotificationRule`: events of its namespace's workloads, and a receiver.

People write the spec, and Weir the status. The status is the outbox of the rule: the notifications that
aren't delivered yet, the messages made of them, and the last ones that are over.
"""

from typing import Annotated

from msgspec import Meta, field

from weir.kubernetes.api.objects import ApiStruct, Metadata
from weir.kubernetes.crd.objects import Moment, Needed
from weir.model.notifications import Channel, Topic

KIND, PLURAL = "NotificationRule", "notificationrules"
SECRET = "weir-notifications"  # noqa: S105 - the name of one
"""The one Secret of a namespace that Weir reads addresses of webhooks from, if it may."""
READ_ROLE = "weir-notifications"
"""ClusterRole with the right to read Secrets of that name, and no others. An administrator binds it."""
TEST_ANNOTATION = "weir.dev/test-notification"
"""On a rule: the ID of a requested test message."""
READY, FAILING, REFUSED = "Ready", "Failing", "Refused"
TOPICS: list[Topic] = ["start", "end", "failure", "eviction", "idle", "warning", "quota"]
CHANNELS: list[Channel] = ["mail", "slack", "webhook"]
QUEUED_MAX = 200
"""Notifications of a rule that aren't delivered yet: all are in one object."""
TOLD_MAX = 500
"""Number of processed events that a rule remembers, each with its time and key."""
DELIVERIES_MAX = 20
"""Messages that are over."""
SENTENCE_MAX = 500
REFUSAL_MAX = 1000
WORKLOAD_MAX = 512
"""Length of NAMESPACE/NAME of a workload, which can exceed that of one name."""
_SECRET_KEY = {"pattern": "^[-._a-zA-Z0-9]+$"}
SecretKey = Annotated[str, Meta(extra_json_schema=_SECRET_KEY)]


class NotificationRuleSpec(ApiStruct, omit_defaults=True):
    """A rule as a person states it. `digest` is a duration, `quiet` a time of the day."""

    channel: Annotated[str, Meta(extra_json_schema={"enum": CHANNELS, "x-weir-required": True})] = ""
    topics: Needed[list[Annotated[str, Meta(extra_json_schema={"enum": TOPICS})]]] = field(
        default_factory=list
    )
    address: str = ""
    url_key: SecretKey | None = None
    signing_secret_key: SecretKey | None = None
    user: str = ""
    project: str = ""
    quiet: str = ""
    digest: str = ""


class QueuedNotification(ApiStruct, omit_defaults=True):
    """An event in the words of a notification rule."""

    at: Needed[Moment]
    topic: Needed[str]
    kind: Needed[str]
    sentence: Needed[str]
    uid: int | None = None
    workload: Annotated[str, Meta(max_length=WORKLOAD_MAX)] = ""
    project: str = ""


class RuleMessage(ApiStruct, omit_defaults=True):
    """A message that isn't confirmed. It is stored before its first attempt, so each has the same key."""

    key: Needed[str]
    made_at: Needed[Moment]
    due_at: Needed[Moment]
    attempts: int = 0
    error: Annotated[str, Meta(max_length=4096)] = ""
    notifications: list[QueuedNotification] = field(default_factory=list)


class RuleDelivery(ApiStruct, omit_defaults=True):
    """A message that is over: delivered, or failed for good."""

    key: Needed[str]
    state: Annotated[str, Meta(extra_json_schema={"enum": ["delivered", "failed"]})] = "delivered"
    made_at: Needed[Moment] = ""
    done_at: Needed[Moment] = ""
    attempts: int = 0
    size: int = 0
    about: Annotated[str, Meta(max_length=4096)] = ""
    error: Annotated[str, Meta(max_length=4096)] = ""


class RuleTest(ApiStruct):
    """Outcome of the last test message."""

    id: Needed[str]
    delivered: bool
    sentence: Needed[str]


class NotificationRuleStatus(ApiStruct):
    """State of a rule."""

    phase: Annotated[str, Meta(extra_json_schema={"enum": ["", READY, FAILING, REFUSED]})] = ""
    message: str = ""
    receiver: str = ""
    pending: int = 0
    dropped: int = 0
    observed_generation: int = 0
    told_until: Moment | None = None
    told: list[str] = field(default_factory=list)
    queued: list[QueuedNotification] = field(default_factory=list)
    messages: list[RuleMessage] = field(default_factory=list)
    deliveries: list[RuleDelivery] = field(default_factory=list)
    test: RuleTest | None = None


class NotificationRuleObject(ApiStruct):
    """A NotificationRule."""

    metadata: Metadata
    spec: NotificationRuleSpec = field(default_factory=NotificationRuleSpec)
    status: NotificationRuleStatus = field(default_factory=NotificationRuleStatus)
