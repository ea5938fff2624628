"""The format of scenario files: every key with its type and default.

Types are strict: `"4"` is no count and `1` is no name.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from weir.model.nodes import Effect
from weir.model.policy import Policy
from weir.model.reasons import ReasonCode
from weir.model.workloads import WHOLE_MILLI
from weir.scenario_io.scalars import (
    PODS_MAX,
    Bounds,
    Bytes,
    CpuMilli,
    Device,
    Devices,
    Further,
    GpusMilli,
    GpuWeight,
    GroupName,
    HighestPriority,
    Label,
    Name,
    Offset,
    Past,
    Priority,
    Resource,
    SomeBytes,
    Span,
    Term,
    Units,
    Weight,
    WorkloadPriority,
)

Labels = dict[Name, Label]
Wish = Annotated[int, Field(ge=1, le=100)]
Count = Annotated[int, Field(ge=0, le=PODS_MAX)]
PersonCount = Annotated[int, Field(ge=0, le=1_000_000)]
Expected = Literal["running", "pending", "waiting"]
Reason = Annotated[ReasonCode, Field(strict=False)]


class Entry(BaseModel):
    """Base of every part of a file."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


class TaintEntry(Entry):
    """A taint of a node."""

    key: Name
    value: Label = ""
    effect: Effect = "NoSchedule"


class OutageEntry(Entry):
    """A time in which a node, or devices of it, are out of service."""

    begins: Offset
    ends: Offset | None = None
    gpus: Annotated[list[Device], Field(min_length=1)] | None = None
    reason: Annotated[str, Field(min_length=1, max_length=500)] = "maintenance"
    keep_running: bool = False


class NodeEntry(Entry):
    """A node, or by a range in its name several alike."""

    name: Name
    gpus: Devices = 0
    gpu_model: Name | None = None
    gpu_memory: SomeBytes = 16 << 30
    cpu: CpuMilli = 64_000
    memory: Bytes = 512 << 30
    pods: Count = 110
    labels: Labels = {}
    taints: list[TaintEntry] = []
    resources: dict[Further, Units] = {}
    links: list[list[Device]] = []
    foreign_devices: list[Device] = []
    foreign_marks: dict[Name, Count] = {}
    gpu_weight: GpuWeight = WHOLE_MILLI
    outages: Annotated[list[OutageEntry], Field(max_length=1000)] = []


class TopologyEntry(Entry):
    """Node labels, coarse to fine."""

    name: Name
    levels: Annotated[list[Name], Field(min_length=1)]


class ClusterEntry(Entry):
    """Nodes and topologies of the cluster."""

    nodes: list[NodeEntry] = []
    topologies: list[TopologyEntry] = []


class QueueEntry(Entry):
    """Keys of both departments and projects."""

    name: Name
    quota: Bounds = {}
    limit: Bounds = {}
    weight: dict[Resource, Weight] = {}
    priority: Priority = 100
    created: Offset | None = None


class DepartmentEntry(QueueEntry):
    """A department; it may sit in another."""

    parent: Name | None = None


class TimesEntry(Entry):
    """Time rules of a project, in place of the policy's; 0 is none."""

    max_runtime: Term | None = None
    idle_limit: Term | None = None
    lifetime: Term | None = None
    stop_grace: Term | None = None
    idle_notice: Term | None = None
    idle_unprotect: Term | None = None
    idle_suspend: Term | None = None


class PersonLimitsEntry(Entry):
    """Limits of a person in a project; 0 is none."""

    gpus: GpusMilli | None = None
    running: PersonCount | None = None
    sessions: PersonCount | None = None
    pending: PersonCount | None = None
    max_runtime: Term | None = None


class WorkloadDefaultsEntry(Entry):
    """Defaults of a project for fields that a submission leaves open."""

    type: Literal["train", "build", "inference"] | None = None
    priority: HighestPriority | None = None
    preemptible: bool | None = None
    gpus: GpusMilli | None = None
    max_runtime: Span | None = None
    grace: Span | None = None


class ProjectEntry(QueueEntry):
    """A project; without a department it is at the root."""

    department: Name | None = None
    times: TimesEntry = TimesEntry()
    max_priority: HighestPriority | None = None
    max_priority_of: dict[Name, HighestPriority] = {}
    person_limits: PersonLimitsEntry = PersonLimitsEntry()
    person_limits_of: dict[Name, PersonLimitsEntry] = {}
    defaults: WorkloadDefaultsEntry = WorkloadDefaultsEntry()


class TolerationEntry(Entry):
    """A toleration of a pod."""

    key: Label = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: Label = ""
    effect: Effect | None = None


class ExpressionEntry(Entry):
    """A requirement on a node label; the key `metadata.name` is the node's name."""

    key: Name
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: list[Label] = []


WrittenTerm = Annotated[list[ExpressionEntry], Field(min_length=1)]
WrittenTerms = Annotated[list[WrittenTerm], Field(min_length=1)]


class NodeWishEntry(Entry):
    """Nodes that a pod prefers."""

    weight: Wish
    terms: WrittenTerms


