"""State that all preemptions of one cycle share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from weir.engine.disruption_allowances import DisruptionAllowances
from weir.engine.placer import NodePlacement, Placer
from weir.engine.quota_checks import QuotaChecks
from weir.engine.quota_overlay import QuotaOverlay
from weir.engine.topology_levels import TopologyLevel
from weir.model.policy import AffinityPolicy, Policy
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Pod
from weir.state.reduce import usage_on


@dataclass(slots=True)
class PreemptionContext:
    """Cluster, quota overlay and the capacity after all releases.

    `gone` are pods stopped or moved in this plan; `coming` are workloads that are given room in it or
    have some promised: nobody takes from them before it is theirs, or a stopped gang would keep a pod.
    Without `bounds` no search is spared.
    """

    cluster: Cluster
    policy: Policy
    overlay: QuotaOverlay
    placer: Placer
    affinity_of: Callable[[Job], tuple[AffinityPolicy, ...]]
    levels_of: Callable[[str], list[TopologyLevel]]
    now_s: float
    disruptions: DisruptionAllowances
    checks: QuotaChecks
    bounds: bool = True
    gone: set[Pod] = field(default_factory=set)
    coming: set[str] = field(default_factory=set)

    def count(self, placements: Sequence[NodePlacement], sign: int) -> None:
        """Charge placements to the quota overlay (sign -1: release them)."""
        for pod, node, _ in placements:
            job = pod.job
            self.overlay.add(job.path, usage_on(self.cluster, pod.shape, node), not job.preemptible, sign)
