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
    """Price of stopping these pods of a job: lost work and a restart, less a credit for size.

    The credit prefers one larger victim to many small ones; it counts the devices on the node where
    the victim has most, so that a whole gang isn't stopped for what something smaller serves.
    """
    devices = devices_of(pods)
    since = job.started_s if job.saved_s is None else job.saved_s
    lost = devices * max(0.0, now_s - (since if since is not None else now_s))
    restart = policy.restart if job.spec.restart_s is None else job.spec.restart_s
    if devices <= 0:
        return lost + restart
    if len(pods) == 1:
        most = devices
    else:
        on_node: dict[int, list[Pod]] = {}
        for pod in pods:
            on_node.setdefault(pod.node, []).append(pod)
        most = max(devices_of(some) for some in on_node.values())
    return lost + restart - policy.size_credit * log(max(1.0, min(devices, most)))
