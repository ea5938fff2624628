"""Accounting of pods: in the columns of a node and in the quota usage of their queues."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from weir.state import events
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Phase, Pod
from weir.state.quota_usage import Amounts
from weir.state.shapes import GPU_ROW, RequestShape, model_row_name


def usage_on(cluster: Cluster, shape: RequestShape, index: int) -> Amounts:
    """Return the charge of a pod of this shape on a node."""
    if not shape.devices:
        return shape.charges
    milli = shape.charge_on(cluster.device_memory[index])
    node = cluster.nodes[index]
    if node is None or node.gpu_model is None:
        return (*shape.charges, (GPU_ROW, milli))
    return (*shape.charges, (GPU_ROW, milli), (cluster.rows.row_of(model_row_name(node.gpu_model)), milli))


def request_of(cluster: Cluster, shape: RequestShape) -> Amounts:
    """Return the charge of a pending pod: device memory is charged as on the smallest matching device."""
    if not shape.devices:
        return shape.charges
    models = shape.request.gpu_models
    device_memory = _smallest(cluster, models) if shape.gpu_memory else 0
    milli = shape.charge_on(device_memory)
    row = cluster.rows.get(model_row_name(models[0])) if len(models) == 1 else None
    if row is None:
        return (*shape.charges, (GPU_ROW, milli))
    return (*shape.charges, (GPU_ROW, milli), (row, milli))


def _smallest(cluster: Cluster, models: Collection[str]) -> int:
    """Return the memory of the smallest device of these models, or of any model."""
    memories = [
        node.gpu_memory
        for node in cluster.nodes
        if node is not None and node.own_gpus and (not models or node.gpu_model in models)
    ]
    return min(memories, default=0)


def charge(cluster: Cluster, pod: Pod, sign: int) -> None:
    """Charge a pod to quota usage by its phase (sign -1: release it)."""
    job, ledger = pod.job, cluster.ledger
    if pod.nomination is not None:
        amounts = usage_on(cluster, pod.shape, pod.nomination[0])
        ledger.add_allocated(job.path, amounts, not job.preemptible, sign)
    elif pod.phase is Phase.RUNNING:
        ledger.add_allocated(job.path, pod.amounts, not job.preemptible, sign)
    elif pod.phase is not Phase.ABSENT and job.asks_now:
        ledger.add_asked(job.path, job.requests[pod.group], sign)


@contextmanager
def recharged(cluster: Cluster, job: Job) -> Iterator[None]:
    """Release the charges of a job before a change of the job, and charge it again afterwards."""
    pods = [pod for group in job.pods for pod in group]
    for pod in pods:
        charge(cluster, pod, -1)
    yield
    for pod in pods:
        charge(cluster, pod, 1)


def set_absent(cluster: Cluster, job: Job, absent: Collection[Pod]) -> None:
    """Set which of a job's unplaced pods are absent; all others exist."""
    with recharged(cluster, job):
        for pod in [pod for group in job.pods for pod in group]:
            if pod in absent:
                pod.phase = Phase.ABSENT
            elif pod.phase is Phase.ABSENT:
                pod.phase = Phase.PENDING if pod.nomination is None else Phase.NOMINATED
        job.tally()


def allocate(cluster: Cluster, pod: Pod, node: int, devices: tuple[int, ...], pods: int = 1) -> None:
    """Allocate devices of a node to a pod (pods -1: release them)."""
    cluster.free_capacity.hold(node, pod.shape, devices, cluster.device_memory[node], pods)


def pod_of(cluster: Cluster, key: events.PodKey) -> Pod | None:
    """Return the pod with this key; None without one."""
    job = cluster.jobs.get(key.workload)
    if job is None or not (0 <= key.group < len(job.pods) and 0 <= key.index < len(job.pods[key.group])):
        return None
    return job.pods[key.group][key.index]
