"""What all takes of one cycle share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from weir.engine.books import Books
from weir.engine.disruptions import Disruptions
from weir.engine.domains import Level
from weir.engine.place import Placer, Spot
from weir.model.policy import Affinity, Policy
from weir.state.jobs import Job, Pod, devices_of_charge
from weir.state.ledger import Amounts
from weir.state.reduce import holding
from weir.state.shapes import GPU_ROW
from weir.state.state import Cluster


@dataclass(slots=True)
class Bench:
    """The cluster, the books and the room after releases.

    `gone` are pods stopped or moved in this plan; `coming` are workloads that are given room in it or
    have some promised: nobody takes from them before it is theirs, or a stopped gang would keep a pod.
    `headroom_milli` of the devices are to stay free of over-quota work. Without `bounds` no search is spared.
    """

    cluster: Cluster
    policy: Policy
    books: Books
    placer: Placer
    affinity_of: Callable[[Job], tuple[Affinity, ...]]
    levels_of: Callable[[str], list[Level]]
    now_s: float
    disruptions: Disruptions
    headroom_milli: int = 0
    bounds: bool = True
    gone: set[Pod] = field(default_factory=set)
    coming: set[str] = field(default_factory=set)

    def count(self, spots: Sequence[Spot], sign: int) -> None:
        """Count pods in the books as placed there (sign -1: no more)."""
        for pod, node, _ in spots:
            job = pod.job
            self.books.add(job.path, holding(self.cluster, pod.shape, node), not job.preemptible, sign)

    def keeps_headroom(self, job: Job, asks: Amounts) -> bool:
        """Whether pods of a job are in quota, or leave free what is kept for those that are."""
        want = devices_of_charge(job, dict(asks).get(GPU_ROW, 0))
        if not self.headroom_milli or not want or self.books.entitled(job.path, asks):
            return True
        return self.placer.room.free_gpu_milli() - want >= self.headroom_milli
