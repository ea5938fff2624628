"""What it costs to stop a pod or a workload, in device seconds."""

from collections.abc import Sequence
from math import log

from weir.cluster.jobs import Job, Pod
from weir.cluster.shapes import GPU_ROW
from weir.model.policy import Price
from weir.model.workloads import WHOLE_MILLI


def devices_of(pods: Sequence[Pod]) -> float:
    """Devices these pods hold, a share as that share."""
    return sum(amount for pod in pods for row, amount in pod.amounts if row == GPU_ROW) / WHOLE_MILLI


def price(job: Job, pods: Sequence[Pod], policy: Price, now_s: float) -> float:
    """Price of stopping these pods of a job: lost work and a restart, less a credit for size."""
    return _priced(job, _terms(job, pods, policy), now_s)


def price_of_all(job: Job, policy: Price, now_s: float) -> float:
    """Price of stopping a job whose pods all run."""
    if job.price_terms is None:
        job.price_terms = _terms(job, job.running_pods(), policy)
    return _priced(job, job.price_terms, now_s)


def _priced(job: Job, terms: tuple[float, float], now_s: float) -> float:
    since_s = job.started_s if job.saved_s is None else job.saved_s
    devices, fixed = terms
    return fixed + devices * max(0.0, now_s - since_s) if since_s is not None else fixed


def _terms(job: Job, pods: Sequence[Pod], policy: Price) -> tuple[float, float]:
    """Devices held, and the part of the price that time doesn't change.

    The credit prefers one larger victim to many small ones; it counts the devices on the node where
    the victim has most, so that a whole gang isn't stopped for what something smaller serves.
    """
    restart = policy.restart if job.spec.restart_s is None else job.spec.restart_s
    devices = devices_of(pods)
    most = devices
    if len(pods) > 1:
        on_node: dict[int, list[Pod]] = {}
        for pod in pods:
            on_node.setdefault(pod.node, []).append(pod)
        most = max(devices_of(some) for some in on_node.values())
    return devices, restart - policy.size_credit * log(max(1.0, most))
