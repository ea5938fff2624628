"""Workloads, and the requests of their pods."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from weir.model.nodes import Toleration

WHOLE_MILLI: Final = 1000
"""A device, counted in thousandths."""


class WorkloadType(StrEnum):
    """Type of a workload: it sets the default priority and the time limits that apply."""

    BUILD = "build"
    TRAIN = "train"
    INFERENCE = "inference"


DEFAULT_PRIORITY = {WorkloadType.TRAIN: 50, WorkloadType.BUILD: 100, WorkloadType.INFERENCE: 125}
PRIORITY_CLASSES = {"low": 25, "normal": 50, "high": 75, "urgent": 99}
"""Named priorities, all of preemptible workloads. A number may be written in place of a name."""
PREEMPTIBLE_BELOW = 100
"""Workloads of a lower priority are preemptible unless they say otherwise."""


NODE_NAME = "metadata.name"
"""Key of an expression that matches the name of a node instead of a label."""
ONE_POD_CLAIM = "the volume claim "
"""Prefix of the label set of pods that share a volume claim which one pod may use at a time."""


@dataclass(frozen=True, slots=True)
class NodeExpression:
    """Requirement on a node label, in the operators of Kubernetes."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeAffinityRule:
    """Nodes that a pod requires or prefers, with the weight of the preference (0 = required).

    They are those for which every expression of at least one of the terms holds; without terms none.
    """

    terms: tuple[tuple[NodeExpression, ...], ...]
    weight: int = 0


@dataclass(frozen=True, slots=True)
class PodAffinityRule:
    """Affinity, anti-affinity or spread of a pod to pods with a label set, by domains of a node label.

    `affinity`: in a domain with one of them; where there are none at all, a pod that bears the mark
    itself may begin. `anti_affinity`: in a domain without any. `spread`: their number in its domain, with it,
    is at most `max_skew` above that of the emptiest domain it might use. That is 0 if there are fewer than
    `min_domains`. `weight` is that of a wish; 0 = must. The domains a pod might use are those of the nodes
    its selector and rules ask for, tainted or not: with `every_node` of all nodes, with `untainted` without
    those whose taints it doesn't tolerate.
    """

    kind: Literal["affinity", "anti_affinity", "spread"]
    mark: str
    topology: str  # a node label; its values are the domains
    weight: int = 0
    max_skew: int = 1
    min_domains: int = 1
    every_node: bool = False
    untainted: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """Request of one pod. Equal requests are decided once.

    `share_milli` is of each of `devices`, 1000 = whole devices; with `gpu_memory` (bytes on each
    device) it is 0 and follows from the device. `further` are other countable resources.
    `assumed_cpu_milli` and `assumed_memory` stand for amounts that the submission left open. Quotas are
    charged with them. Nodes don't reserve them, so they never keep a pod off a node.
    """

    devices: int = 0
    share_milli: int = WHOLE_MILLI
    gpu_memory: int = 0
    cpu_milli: int = 1000
    memory: int = 1 << 30
    further: tuple[tuple[str, int], ...] = ()
    gpu_models: tuple[str, ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    nodes: tuple[str, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    rules: tuple[NodeAffinityRule, ...] = ()
    marks: tuple[str, ...] = ()  # label sets by which rules of other pods count it
    pod_rules: tuple[PodAffinityRule, ...] = ()
    assumed_cpu_milli: int = 0
    assumed_memory: int = 0
    gpu_weight_milli: int = WHOLE_MILLI  # thousandths of a GPU that each device counts as in quotas

    @property
    def is_whole(self) -> bool:
        """Return True if it requests exclusive devices."""
        return self.devices > 0 and self.share_milli == WHOLE_MILLI

    @property
    def is_shared(self) -> bool:
        """Return True if it requests parts of devices."""
        return self.devices > 0 and self.share_milli != WHOLE_MILLI

    def share_on(self, device_memory: int) -> int:
        """Return the thousandths of each device it takes where devices have this much memory."""
        if not self.gpu_memory:
            return self.share_milli
        return max(1, self.gpu_memory * WHOLE_MILLI // device_memory) if device_memory > 0 else WHOLE_MILLI

    def memory_on(self, device_memory: int) -> int:
        """Return the bytes of each device it takes where devices have this much memory."""
        return self.gpu_memory or self.share_milli * device_memory // WHOLE_MILLI


@dataclass(frozen=True, slots=True)
class PodGroup:
    """Identical pods; `min` of them are needed, the rest are elastic. Higher `order` starts first."""

    name: str
    request: Request
    count: int = 1
    min: int = 1
    order: int = 0


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """Levels of a topology all pods must share, and would like to share."""

    name: str
    required: str | None = None
    preferred: str | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload: pod groups that start, recover and end together. Times in seconds."""

    name: str
    project: str
    groups: tuple[PodGroup, ...]
    min_pods: int
    submitted_s: float
    type: WorkloadType = WorkloadType.TRAIN
    priority: int = 50
    preemptible: bool = True
    max_runtime_s: float | None = None
    topology: TopologyRequest | None = None
    user: str = ""
    restart_s: float | None = None  # stated cost of a restart in device seconds; None = unknown
    idle_limit_s: float | None = None  # None: default of its project or the policy; 0: no limit
    grace_s: float | None = None  # time to stop; None: default of its project or the policy
    retries: int | None = None  # consecutive failures with a retry; None: default of the policy
    can_preempt: bool = True  # whether others may be evicted for it
    overrun: bool = False  # self-bound pods above its project's quota: reclaimed before all others
    protected: bool = False  # non-preemptible because of its disruption budgets
    lapsed: bool = False  # its budgets no longer protect its devices over quota
    unprotected: bool = False  # idle: any requester may evict it, before all others

    @property
    def pods(self) -> int:
        """Return the number of its pods when complete."""
        return sum([group.count for group in self.groups])

    def needed(self, absent: Sequence[int] = ()) -> tuple[int, ...]:
        """Return the pods of each group that make its gang: the minima, then by order, group and index.

        Pods of groups that are `absent` come after all others.
        """
        needed = [group.min for group in self.groups]
        missing = self.min_pods - sum(needed)
        if missing <= 0:
            return tuple(needed)
        turns = sorted(range(len(needed)), key=lambda index: (-self.groups[index].order, index))
        for without in (absent, ()) if any(absent) else ((),):
            for index in turns:
                present = self.groups[index].count - (without[index] if without else 0)
                added = max(0, min(missing, present - needed[index]))
                needed[index] += added
                missing -= added
        return tuple(needed)
