"""Weir's own objects as Weir reads them back."""

from typing import Any

from msgspec import field

from weir.kubernetes.api.objects import ApiStruct, Metadata
from weir.kubernetes.translate.annotations import PREFIX

WRITTEN_KEY = f"{PREFIX}written"
"""On a workload, an annotation: by which its spec is known again."""


class QueueMetadata(Metadata):
    """Metadata of a Department, Project or Topology, with finalizers."""

    finalizers: list[str] = field(default_factory=list)


class QuotaObject(ApiStruct):
    """A Department, a Project or a Topology; its spec is read by `queue_tree`."""

    metadata: QueueMetadata
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)


class OwnerFields(ApiStruct):
    """Owner of a workload's pods."""

    uid: str = ""
    api_version: str = ""
    kind: str = ""
    name: str = ""
    gang: str = ""  # where it has several


class StoredSpec(ApiStruct):
    """Fields of a workload's spec that Weir reads back."""

    owner: OwnerFields = field(default_factory=OwnerFields)
    project: str = ""
    type: str = ""
    priority: int | None = None
    preemptible: bool | None = None
    min_pods: int = 1


class StoredPlacement(ApiStruct):
    """Capacity reserved for a pod."""

    node: str
    pod: str = ""
    devices: list[int] = field(default_factory=list)


class StoredNomination(ApiStruct):
    """Capacity reserved for a workload."""

    places: list[StoredPlacement] = field(default_factory=list)
    freed_by: list[str] = field(default_factory=list)


class StoredLifecycle(ApiStruct):
    """Lifecycle of a workload, as control recorded it."""

    starts: int = 0
    settled: int = 0
    failures: int = 0
    ran_seconds: float = 0.0
    retry_at_seconds: float | None = None
    restarts: int = 0


class StoredReason(ApiStruct):
    """Reason why a workload is pending, or of its end."""

    why: str = ""
    sentence: str = ""


class StoredEviction(ApiStruct):
    """The last time that pods of a workload were stopped for another one."""

    at: str = ""
    rule: str = ""
    sentence: str = ""
    by: str | None = None


class KeptPause(ApiStruct):
    """The pods of a Job that failed or were evicted since one succeeded: its controller pauses after them."""

    lost: int = 0
    stopped: int = 0
    at: str = ""


class StoredAllocation(ApiStruct):
    """Placement of a bound pod; `self_bound` if Weir didn't choose the node."""

    uid: str
    node: str = ""
    devices: list[int] = field(default_factory=list)
    share: int = 0
    memory: int = 0
    start: int = 0
    self_bound: bool = False
    preemptible: bool = True


class StoredStatus(ApiStruct):
    """Fields of a workload's status that Weir reads back."""

    phase: str = ""
    since: str | None = None
    nomination: StoredNomination | None = None
    life: StoredLifecycle | None = None
    reason: StoredReason | None = None
    last_eviction: StoredEviction | None = None
    ended_at: str | None = None
    submitted_at: str | None = None
    pause: KeptPause | None = None
    short_since: str | None = None
    allocations: list[StoredAllocation] = field(default_factory=list)
    written: str = ""


class WorkloadObject(ApiStruct):
    """A Workload."""

    metadata: Metadata
    spec: StoredSpec = field(default_factory=StoredSpec)
    status: StoredStatus = field(default_factory=StoredStatus)
    written: str = ""  # the digest of its spec
    uid: str = ""  # its metadata isn't kept


class OwnerObject(ApiStruct):
    """An object that makes pods, of any kind; the table of kinds says what of it is kept."""

    metadata: Metadata
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
