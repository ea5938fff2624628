"""Weir's own objects as Weir reads them back."""

from typing import Any

from msgspec import field

from weir.kubernetes.api.objects import Metadata, Narrow
from weir.kubernetes.reading.labels import PREFIX

WRITTEN_KEY = f"{PREFIX}written"
"""On a workload, an annotation: by which its spec is known again."""


class QueueMetadata(Metadata):
    """What the metadata of a queue says beside that of every object."""

    finalizers: list[str] = field(default_factory=list)


class QueueThing(Narrow):
    """A Department, a Project or a Topology; its spec is read by `queue_tree`."""

    metadata: QueueMetadata
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)


class OwnerUid(Narrow):
    """Whose pods a workload is made of."""

    uid: str = ""


class WorkloadThingSpec(Narrow):
    """What is read of a workload's spec."""

    owner: OwnerUid = field(default_factory=OwnerUid)
    project: str = ""


class KeptPlace(Narrow):
    """Room kept for a pod."""

    node: str
    pod: str = ""
    devices: list[int] = field(default_factory=list)


class KeptRoom(Narrow):
    """Room kept for a workload."""

    places: list[KeptPlace] = field(default_factory=list)
    freed_by: list[str] = field(default_factory=list)


class KeptLife(Narrow):
    """What control remembers of a workload."""

    starts: int = 0
    settled: int = 0
    failures: int = 0
    ran_seconds: float = 0.0
    retry_at_seconds: float | None = None
    restarts: int = 0


class KeptWhy(Narrow):
    """Why a workload waits, or how it ended."""

    why: str = ""
    sentence: str = ""


class KeptEviction(Narrow):
    """The last time that pods of a workload were stopped for another one."""

    at: str = ""
    rule: str = ""
    sentence: str = ""
    by: str | None = None


class KeptAllocation(Narrow):
    """Placement of a bound pod; `self_bound` if Weir didn't choose the node."""

    uid: str
    node: str = ""
    devices: list[int] = field(default_factory=list)
    share: int = 0
    memory: int = 0
    start: int = 0
    self_bound: bool = False
    preemptible: bool = True


class WorkloadThingStatus(Narrow):
    """What is read of a workload's status."""

    phase: str = ""
    since: str | None = None
    promised: KeptRoom | None = None
    life: KeptLife | None = None
    reason: KeptWhy | None = None
    last_eviction: KeptEviction | None = None
    ended_at: str | None = None
    short_since: str | None = None
    allocations: list[KeptAllocation] = field(default_factory=list)
    written: str = ""


class WorkloadThing(Narrow):
    """A Workload."""

    metadata: Metadata
    spec: WorkloadThingSpec = field(default_factory=WorkloadThingSpec)
    status: WorkloadThingStatus = field(default_factory=WorkloadThingStatus)
    written: str = ""  # the digest of its spec
    uid: str = ""  # its metadata isn't kept


class MakerThing(Narrow):
    """An object that makes pods, of any kind; the table of kinds says what of it is kept."""

    metadata: Metadata
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