class PodAffinityEntry(Entry):
    """Affinity or anti-affinity to pods by domains of a node label; a preference if it has a weight."""

    mark: Name
    topology: Name
    weight: Wish | None = None


class SpreadEntry(Entry):
    """Spread of pods over domains of a node label; a preference if it has a weight."""

    mark: Name
    topology: Name
    max_skew: Annotated[int, Field(ge=1, le=PODS_MAX)] = 1
    min_domains: Annotated[int, Field(ge=1, le=PODS_MAX)] = 1
    weight: Wish | None = None


class PlaceEntry(Entry):
    """Node and devices of a running pod."""

    node: Name
    gpus: list[Device] | None = None


class PodsEntry(Entry):
    """Identical pods of a workload, as submitted."""

    name: GroupName | None = None
    count: Annotated[int, Field(ge=1, le=PODS_MAX)] = 1
    min: Count | None = None
    gpus: GpusMilli = 0
    devices: Annotated[int, Field(ge=1, le=1024)] | None = None
    gpu_memory: SomeBytes | None = None
    gpu_models: list[Name] = []
    cpu: CpuMilli = 1000
    memory: Bytes = 1 << 30
    resources: dict[Further, Units] = {}
    node_selector: Labels = {}
    nodes: Annotated[list[Name], Field(min_length=1)] | None = None
    tolerations: list[TolerationEntry] = []
    node_affinity: WrittenTerms | None = None
    preferred_nodes: list[NodeWishEntry] = []
    marks: list[Name] = []
    pod_affinity: list[PodAffinityEntry] = []
    pod_anti_affinity: list[PodAffinityEntry] = []
    spread: list[SpreadEntry] = []
    order: Priority = 0


class GroupEntry(PodsEntry):
    """Identical pods of a workload, and where those are that already run; `absent` ones aren't made yet.

    `assumed_cpu` and `assumed_memory` are charged to quotas and not reserved on nodes. A pool writes them
    into its snapshot for work that left its CPU or memory open. `gpu_weight` is the part of a GPU that each
    of its devices counts as in quotas, such as 1/7.
    """

    assumed_cpu: CpuMilli = 0
    assumed_memory: Bytes = 0
    gpu_weight: GpuWeight = WHOLE_MILLI
    placed: list[PlaceEntry | None] = []
    absent: Annotated[list[Count], Field(max_length=PODS_MAX)] = []
    budgets: list[Name] = []


class TopologyRequestEntry(Entry):
    """Topology levels that all pods must share or prefer to share."""

    name: Name
    required: Name | None = None
    preferred: Name | None = None


class WorkloadEntry(Entry):
    """A workload and its pods.

    A snapshot writes its past: `waits_since` (start of pending), `ran` (run time so far) and `short_since`
    (start of its gang below the minimum). `stopped_for` are the workloads that it was evicted for.
    """

    name: Name
    project: Name
    type: Literal["train", "build", "inference"] = "train"
    priority: WorkloadPriority | None = None
    preemptible: bool | None = None
    can_preempt: bool = True
    unprotected: bool = False
    submitted: Past | None = None
    started: Past | None = None
    min_pods: Count | None = None
    max_runtime: Span | None = None
    idle_limit: Span | None = None
    grace: Term | None = None
    retries: Annotated[int, Field(ge=0, le=100)] | None = None
    checkpointed: Past | None = None
    waits_since: Past | None = None
    ran: Span | None = None
    short_since: Past | None = None
    stopped_for: Annotated[dict[Name, Past], Field(max_length=1000)] = {}
    topology: TopologyRequestEntry | None = None
    pods: Annotated[list[GroupEntry], Field(min_length=1)]


class BudgetEntry(Entry):
    """A disruption budget, and the number of its pods that may be stopped now."""

    name: Name
    allowed: Count = 0


class PodExpectedEntry(Entry):
    """Expectations of a pod."""

    status: Expected | None = None
    node: Name | None = None
    gpus: list[Device] | None = None
    reason: Reason | None = None
    evicted_by: Name | None = None


class WorkloadExpectedEntry(Entry):
    """Expectations of a workload."""

    status: Expected | None = None
    node: Name | None = None
    running: Count | None = None
    pending: Count | None = None
    nodes: list[Name] | None = None
    reason: Reason | None = None
    evicted_by: Name | None = None


class ExpectEntry(Entry):
    """Expectations of the scenario."""

    cycles: Annotated[int, Field(ge=1, le=10_000)] = 2
    stable: Annotated[int, Field(ge=0, le=10_000)] = 5
    max_evictions: Count | None = None
    workloads: dict[str, WorkloadExpectedEntry] = {}
    pods: dict[str, PodExpectedEntry] = {}


class ScenarioEntry(Entry):
    """A whole file."""

    name: Name | None = None
    tick: Span = 1.0
    cluster: ClusterEntry
    departments: list[DepartmentEntry] = []
    projects: list[ProjectEntry] = []
    workloads: list[WorkloadEntry] = []
    budgets: list[BudgetEntry] = []
    policy: Policy = Policy()
    expect: ExpectEntry = ExpectEntry()
