"""What the command line reads of a cluster's objects."""

from typing import Any

from msgspec import Struct, field

from weir.kubernetes.api.objects import ApiStruct, Metadata, OwnerReference


class OwnerThing(ApiStruct):
    """Whose pods a workload is made of."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class SpecThing(ApiStruct):
    """A workload's spec."""

    owner: OwnerThing = field(default_factory=OwnerThing)
    project: str = ""
    type: str = "train"
    priority: int = 50
    preemptible: bool = True
    max_runtime: str | None = None


class WhyThing(ApiStruct):
    """Why it waits, or how it ended."""

    why: str = ""
    sentence: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)


class EvictionThing(ApiStruct):
    """The last time that its pods were stopped for other work."""

    at: str | None = None
    rule: str = ""
    sentence: str = ""
    by: str | None = None


class LifeThing(ApiStruct):
    """What is kept of its life."""

    ran_seconds: float = 0.0
    restarts: int = 0


class StatusThing(ApiStruct):
    """A workload's status."""

    phase: str = "Pending"
    pods: int = 0
    pods_running: int = 0
    gpus: str = "0"
    nodes: list[str] = field(default_factory=list)
    reason: WhyThing | None = None
    last_eviction: EvictionThing | None = None
    since: str | None = None
    submitted_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    checkpointed_at: str | None = None
    suspended: bool = False
    life: LifeThing | None = None


class WorkloadThing(ApiStruct):
    """A Workload."""

    metadata: Metadata
    spec: SpecThing = field(default_factory=SpecThing)
    status: StatusThing = field(default_factory=StatusThing)


class QueueStatusThing(ApiStruct):
    """How a department or a project fares."""

    phase: str = ""
    message: str = ""
    quota: dict[str, str] = field(default_factory=dict)
    share: dict[str, str] = field(default_factory=dict)
    allocated: dict[str, str] = field(default_factory=dict)
    running: int = 0
    pending: int = 0


class QueueThing(ApiStruct):
    """A Department or a Project."""

    metadata: Metadata
    spec: dict[str, Any] = field(default_factory=dict)
    status: QueueStatusThing = field(default_factory=QueueStatusThing)


class PodSpecThing(ApiStruct):
    """Where a pod is, and who places it."""

    node_name: str = ""
    scheduler_name: str = ""


class PodStatusThing(ApiStruct):
    """How it is."""

    phase: str = "Pending"
    start_time: str | None = None
    reason: str = ""


class PodThing(ApiStruct):
    """A pod."""

    metadata: Metadata
    spec: PodSpecThing = field(default_factory=PodSpecThing)
    status: PodStatusThing = field(default_factory=PodStatusThing)


class Bare(ApiStruct):
    """An object of which only its owners matter."""

    metadata: Metadata


class RegardingThing(ApiStruct):
    """What an Event is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""


class EventThing(ApiStruct):
    """An Event."""

    metadata: Metadata
    event_time: str | None = None
    reason: str = ""
    note: str = ""
    regarding: RegardingThing = field(default_factory=RegardingThing)
    reporting_controller: str = ""


class ConfigMapThing(Struct):
    """A ConfigMap."""

    data: dict[str, str] = field(default_factory=dict)


class LeaseSpec(ApiStruct):
    """Who holds a lease."""

    acquire_time: str | None = None


class LeaseThing(ApiStruct):
    """A lease."""

    spec: LeaseSpec = field(default_factory=LeaseSpec)


class PriorityThing(ApiStruct):
    """A PriorityClass."""

    metadata: Metadata
    value: int = 0


def owner_uids(references: list[OwnerReference]) -> set[str]:
    """Whom an object belongs to."""
    return {each.uid for each in references}
