"""Parts of a cluster's objects that the command line reads."""

from typing import Any

from msgspec import Struct, field

from weir.kubernetes.api.objects import ApiStruct, Metadata, OwnerReference
from weir.kubernetes.crd.objects import StoredReason, StoredSpec, StoredStatus


class ListedReason(StoredReason):
    """The reason of a pending workload, or how it ended, with its numbers."""

    numbers: dict[str, Any] = field(default_factory=dict)


class ListedSpec(StoredSpec):
    """A workload's spec, with what only people read."""

    max_runtime: str | None = None


class ListedStatus(StoredStatus):
    """A workload's status, with what only people read."""

    phase: str = "Pending"
    pods: int = 0
    pods_running: int = 0
    gpus: str = "0"
    nodes: list[str] = field(default_factory=list)
    reason: ListedReason | None = None
    started_at: str | None = None
    checkpointed_at: str | None = None
    suspended: bool = False


class ListedWorkload(ApiStruct):
    """A Workload."""

    metadata: Metadata
    spec: ListedSpec = field(default_factory=ListedSpec)
    status: ListedStatus = field(default_factory=ListedStatus)


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
