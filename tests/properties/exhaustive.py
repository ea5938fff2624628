"""Small questions answered by trying everything: does it fit, and at what least price?"""

from collections.abc import Sequence
from itertools import combinations

from weir.engine.placement.feasibility import refused_by
from weir.model.nodes import Node
from weir.model.queues import Queue
from weir.model.workloads import WHOLE_MILLI, Request
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Phase

from .invariants import charges, everyone, held


class Floor:
    """Free capacity of one node, device by device."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.free = dict(node.capacity)
        self.share = [0 if device in node.foreign_devices else WHOLE_MILLI for device in range(node.gpus)]
        self.memory = [
            0 if device in node.foreign_devices else node.gpu_memory for device in range(node.gpus)
        ]

    def take(self, request: Request, devices: Sequence[int], sign: int = 1) -> None:
        """A pod is there (sign -1: no more)."""
        wanted = {"cpu": request.cpu_milli, "memory": request.memory, "pods": 1, **dict(request.further)}
        for name, amount in wanted.items():
            self.free[name] = self.free.get(name, 0) - sign * amount
        for device in devices:
            self.share[device] -= sign * request.share_on(self.node.gpu_memory)
            self.memory[device] -= sign * request.memory_on(self.node.gpu_memory)

    def choices(self, request: Request) -> list[tuple[int, ...]]:
        """The devices a pod could take, one choice of each kind; none if it has too little capacity."""
        wanted = {"cpu": request.cpu_milli, "memory": request.memory, "pods": 1, **dict(request.further)}
        if any(self.free.get(name, 0) < amount for name, amount in wanted.items() if amount):
            return []
        milli, memory = request.share_on(self.node.gpu_memory), request.memory_on(self.node.gpu_memory)
        if request.is_whole and not request.gpu_memory:
            milli = WHOLE_MILLI
        open_ = [
            device
            for device, left in enumerate(self.share)
            if left >= milli and self.memory[device] >= memory and request.devices
        ]
        seen, choices = set(), []
        for devices in combinations(open_, request.devices):
            kind = tuple(sorted((self.share[device], self.memory[device]) for device in devices))
            if kind not in seen:
                seen.add(kind)
                choices.append(devices)
        return choices


def floors(cluster: Cluster, without: Sequence[Job] = ()) -> dict[int, Floor]:
    """Return the free capacity of every node, without nominations, if these jobs were gone."""
    by_node = {index: Floor(node) for index, node in enumerate(cluster.nodes) if node is not None}
    for pod in everyone(cluster):
        if pod.nomination is not None:
            by_node[pod.nomination[0]].take(pod.shape.request, pod.nomination[1])
        if pod.phase in (Phase.RUNNING, Phase.STOPPING) and pod.job not in without:
            by_node[pod.node].take(pod.shape.request, pod.devices)
    return by_node


def fits(cluster: Cluster, wanted: Sequence[Request], free: dict[int, Floor]) -> bool:
    """Return True if all these pods fit at once, by trying every arrangement."""
    if not wanted:
        return True
    request = wanted[0]
    tried = set()
    for floor in free.values():
        kind = (
            tuple(sorted(floor.free.items())),
            tuple(floor.share),
            tuple(floor.memory),
            *_sorts(floor.node),
        )
        if kind in tried or refused_by(floor.node, request, ()) is not None:
            continue
        tried.add(kind)
        for devices in floor.choices(request):
            floor.take(request, devices)
            done = fits(cluster, wanted[1:], free)
            floor.take(request, devices, -1)
            if done:
                return True
    return False


def _sorts(node: Node) -> tuple[object, ...]:
    return node.own_gpus, node.gpu_model, node.gpu_memory, tuple(sorted(node.labels.items()))[1:]


def next_steps(job: Job) -> list[list[Request]]:
    """Return the next steps of a pending job: the rest of its gang, or one more elastic pod of any group."""
    groups, needed = job.spec.groups, job.spec.needed()
    missing = [max(0, need - have) for need, have in zip(needed, job.placed, strict=True)]
    if not any(missing):
        return [[group.request] for index, group in enumerate(groups) if job.placed[index] < group.count]
    return [[groups[index].request for index, lack in enumerate(missing) for _ in range(lack)]]


def passes_gates(cluster: Cluster, job: Job, wanted: Sequence[Request], without: Sequence[Job] = ()) -> bool:
    """Return True if a job with these pods stays under every limit and, if it must, in every quota."""
    return not over_limit(cluster, job, wanted, without) and not over_quota(cluster, job, wanted, without)


def over_limit(cluster: Cluster, job: Job, wanted: Sequence[Request], without: Sequence[Job] = ()) -> bool:
    """Return True if a queue above a job would exceed its limit with these pods."""
    amounts = held(cluster, fixed=False, without=without)
    return any(
        want and amounts[name, resource] + want > most
        for name, limit in ((queue.name, queue.limit) for queue in _path(cluster, job))
        for resource, most in limit.items()
        for want in (amount_wanted(cluster, wanted, resource),)
    )


def over_quota(cluster: Cluster, job: Job, wanted: Sequence[Request], without: Sequence[Job] = ()) -> bool:
    """Return True if non-preemptible work of a queue above a job would exceed its quota with these pods."""
    amounts = held(cluster, fixed=True, without=without)
    return not job.spec.preemptible and any(
        want and amounts[name, resource] + want > most
        for name, quota in ((queue.name, queue.quota) for queue in _path(cluster, job))
        for resource, most in quota.items()
        for want in (amount_wanted(cluster, wanted, resource),)
    )


def _path(cluster: Cluster, job: Job) -> list[Queue]:
    return [cluster.ledger.queues[index] for index in job.path]


def amount_wanted(cluster: Cluster, wanted: Sequence[Request], resource: str) -> int:
    """Return the amount of a resource that these pods count with."""
    memories = [node.gpu_memory for node in cluster.nodes if node is not None and node.gpus]
    return sum(_amount(request, resource, min(memories, default=0)) for request in wanted)


def in_quota(cluster: Cluster, job: Job, wanted: Sequence[Request]) -> bool:
    """Return True if every queue above a job stays within its quota with these pods."""
    amounts = held(cluster, fixed=False)
    return all(
        amounts[queue.name, name] + amount_wanted(cluster, wanted, name) <= most
        for queue in _path(cluster, job)
        for name, most in queue.quota.items()
    )


def _amount(request: Request, name: str, device_memory: int) -> int:
    amounts = charges(request)
    if name == "gpu":
        return request.devices * request.share_on(device_memory) * request.gpu_weight_milli // WHOLE_MILLI
    if name.startswith("gpu."):
        return request.devices * request.gpu_weight_milli if request.gpu_models == (name[4:],) else 0
    return amounts.get(name, 0)
