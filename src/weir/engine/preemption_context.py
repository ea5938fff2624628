"""State that all preemptions of one cycle share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from weir.engine.disruption_allowances import DisruptionAllowances
from weir.engine.placer import NodePlacement, Placer
from weir.engine.quota_overlay import QuotaOverlay
from weir.engine.topology_levels import TopologyLevel
from weir.model.policy import AffinityPolicy, Policy
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Pod, devices_of_charge
from weir.state.quota_usage import Amounts
from weir.state.reduce import usage_on
from weir.state.shapes import GPU_ROW


@dataclass(slots=True)
class PreemptionContext:
    """Cluster, quota overlay and the capacity after all releases.

    `gone` are pods stopped or moved in this plan; `coming` are workloads that are given room in it or
    have some promised: nobody takes from them before it is theirs, or a stopped gang would keep a pod.
    `headroom_milli` of the devices are to stay free of over-quota work. Without `bounds` no search is spared.
    """

    cluster: Cluster
    policy: Policy
    overlay: QuotaOverlay
    placer: Placer
    affinity_of: Callable[[Job], tuple[AffinityPolicy, ...]]
    levels_of: Callable[[str], list[TopologyLevel]]
    now_s: float
    disruptions: DisruptionAllowances
    headroom_milli: int = 0
    bounds: bool = True
    gone: set[Pod] = field(default_factory=set)
    coming: set[str] = field(default_factory=set)

    def count(self, placements: Sequence[NodePlacement], sign: int) -> None:
        """Charge placements to the quota overlay (sign -1: release them)."""
        for pod, node, _ in placements:
            job = pod.job
            self.overlay.add(job.path, usage_on(self.cluster, pod.shape, node), not job.preemptible, sign)

    def keeps_headroom(self, job: Job, asks: Amounts) -> bool:
        """Return True if pods of a job are in quota, or leave the reserve free."""
        want = devices_of_charge(job, dict(asks).get(GPU_ROW, 0))
        if not self.headroom_milli or not want or self.overlay.entitled(job.path, asks):
            return True
        return self.placer.capacity.free_gpu_milli() - want >= self.headroom_milli
