"""Nominations: capacity reserved for pods until they run or it is released."""

from weir.state import events
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Phase, Pod
from weir.state.reducers.accounting import allocate, charge, pod_of
from weir.state.reducers.column_growth import grow_for
from weir.state.reducers.pending_index import update_status


def nominated(cluster: Cluster, event: events.Nominated) -> None:
    """Reserve capacity for pods of a workload."""
    job = cluster.jobs.get(event.workload)
    if job is None:
        return
    for place in event.places:
        pod, node = pod_of(cluster, place.pod), cluster.node_at.get(place.node)
        if pod is None or node is None or pod.nomination is not None or pod.phase is Phase.RUNNING:
            continue
        grow_for(cluster, place.devices)
        charge(cluster, pod, -1)
        if pod.phase is Phase.PENDING:
            pod.phase = Phase.NOMINATED
            job.pending[pod.group] -= 1
        pod.nomination = (node, place.devices)
        job.placed[pod.group] += 1
        charge(cluster, pod, 1)
        allocate(cluster, pod, node, place.devices)
        cluster.changed(node)
        cluster.nominated[job.name] = job
        cluster.withdrawn.pop(job.name, None)
    job.nomination_freed_by = event.freed_by
    update_status(cluster, job, event.at_s)


def nomination_released(cluster: Cluster, event: events.NominationReleased) -> None:
    """Release the nomination of a workload."""
    job = cluster.jobs.get(event.workload)
    if job is not None:
        release_nominations(cluster, job)
        update_status(cluster, job, cluster.now_s)


def nomination_blocked(cluster: Cluster, event: events.NominationBlocked) -> None:
    """Record since when the nominated capacity of a workload can't become free."""
    job = cluster.nominated.get(event.workload)
    if job is not None:
        job.blocked_since_s = event.since_s


def nominated_on(cluster: Cluster, node: int) -> list[Pod]:
    """Return the pods nominated on a node."""
    return [
        pod
        for job in cluster.nominated.values()
        for group in job.pods
        for pod in group
        if pod.nomination is not None and pod.nomination[0] == node
    ]


def release_nominations(cluster: Cluster, job: Job) -> None:
    """Release all nominations of a job."""
    if job.name not in cluster.nominated:
        return
    for group in job.pods:
        for pod in group:
            if pod.nomination is not None:
                release_nomination(cluster, pod)


def release_nomination(cluster: Cluster, pod: Pod) -> None:
    """Release a nomination: the pod is pending, or terminating, as before."""
    assert pod.nomination is not None
    job, (node, devices) = pod.job, pod.nomination
    charge(cluster, pod, -1)
    allocate(cluster, pod, node, devices, -1)
    cluster.changed(node)
    pod.nomination = None
    job.placed[pod.group] -= 1
    if pod.phase is Phase.NOMINATED:
        pod.phase, pod.amounts = Phase.PENDING, ()
        job.pending[pod.group] += 1
    charge(cluster, pod, 1)
    if not any(pod.nomination is not None for group in job.pods for pod in group):
        cluster.nominated.pop(job.name, None)
        job.nomination_freed_by, job.blocked_since_s = (), None
