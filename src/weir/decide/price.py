"""What it costs to stop a pod or a workload, in device seconds."""

from collections.abc import Iterable, Sequence
from math import log

from weir.cluster.jobs import Job, Pod
from weir.cluster.shapes import GPU_ROW
from weir.model.policy import Price
from weir.model.workloads import WHOLE_MILLI


def devices_of(pods: Sequence[Pod]) -> float:
    """Devices these pods hold, a share as that share."""
    return sum(amount for pod in pods for row, amount in pod.amounts if row == GPU_ROW) / WHOLE_MILLI


def price(job: Job, pods: Sequence[Pod], policy: Price, now_s: float, needed: float) -> float:
    """Price of stopping these pods of a job: lost work and a restart, less a credit for size.

    The credit prefers one larger victim to many small ones: what it frees beside what is asked for spares
    the next ones. It counts the devices on the node where the victim has most, of a gang no more than are
    `needed`: it is nobody's reason to stop many pods for one.
    """
    devices, restart, most = _terms(job, pods, policy)
    credited = most if len(pods) == 1 else min(most, needed)
    return _less_credit(devices * max(0.0, now_s - job.since_s) + restart, credited, policy)


def price_of_all(job: Job, policy: Price, now_s: float, needed: float) -> float:
    """Price of stopping a job whose pods all run."""
    devices, restart, most = job.price_terms or _kept(job, policy)
    credited = most if sum(job.placed) == 1 else min(most, needed)
    return _less_credit(devices * max(0.0, now_s - job.since_s) + restart, credited, policy)


def _less_credit(cost: float, devices: float, policy: Price) -> float:
    return cost - policy.size_credit * log(devices) if devices > 1.0 else cost


def cheap_to_move(jobs: Iterable[Job], most: float, policy: Price, now_s: float) -> list[Job]:
    """Those whose move costs no more than `most`: lost work and a restart.

    Size earns no credit here, for nothing is freed by a move.
    """
    found = []
    for job in jobs:
        devices, restart, _ = job.price_terms or _kept(job, policy)
        if devices * (now_s - job.since_s) + restart <= most:
            found.append(job)
    return found


def price_of_move(job: Job, pods: Sequence[Pod], policy: Price, now_s: float) -> float:
    """Price of moving these pods of a job: a gang they leave below its minimum starts again as a whole."""
    devices, restart, _ = (
        job.price_terms or _kept(job, policy) if _breaks(job, pods) else _terms(job, pods, policy)
    )
    return devices * max(0.0, now_s - job.since_s) + restart


def _breaks(job: Job, pods: Sequence[Pod]) -> bool:
    """Whether a job has too few pods without these."""
    left = list(job.placed)
    for pod in pods:
        left[pod.group] -= 1
    return any(have < need for have, need in zip(left, job.needed, strict=True))


def _kept(job: Job, policy: Price) -> tuple[float, float, float]:
    job.price_terms = _terms(job, job.running_pods(), policy)
    return job.price_terms


def _terms(job: Job, pods: Sequence[Pod], policy: Price) -> tuple[float, float, float]:
    """Devices held, the cost of a restart, and the devices on the node where there are most."""
    restart = policy.restart if job.restart_s is None else job.restart_s
    devices = devices_of(pods)
    if len(pods) == 1:
        return devices, restart, devices
    on_node: dict[int, list[Pod]] = {}
    for pod in pods:
        on_node.setdefault(pod.node, []).append(pod)
    return devices, restart, max((devices_of(some) for some in on_node.values()), default=0.0)
