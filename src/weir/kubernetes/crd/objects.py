"""Weir's own objects as Weir reads them, and the shape of a `Workload`, which Weir alone writes.

`definitions` makes the schema of a `Workload` of these. Reading is more lenient than the schema, because not
every object has been through today's: what the schema alone requires is `Needed`, an enumeration or a bound.
"""

from typing import Annotated, Any, TypeVar

from msgspec import Meta, field

from weir.kubernetes.api.objects import ApiStruct, FinalizedMetadata, Metadata
from weir.kubernetes.translate.annotations import PREFIX
from weir.scenario_io.scalars import DEVICES_MAX, PODS_MAX

WRITTEN_KEY = f"{PREFIX}written"
"""Annotation of a Workload with the digest of its spec."""
PHASES = ["Pending", "Starting", "Running", "Stopping", "Succeeded", "Failed", "Stopped", "Refused"]
ENFORCED, COOPERATIVE, UNLIMITED = ISOLATIONS = "enforced", "cooperative", "none"
TYPES = ["train", "build", "inference"]
REQUIRED = "x-weir-required"
_NEEDED = {REQUIRED: True}
T = TypeVar("T")
Needed = Annotated[T, Meta(extra_json_schema=_NEEDED)]
"""A field that an object has to state."""
Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A time in the form of the API, such as 2026-01-31T12:00:00Z."""
PAST_EVENTS_MAX = 16
"""Past events of a workload. One more takes the place of the oldest."""
PodCount = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": PODS_MAX})]
DeviceIndex = Annotated[int, Meta(extra_json_schema={"minimum": 0, "exclusiveMaximum": DEVICES_MAX})]


class QuotaObject(ApiStruct):
    """A Department, a Project or a Topology; its spec is read by `queue_tree`."""

    metadata: FinalizedMetadata
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)


class OwnerFields(ApiStruct):
    """Owner of the pods of a workload."""

    uid: Needed[str] = ""
    api_version: Needed[str] = ""
    kind: Needed[str] = ""
    name: Needed[str] = ""
    gang: str = ""  # name of the gang, if its owner has several

    @property
    def is_job(self) -> bool:
        """Return True if the owner is a Job of Kubernetes."""
        return self.kind == "Job" and self.api_version == "batch/v1"


class WorkloadSpec(ApiStruct):
    """Request of a workload: written by Weir, read by people."""

    # `definitions` adds the groups and the topology

    owner: Needed[OwnerFields] = field(default_factory=OwnerFields)
    user: str = ""
    project: str = ""
    type: Annotated[str, Meta(extra_json_schema={"enum": TYPES})] = ""
    priority: int | None = None
    preemptible: bool | None = None
    min_pods: PodCount = 1
    max_runtime: str | None = None


class NominatedPlacement(ApiStruct):
    """Capacity reserved for one pod."""

    node: Needed[str]
    pod: Needed[str] = ""
    devices: list[DeviceIndex] = field(default_factory=list)


class Nomination(ApiStruct):
    """Capacity reserved for a workload until its pods run."""

    places: Needed[list[NominatedPlacement]] = field(default_factory=list)
    freed_by: list[str] = field(default_factory=list)
    at: Needed[Moment] = ""


class IdleStatus(ApiStruct):
    """Position of a workload on the idle ladder. Times are in seconds, those of the clock since the epoch."""

    idle_seconds: float = 0.0
    notices: int = 0
    noticed_seconds: float = 0.0
    unprotected: bool = False
    is_idle: bool = False
    excused_until_seconds: float | None = None
    extended_until_seconds: float = 0.0
    run: int = 0


class LifecycleStatus(ApiStruct):
    """Lifecycle of a workload, stored for restarts."""

    starts: int = 0
    settled: int = 0
    failures: int = 0
    ran_seconds: float = 0.0
    retry_at_seconds: float | None = None  # since the epoch
    restarts: int = 0
    idle: IdleStatus | None = None


class PendingReason(ApiStruct):
    """Reason why a workload is pending, or why it ended."""

    why: Needed[str] = ""  # a class of reasons; docs/reference/reasons.md has them all
    sentence: Needed[str] = ""
    numbers: dict[str, Any] = field(default_factory=dict)


class LastEviction(ApiStruct):
    """The last time that pods of a workload were stopped for another one, or to repair its gang."""

    at: Needed[Moment] = ""
    rule: Needed[str] = ""  # docs/reference/reasons.md has them all
    sentence: Needed[str] = ""
    by: str | None = None  # beneficiary of the eviction
    choice: str = ""  # its cost, and that of the next choice of victims
    lost_gpu_seconds: float | None = None  # since its pods started or last saved a checkpoint; None: unknown


class Pause(ApiStruct):
    """Pods of a Job that failed or were evicted since one succeeded: its controller pauses after them."""

    lost: Needed[int] = 0
    stopped: Needed[int] = 0  # the part of `lost` that was evicted or deleted
    at: Needed[Moment] = ""  # time of the last one


class AllocationStatus(ApiStruct):
    """Node and devices of a bound pod. Weir's decision is here; the pod has a copy."""

    uid: Needed[str]
    node: Needed[str] = ""
    devices: list[DeviceIndex] = field(default_factory=list)
    share: int = 0  # thousandths of each device; 0 where a memory is requested
    memory: int = 0  # bytes of each device; 0 where a share is requested
    start: int = 0
    self_bound: bool = False  # the pod set its own node (spec.nodeName)
    preemptible: bool = True  # as decided at its start, whatever the pod states now
    pod: Needed[str] = ""


