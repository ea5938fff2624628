"""Nodes on which more devices are in use than they have, and the pods to stop there.

Weir never places more than fits. But a pod may bind itself, another scheduler may use the devices under a
share, and a device plugin may take devices back. Preemptible work is stopped, first that of queues over their
quota. Work that isn't preemptible stays, and the node stays over-committed.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from weir.engine.plan import Eviction, key_of
from weir.model.reasons import EvictionCause, EvictionRule
from weir.model.resources import GPU, written
from weir.model.workloads import WHOLE_MILLI
from weir.state.cluster import Cluster
from weir.state.events import PodKey
from weir.state.jobs import Job, Phase, Pod
from weir.state.shapes import GPU_ROW

GRACE_S: Final = 300.0
"""Grace period: a device plugin that restarts withdraws all devices of its node for some minutes."""
_NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Keys of the taints of nodes on which nothing can be stopped now."""


@dataclass(frozen=True, slots=True)
class DeviceHolding:
    """Devices that one pod holds on a node: `devices` are their indices, as far as they are known."""

    devices: tuple[int, ...]
    count: int
    share_milli: int  # of each device; 1000 is a whole one


@dataclass(frozen=True, slots=True)
class NodeDeviceUsage:
    """Usage of a node's devices."""

    gpus: int
    own_milli: int  # thousandths of devices of Weir's own workloads
    others: int  # devices of other schedulers' pods
    needed_milli: int  # demand of all pods; above the node's devices it is over-committed

    @property
    def excess_milli(self) -> int:
        """Return the thousandths of devices in use beyond those of the node."""
        return max(0, self.needed_milli - self.gpus * WHOLE_MILLI)


@dataclass(frozen=True, slots=True)
class OvercommittedNode:
    """A node with more devices in use than it has, and since when."""

    node: str
    use: NodeDeviceUsage
    since_s: float

    @property
    def sentence(self) -> str:
        """Return the problem as a sentence for people."""
        use = self.use
        return (
            f"{written(GPU, use.needed_milli)} of {use.gpus} GPUs of node {self.node} are in use: "
            f"{written(GPU, use.own_milli)} by Weir's workloads, {use.others} by pods of other schedulers"
        )


@dataclass(slots=True)
class OvercommitRelief:
    """Pods to evict, nodes that stay over-committed without a remedy, and the time of the next check."""

    evictions: list[Eviction] = field(default_factory=list)
    stuck: set[str] = field(default_factory=set)
    wake_s: float | None = None


def node_device_usage(gpus: int, others: int, holdings: Iterable[DeviceHolding]) -> NodeDeviceUsage:
    """Count the devices in use; the count may exceed the node's devices.

    Whole devices count by their number, because a device plugin chooses them. Shares are on the devices that
    Weir chose. A device with more than 1000 thousandths in use counts as more than one.
    """
    whole, own_milli = others, 0
    shared: Counter[int] = Counter()
    for holding in holdings:
        own_milli += holding.count * holding.share_milli
        if holding.share_milli >= WHOLE_MILLI:
            whole += holding.count
            continue
        for device in holding.devices:
            shared[device] += holding.share_milli
        shared[-1] += (holding.count - len(holding.devices)) * holding.share_milli  # pods on unknown devices
    needed = whole * WHOLE_MILLI + sum(max(WHOLE_MILLI, milli) for milli in shared.values() if milli)
    return NodeDeviceUsage(gpus, own_milli, others, needed)


