"""Price of stopping a pod or a workload, in device seconds."""

from collections.abc import Iterable, Sequence
from math import log

from weir.model.policy import PricePolicy
from weir.model.workloads import WHOLE_MILLI
from weir.state.jobs import Job, Pod


def devices_of(pods: Sequence[Pod]) -> float:
    """Return the devices of these pods, a share as that share."""
    return sum([pod.gpu_milli() for pod in pods]) / WHOLE_MILLI


def lost_work(job: Job, devices: float, policy: PricePolicy, now_s: float) -> float:
    """Return the work on these devices since a job's last checkpoint, and its restart, in device seconds."""
    return devices * max(0.0, now_s - job.since_s) + restart_cost(job, policy)


def restart_cost(job: Job, policy: PricePolicy) -> float:
    """Return the device seconds of a restart: the workload's own value, or else the policy's."""
    return policy.restart if job.restart_s is None else job.restart_s


def price(job: Job, pods: Sequence[Pod], policy: PricePolicy, now_s: float, needed: float) -> float:
    """Return the price of stopping these pods: lost work and a restart, less a credit for size.

    The credit prefers one larger victim to many small ones: the rest of its capacity saves later evictions.
    It counts the devices on the node where the victim has most; of a gang at most the `needed` devices, or a
    gang would be stopped for a single pod.
    """
    is_all = len(pods) == len(job.running_pods())
    devices, most = job.devices_held() if is_all else _held(pods)
    credited = most if len(pods) == 1 else min(most, needed)
    credit = policy.size_credit * log(credited) if credited > 1.0 else 0.0
    return lost_work(job, devices, policy, now_s) - credit


def cheap_to_move(jobs: Iterable[Job], most: float, policy: PricePolicy, now_s: float) -> list[Job]:
    """Return the jobs whose move costs at most `most`: lost work and a restart.

    Size earns no credit here, for nothing is freed by a move.
    """
    return [job for job in jobs if lost_work(job, job.devices_held()[0], policy, now_s) <= most]


def price_of_move(job: Job, pods: Sequence[Pod], policy: PricePolicy, now_s: float) -> float:
    """Return the price of moving these pods; a broken gang restarts completely."""
    is_all = len(pods) == len(job.running_pods())  # the usual case: all running pods move
    devices = job.devices_held()[0] if is_all or _breaks(job, pods) else devices_of(pods)
    return lost_work(job, devices, policy, now_s)


def _breaks(job: Job, pods: Sequence[Pod]) -> bool:
    """Return True if the gang is incomplete without these pods."""
    left = list(job.placed)
    for pod in pods:
        left[pod.group] -= 1
    return any(have < need for have, need in zip(left, job.needed, strict=True))


def _held(pods: Sequence[Pod]) -> tuple[float, float]:
    """Return the devices of these pods, and the maximum on one node."""
    if len(pods) == 1:
        devices = devices_of(pods)
        return devices, devices
    on_node: dict[int, list[Pod]] = {}
    for pod in pods:
        on_node.setdefault(pod.node, []).append(pod)
    return devices_of(pods), max((devices_of(some) for some in on_node.values()), default=0.0)