class ReportedPoints(ApiStruct):
    """Times of a reported value, in seconds since the epoch, each with the value."""

    name: Needed[str] = ""
    points: list[list[float]] = field(default_factory=list)


class JobReport(ApiStruct):
    """Report of a workload's pods on themselves. Valid for the owner with this uid only."""

    owner: Needed[str] = ""
    at: Moment | None = None  # time of the newest message
    step: int | None = None
    values: dict[str, float] = field(default_factory=dict)
    checkpointed_at: Moment | None = None
    busy_until: Moment | None = None  # end of its extension of the idle rules
    busy_why: str = ""
    recent: list[ReportedPoints] = field(default_factory=list)  # points since the write before


class PastEvent(ApiStruct):
    """Event for notifications that the other fields no longer state."""

    id: Needed[str]
    at: Needed[Moment]
    kind: Needed[str] = ""
    topics: list[str] = field(default_factory=list)
    sentence: Needed[str] = ""


class WorkloadCondition(ApiStruct):
    """A condition of a workload, as other kinds have them."""

    type: Needed[str] = ""
    status: Annotated[str, Meta(extra_json_schema={"enum": ["True", "False", "Unknown"], **_NEEDED})] = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Moment | None = None


class WorkloadStatus(ApiStruct):
    """Status of a workload."""

    phase: Annotated[str, Meta(extra_json_schema={"enum": PHASES, **_NEEDED})] = ""
    running: str = "0/0"  # running pods / all pods
    pods: PodCount = 0
    pods_running: PodCount = 0
    gpus: str = "0"  # GPUs of all its pods
    gpu_memory_isolation: Annotated[str | None, Meta(extra_json_schema={"enum": ISOLATIONS})] = None
    time_to_gpu_seconds: float | None = None  # time that the last replica of a service waited for GPUs
    nodes: list[str] = field(default_factory=list)
    reason: PendingReason | None = None
    last_eviction: LastEviction | None = None
    quota_returned_at: Moment | None = None  # time of the last eviction for it
    past_events: list[PastEvent] = field(default_factory=list)  # the oldest one first
    pause: Pause | None = None
    short_since: Moment | None = None  # time since which fewer pods than its minimum have a node
    since: Moment | None = None  # begin of the phase
    submitted_at: Moment | None = None
    started_at: Moment | None = None  # start of the current run
    ended_at: Moment | None = None
    report: JobReport | None = None
    estimated_start: Moment | None = None
    suspended: bool = False
    suspended_for: str = ""  # reason of Weir's suspension
    idle_warning: str = ""  # next action of the idle rules
    nomination: Nomination | None = None
    conditions: list[WorkloadCondition] = field(default_factory=list)
    allocations: list[AllocationStatus] = field(default_factory=list)
    life: LifecycleStatus | None = None
    written: str = ""  # digest of the last written spec, to find changes


class WorkloadObject(ApiStruct):
    """A Workload."""

    metadata: Metadata
    spec: WorkloadSpec = field(default_factory=WorkloadSpec)
    status: WorkloadStatus = field(default_factory=WorkloadStatus)
    written: str = ""  # the digest of its spec
    uid: str = ""  # kept here because its metadata isn't kept

    @property
    def report(self) -> JobReport:
        """Return the report of its pods; None if the report is of an earlier owner of its name."""
        report = self.status.report
        return report if report is not None and report.owner == self.spec.owner.uid else NO_REPORT


NO_REPORT = JobReport()


class OwnerObject(ApiStruct):
    """An object that makes pods, of any kind; the table of kinds selects the fields that are kept."""

    metadata: Metadata
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