def relieve(
    cluster: Cluster,
    nodes: Iterable[OvercommittedNode],
    evicted: Collection[PodKey],
    now_s: float,
    grace_s: float,
) -> OvercommitRelief:
    """Choose pods to stop on nodes that have been over-committed for longer than the grace period.

    `evicted` are pods that the plan of the same moment stops already.
    """
    relief = OvercommitRelief()
    gone, freed = set(evicted), Counter[int]()
    for over in sorted(nodes, key=lambda over: over.node):
        if now_s < over.since_s + grace_s:
            due_s = over.since_s + grace_s
            relief.wake_s = due_s if relief.wake_s is None else min(relief.wake_s, due_s)
            continue
        index = cluster.node_at.get(over.node)
        node = None if index is None else cluster.nodes[index]
        if index is None or node is None or any(taint.key in _NOT_READY for taint in node.taints):
            continue
        pods = [pod for pod in cluster.pods_on[index] if _stays(pod, gone)]
        use = _use_of(over, pods, node.gpu_memory)
        if not use.excess_milli:
            continue
        victims = _victims(cluster, over, pods, node.gpu_memory, freed)
        needed = over.use.needed_milli / WHOLE_MILLI
        numbers = {"node": over.node, "gpus": over.use.gpus, "needed": needed, "others": over.use.others}
        cause = EvictionCause(EvictionRule.OVERCOMMITTED, None, f"{over.sentence}.", numbers)
        for pod in (pod for job, on_node in victims for pod in stopped_with(job, on_node, gone)):
            key = key_of(pod)
            gone.add(key)
            relief.evictions.append(Eviction(key, cause))
            _free([pod], freed)
        left = [pod for pod in pods if _stays(pod, gone)]
        if _use_of(over, left, node.gpu_memory).excess_milli:
            relief.stuck.add(over.node)
    return relief


def _stays(pod: Pod, gone: Collection[PodKey]) -> bool:
    key = key_of(pod)
    return pod.phase is Phase.RUNNING and pod.shape.devices > 0 and key not in gone


def _use_of(over: OvercommittedNode, pods: Iterable[Pod], device_memory: int) -> NodeDeviceUsage:
    holdings = (
        DeviceHolding(pod.devices, pod.shape.devices, min(WHOLE_MILLI, pod.shape.share_on(device_memory)))
        for pod in pods
    )
    return node_device_usage(over.use.gpus, over.use.others, holdings)


def _victims(
    cluster: Cluster, over: OvercommittedNode, pods: Sequence[Pod], device_memory: int, freed: Counter[int]
) -> list[tuple[Job, list[Pod]]]:
    """Return workloads to stop on a node: over quota first, then of low priority, then started last."""
    by_job: dict[Job, list[Pod]] = {}
    for pod in pods:
        if pod.job.preemptible:
            by_job.setdefault(pod.job, []).append(pod)
    chosen: list[Job] = []
    left, freed = list(pods), freed.copy()
    excess = _use_of(over, left, device_memory).excess_milli
    candidates = set(by_job)
    while candidates and excess:
        job = min(
            candidates,
            key=lambda job: (not _over_quota(cluster, job, freed), job.priority, -job.since_s, job.name),
        )
        candidates.remove(job)
        without = [pod for pod in left if pod.job is not job]
        less = _use_of(over, without, device_memory).excess_milli
        if less < excess:
            left, excess = without, less
            chosen.append(job)
            _free(by_job[job], freed)
    for job in list(chosen):  # later victims may make earlier ones unnecessary
        with_job = [*left, *by_job[job]]
        if _use_of(over, with_job, device_memory).excess_milli <= excess:
            left = with_job
            chosen.remove(job)
    return [(job, by_job[job]) for job in chosen]


def _over_quota(cluster: Cluster, job: Job, freed: Counter[int]) -> bool:
    ledger = cluster.ledger
    return any(
        ledger.allocated[queue][GPU_ROW] - freed[queue] > ledger.quota[queue][GPU_ROW] for queue in job.path
    )


def _free(pods: Iterable[Pod], freed: Counter[int]) -> None:
    """Add up the amounts that each queue releases."""
    for pod in pods:
        for queue in pod.job.path:
            freed[queue] += pod.charge_milli()


def stopped_with(job: Job, pods: Sequence[Pod], gone: Collection[PodKey]) -> list[Pod]:
    """Return these pods of a workload; all its pods if its gang would fall below its minimum."""
    running = [pod for pod in job.running_pods() if key_of(pod) not in gone]
    leaving = Counter(pod.group for pod in pods)
    present = Counter(pod.group for pod in running)
    enough = all(present[group] - leaving[group] >= need for group, need in enumerate(job.needed))
    return list(pods) if enough else running
