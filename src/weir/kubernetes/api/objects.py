"""The fields of API objects that Weir reads.

Narrow structs, so that a list of a hundred thousand pods decodes in a second and stays small. The decoder
skips fields that aren't named here. Field names are the API's own, in its case.
"""

from typing import Literal

from msgspec import Struct, field


class ApiStruct(Struct, rename="camel", gc=False):
    """Part of an object; unknown fields are skipped."""


# Metadata


class OwnerReference(ApiStruct):
    """Owner of an object."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False


class Metadata(ApiStruct):
    """Metadata of an object. Times are RFC 3339 in whole seconds."""

    name: str
    uid: str = ""
    namespace: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []

    @property
    def key(self) -> str:
        """Namespace and name, of an object that has a namespace."""
        return f"{self.namespace}/{self.name}"

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that made the object and takes care of it."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class FinalizedMetadata(Metadata):
    """Metadata of an object that its finalizers keep."""

    finalizers: list[str] = []


class ApiObject(ApiStruct):
    """An object of which nothing but its metadata matters."""

    metadata: Metadata
    api_version: str = ""
    kind: str = ""


# Pods


class NodeSelectorRequirement(ApiStruct):
    """Expression over node labels or fields."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: list[str] = []


class NodeSelectorTerm(ApiStruct):
    """Expressions that must all be true; a term without any matches nothing."""

    match_expressions: list[NodeSelectorRequirement] = []
    match_fields: list[NodeSelectorRequirement] = []


class NodeSelector(ApiStruct):
    """Terms of which at least one must hold."""

    node_selector_terms: list[NodeSelectorTerm] = []


class PreferredSchedulingTerm(ApiStruct):
    """A wish for nodes."""

    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(ApiStruct):
    """Node affinity of a pod: required and preferred nodes."""

    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[PreferredSchedulingTerm] = field(
        default_factory=list, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class LabelSelectorRequirement(ApiStruct):
    """Expression over the labels of pods or namespaces."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] = []


class LabelSelector(ApiStruct):
    """Conditions that must all be true; an empty selector matches everything, a missing one nothing."""

    match_labels: dict[str, str] = {}
    match_expressions: list[LabelSelectorRequirement] = []


class PodAffinityTerm(ApiStruct):
    """Pods, and the node label by which nearness to them is judged."""

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: list[str] = []
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] = []
    mismatch_label_keys: list[str] = []


class WeightedPodAffinityTerm(ApiStruct):
    """A weighted preference about other pods."""

    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(ApiStruct):
    """Pods to be near to, or apart from."""

    required: list[PodAffinityTerm] = field(
        default_factory=list, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[WeightedPodAffinityTerm] = field(
        default_factory=list, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class KubeAffinity(ApiStruct):
    """Affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(ApiStruct):
    """Limit of the skew of pods over the domains of a node label."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: Literal["Honor", "Ignore"] = "Honor"
    node_taints_policy: Literal["Honor", "Ignore"] = "Ignore"
    match_label_keys: list[str] = []


class PodToleration(ApiStruct):
    """A taint a pod puts up with."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class ContainerResources(ApiStruct):
    """Quantities by resource name."""

    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}


class ContainerPort(ApiStruct):
    """A port of a container; host_port 0 takes none of the node's."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = field(default="", name="hostIP")


class SecurityContext(ApiStruct):
    """Security context of a container."""

    privileged: bool | None = None


class Container(ApiStruct):
    """A container, with its requests. An init container with restart policy Always is a sidecar."""

    name: str
    resources: ContainerResources = field(default_factory=ContainerResources)
    ports: list[ContainerPort] = []
    restart_policy: str | None = None
    security_context: SecurityContext | None = None


class ClaimVolume(ApiStruct):
    """A volume by the name of its claim."""

    claim_name: str


class Volume(ApiStruct):
    """A volume of a pod; `ephemeral` ones have the claim POD-VOLUME."""

    name: str
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: dict[str, object] | None = None


class SchedulingGate(ApiStruct):
    """Gate that keeps a pod from being scheduled."""

    name: str


class PodResourceClaim(ApiStruct):
    """A claim of devices: one by name, or one that is made for the pod from a template."""

    name: str
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodClaimStatus(ApiStruct):
    """The claim that was made for a pod from a template; without a name, the pod needs none."""

    name: str
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodExtendedClaimStatus(ApiStruct):
    """The claim that a scheduler made for the extended resources of a pod."""

    resource_claim_name: str = ""


class PodSchedulingGroup(ApiStruct):
    """The `PodGroup` that a pod is scheduled with, from Kubernetes 1.36 on."""

    pod_group_name: str = ""


class PodWorkloadReference(ApiStruct):
    """The pod group of a `Workload` that a pod is scheduled with, in Kubernetes 1.35."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class PodSpec(ApiStruct):
    """Spec of a pod."""

    scheduler_name: str = "default-scheduler"
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: KubeAffinity | None = None
    tolerations: list[PodToleration] = []
    topology_spread_constraints: list[TopologySpreadConstraint] = []
    containers: list[Container] = []
    init_containers: list[Container] = []
    ephemeral_containers: list[Container] = []
    overhead: dict[str, str | int | float] = {}
    resources: ContainerResources | None = None  # of the pod as a whole, where it states them
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = "PreemptLowerPriority"
    scheduling_gates: list[SchedulingGate] = []
    volumes: list[Volume] = []
    resource_claims: list[PodResourceClaim] = []
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    restart_policy: str = "Always"
    scheduling_group: PodSchedulingGroup | None = None
    workload_ref: PodWorkloadReference | None = None


class ObjectCondition(ApiStruct):
    """Condition of an object's status."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ContainerStatus(ApiStruct):
    """The resources of a container as its node has them, also while the pod is being resized."""

    name: str
    allocated_resources: dict[str, str | int | float] = {}
    resources: ContainerResources | None = None


class PodStatus(ApiStruct):
    """Status of a pod."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    conditions: list[ObjectCondition] = []
    resource_claim_statuses: list[PodClaimStatus] = []
    extended_resource_claim_status: PodExtendedClaimStatus | None = None
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    allocated_resources: dict[str, str | int | float] = {}  # of the pod as a whole
    resources: ContainerResources | None = None


class KubePod(ApiStruct):
    """A pod."""

    metadata: Metadata
    spec: PodSpec
    status: PodStatus = field(default_factory=PodStatus)


# Pod groups


class SchedulingGroupObject(ApiStruct):
    """A `PodGroup` or a `Workload` of `scheduling.k8s.io`; `translate.scheduling_groups` reads its spec."""

    metadata: Metadata
    api_version: str = ""
    spec: dict[str, object] = {}
    status: dict[str, object] = {}


# Nodes


class NodeTaint(ApiStruct):
    """Keeps pods away that don't tolerate it."""

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class NodeSpec(ApiStruct):
    """Spec of a node."""

    unschedulable: bool = False
    taints: list[NodeTaint] = []


class NodeStatus(ApiStruct):
    """Status of a node: capacity, allocatable resources, conditions."""

    allocatable: dict[str, str | int | float] = {}
    capacity: dict[str, str | int | float] = {}
    conditions: list[ObjectCondition] = []


class KubeNode(ApiStruct):
    """A node."""

    metadata: Metadata
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


# What constraints refer to


class PriorityClass(ApiStruct):
    """A priority by name."""

    metadata: Metadata
    value: int


class Namespace(ApiStruct):
    """A namespace, for its labels."""

    metadata: Metadata
