"""Pods: assigned to a node, terminating, stopped."""

from weir.state import events
from weir.state.cluster import Cluster
from weir.state.jobs import Phase, Pod
from weir.state.reducers import budgets
from weir.state.reducers.accounting import allocate, charge, pod_of, set_absent, usage_on
from weir.state.reducers.column_growth import grow_for
from weir.state.reducers.nominations import release_nomination
from weir.state.reducers.pending_index import set_running, update_status


def assigned(cluster: Cluster, event: events.PodAssigned) -> None:
    """Allocate a pod's placement."""
    pod, node = pod_of(cluster, event.place.pod), cluster.node_at.get(event.place.node)
    if pod is None or node is None or pod.phase in (Phase.RUNNING, Phase.STOPPING):
        return
    job = pod.job
    grow_for(cluster, event.place.devices)
    if pod.nomination is not None:
        release_nomination(cluster, pod)
    if pod.phase is Phase.ABSENT:  # the pod was reported absent before, but exists
        group = (other for members in job.pods for other in members)
        set_absent(cluster, job, {other for other in group if other.phase is Phase.ABSENT} - {pod})
    charge(cluster, pod, -1)
    job.pending[pod.group] -= 1
    job.placed[pod.group] += 1
    pod.phase, pod.node, pod.devices = Phase.RUNNING, node, event.place.devices
    job.forget_running()
    pod.amounts = usage_on(cluster, pod.shape, node)
    charge(cluster, pod, 1)
    allocate(cluster, pod, node, pod.devices)
    cluster.pods_on[node][pod] = None
    cluster.changed(node)
    if job.started_s is None:
        job.started_s = job.since_s = event.at_s
        job.saved_s = None
        job.stopped_for.clear()
        set_running(cluster, job, True)
    cluster.running_pods.add(pod, job.since_s)
    update_status(cluster, job, event.at_s)


def stopping(cluster: Cluster, event: events.PodStopping) -> None:
    """Mark a pod as stopping: its capacity will be free."""
    pod = pod_of(cluster, event.pod)
    if pod is None or pod.phase is not Phase.RUNNING:
        return
    job = pod.job
    charge(cluster, pod, -1)
    pod.phase = Phase.STOPPING
    job.forget_running()
    job.placed[pod.group] -= 1
    job.stopping += 1
    cluster.running_pods.remove(pod)
    if event.cause is not None:
        budgets.use(pod)
        if event.cause.by is not None:
            job.stopped_for[event.cause.by] = event.at_s
    charge(cluster, pod, 1)
    cluster.releasing.hold(pod.node, pod.shape, pod.devices, cluster.device_memory[pod.node], -1)
    cluster.releasing_on[pod.node] = cluster.releasing_on.get(pod.node, 0) + 1
    cluster.changed(pod.node)
    update_status(cluster, job, event.at_s)


def stopped(cluster: Cluster, event: events.PodStopped) -> None:
    """Release a stopped pod; it is pending again."""
    pod = pod_of(cluster, event.pod)
    if pod is None or pod.phase not in (Phase.RUNNING, Phase.STOPPING):
        return
    job = pod.job
    release(cluster, pod, event.at_s)
    if event.kept_s is not None:
        job.ran_s = event.kept_s
    update_status(cluster, job, event.at_s)


def release(cluster: Cluster, pod: Pod, at_s: float) -> None:
    """Release the allocation of a running or terminating pod."""
    job, node = pod.job, pod.node
    charge(cluster, pod, -1)
    allocate(cluster, pod, node, pod.devices, -1)
    if pod.phase is Phase.STOPPING:
        cluster.releasing.hold(node, pod.shape, pod.devices, cluster.device_memory[node], 1)
        cluster.releasing_on[node] -= 1
        if not cluster.releasing_on[node]:
            del cluster.releasing_on[node]
        job.stopping -= 1
    else:
        job.placed[pod.group] -= 1
        cluster.running_pods.remove(pod)
    del cluster.pods_on[node][pod]
    if cluster.refused:
        cluster.refused.pop(pod, None)
    cluster.changed(node)
    pod.node, pod.devices = -1, ()
    job.forget_running()
    if pod.nomination is None:
        pod.phase, pod.amounts = Phase.PENDING, ()
        job.pending[pod.group] += 1
    else:
        pod.phase = Phase.NOMINATED
    charge(cluster, pod, 1)
    if not job.holds_capacity():
        job.started_s = job.saved_s = None
        job.waits_since_s = at_s
        set_running(cluster, job, False)
