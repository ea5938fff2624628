"""Room kept for pods until they run there or it is anyone's again."""

from weir.state import events
from weir.state.jobs import Job, Phase, Pod
from weir.state.reducers.counting import count, hold, pod_of
from weir.state.reducers.growing import grow_for
from weir.state.reducers.standing import settle
from weir.state.state import Cluster


def promised(cluster: Cluster, event: events.Promised) -> None:
    """Room is kept for pods of a workload."""
    job = cluster.jobs.get(event.workload)
    if job is None:
        return
    for place in event.places:
        pod, at = pod_of(cluster, place.pod), cluster.node_at.get(place.node)
        if pod is None or at is None or pod.promise is not None or pod.phase is Phase.RUNNING:
            continue
        grow_for(cluster, place.devices)
        count(cluster, pod, -1)
        if pod.phase is Phase.PENDING:
            pod.phase = Phase.PROMISED
            job.pending[pod.group] -= 1
        pod.promise = (at, place.devices)
        job.placed[pod.group] += 1
        count(cluster, pod, 1)
        hold(cluster, pod, at, place.devices)
        cluster.changed(at)
        cluster.promised[job.name] = job
        cluster.withdrawn.pop(job.name, None)
    job.promised_by = event.freed_by
    settle(cluster, job, event.at_s)


def promise_dropped(cluster: Cluster, event: events.PromiseDropped) -> None:
    """What was promised to a workload is anyone's."""
    job = cluster.jobs.get(event.workload)
    if job is not None:
        drop_promise(cluster, job)
        settle(cluster, job, cluster.now_s)


def promised_on(cluster: Cluster, at: int) -> list[Pod]:
    """The pods that have room promised on a node."""
    return [
        pod
        for job in cluster.promised.values()
        for group in job.pods
        for pod in group
        if pod.promise is not None and pod.promise[0] == at
    ]


def drop_promise(cluster: Cluster, job: Job) -> None:
    """Take back all that is promised to a job."""
    if job.name not in cluster.promised:
        return
    for group in job.pods:
        for pod in group:
            if pod.promise is not None:
                unpromise(cluster, pod)


def unpromise(cluster: Cluster, pod: Pod) -> None:
    """Take the promise back: the pod is pending, or just being stopped, as it was without."""
    assert pod.promise is not None
    job, (at, devices) = pod.job, pod.promise
    count(cluster, pod, -1)
    hold(cluster, pod, at, devices, -1)
    cluster.changed(at)
    pod.promise = None
    job.placed[pod.group] -= 1
    if pod.phase is Phase.PROMISED:
        pod.phase, pod.amounts = Phase.PENDING, ()
        job.pending[pod.group] += 1
    count(cluster, pod, 1)
    if not any(pod.promise is not None for group in job.pods for pod in group):
        cluster.promised.pop(job.name, None)
        job.promised_by = ()
