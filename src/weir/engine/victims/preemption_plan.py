"""Result of one preemption: placements, and the pods that stop or move for them."""

from dataclasses import dataclass, field

from weir.engine.placement.pod_placer import NodePlacement
from weir.engine.protection.preemption_rules import PreemptionKind
from weir.model.reasons import EvictionRule
from weir.state.jobs import Job, Pod


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """The next choice of victims: other workloads on the chosen node, or else the next node.

    `dearer` is the least difference in price, in device seconds. It is None if the choice comes later by
    quota, fair share or priority, whatever its price.
    """

    node: int
    dearer: float | None
    workloads: tuple[str, ...] = ()


@dataclass(slots=True)
class PreemptionPlan:
    """Capacity found for a workload: placements, pods to stop and pods to move.

    `runner_up` is the next choice of victims for a workload that lacks one pod; None for others.
    """

    kind: PreemptionKind | None  # None: no preemption, the workload fits into the capacity after releases
    placements: list[NodePlacement]
    stopped: list[tuple[Pod, EvictionRule]] = field(default_factory=list)
    moved: list[tuple[Job, list[NodePlacement], EvictionRule]] = field(default_factory=list)
    runner_up: RunnerUp | None = None
