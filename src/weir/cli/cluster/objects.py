"""What the command line reads of a cluster's objects."""

from typing import Any

from msgspec import Struct, field

from weir.kubernetes.api.objects import ApiStruct, Metadata, OwnerReference


class OwnerView(ApiStruct):
    """Whose pods a workload is made of."""

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
    """Why it waits, or how it ended."""

    why: str = ""
    sentence: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)


class EvictionView(ApiStruct):
    """The last time that its pods were stopped for other work."""

    at: str | None = None
    rule: str = ""
    sentence: str = ""
    by: str | None = None


class LifetimeView(ApiStruct):
    """What is kept of its life."""

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
    """How a department or a project fares."""

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
    """Where a pod is, and who places it."""

    node_name: str = ""
    scheduler_name: str = ""


class PodStatusView(ApiStruct):
    """How it is."""

    phase: str = "Pending"
    start_time: str | None = None
    reason: str = ""


class ListedPod(ApiStruct):
    """A pod."""

    metadata: Metadata
    spec: PodSpecView = field(default_factory=PodSpecView)
    status: PodStatusView = field(default_factory=PodStatusView)


class BareView(ApiStruct):
    """An object of which only its owners matter."""

    metadata: Metadata


class RegardingView(ApiStruct):
    """What an Event is about."""

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
    """Who holds a lease."""

    acquire_time: str | None = None


class LeaseView(ApiStruct):
    """A lease."""

    spec: LeaseSpecView = field(default_factory=LeaseSpecView)


class PriorityClassView(ApiStruct):
    """A PriorityClass."""

    metadata: Metadata
    value: int = 0


def owner_uids(references: list[OwnerReference]) -> set[str]:
    """Whom an object belongs to."""
    return {each.uid for each in references}
