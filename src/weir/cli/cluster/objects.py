"""Parts of a cluster's objects that the command line reads."""

from typing import Any

from msgspec import Struct, field

from weir.kubernetes.api.objects import ApiStruct, Metadata, OwnerReference


class QueueStatusView(ApiStruct):
    """The status of a department or project."""

    phase: str = ""
    message: str = ""
    quota: dict[str, str] = field(default_factory=dict)
    share: dict[str, str] = field(default_factory=dict)
    allocated: dict[str, str] = field(default_factory=dict)
    running: int = 0
    pending: int = 0


class ListedQueue(ApiStruct):
    """A Department or a Project."""

    metadata: Metadata
    spec: dict[str, Any] = field(default_factory=dict)
    status: QueueStatusView = field(default_factory=QueueStatusView)


class RegardingView(ApiStruct):
    """The object of an Event."""

    kind: str = ""
    namespace: str = ""
    name: str = ""


class EventView(ApiStruct):
    """An Event."""

    metadata: Metadata
    event_time: str | None = None
    reason: str = ""
    note: str = ""
    regarding: RegardingView = field(default_factory=RegardingView)
    reporting_controller: str = ""


class ConfigMapView(Struct):
    """A ConfigMap."""

    data: dict[str, str] = field(default_factory=dict)


def owner_uids(references: list[OwnerReference]) -> set[str]:
    """Return the uids of an object's owners."""
    return {each.uid for each in references}
