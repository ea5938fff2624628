"""Parts of a cluster's objects that the command line reads."""

from typing import Any

from msgspec import Struct, field

from weir.kubernetes.api.objects import ApiStruct, Metadata, OwnerReference


class OwnerView(ApiStruct):
    """The owner of a workload's pods."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class SpecView(ApiStruct):
    """A workload's spec."""

    owner: OwnerView = field(default_factory=OwnerView)
    project: str = ""
    type: str = "train"
    priority: int = 50
    preemptible: bool = True
    max_runtime: str | None = None


class ReasonView(ApiStruct):
    """The reason of a pending workload, or how it ended."""

    why: str = ""
    sentence: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)


class EvictionView(ApiStruct):
    """The last eviction of its pods for another workload."""

    at: str | None = None
    rule: str = ""
    sentence: str = ""
    by: str | None = None


class LifetimeView(ApiStruct):
    """The stored lifecycle of a workload."""

    ran_seconds: float = 0.0
    restarts: int = 0


class StatusView(ApiStruct):
    """A workload's status."""

    phase: str = "Pending"
    pods: int = 0
    pods_running: int = 0
    gpus: str = "0"
    nodes: list[str] = field(default_factory=list)
    reason: ReasonView | None = None
    last_eviction: EvictionView | None = None
    since: str | None = None
    submitted_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    checkpointed_at: str | None = None
    suspended: bool = False
    life: LifetimeView | None = None


class ListedWorkload(ApiStruct):
    """A Workload."""

    metadata: Metadata
    spec: SpecView = field(default_factory=SpecView)
    status: StatusView = field(default_factory=StatusView)


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


class PodSpecView(ApiStruct):
    """The node and the scheduler of a pod."""

    node_name: str = ""
    scheduler_name: str = ""


class PodStatusView(ApiStruct):
    """The status of a pod."""

    phase: str = "Pending"
    start_time: str | None = None
    reason: str = ""


class ListedPod(ApiStruct):
    """A pod."""

    metadata: Metadata
    spec: PodSpecView = field(default_factory=PodSpecView)
    status: PodStatusView = field(default_factory=PodStatusView)


class BareView(ApiStruct):
    """An object of which only the owners are read."""

    metadata: Metadata


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


class LeaseSpecView(ApiStruct):
    """The holder of a lease."""

    acquire_time: str | None = None


class LeaseView(ApiStruct):
    """A lease."""

    spec: LeaseSpecView = field(default_factory=LeaseSpecView)


class PriorityClassView(ApiStruct):
    """A PriorityClass."""

    metadata: Metadata
    value: int = 0


def owner_uids(references: list[OwnerReference]) -> set[str]:
    """Return the uids of an object's owners."""
    return {each.uid for each in references}
