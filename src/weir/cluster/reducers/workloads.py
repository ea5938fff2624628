"""Workloads: submitted, held, saved, over."""

from weir.cluster import events
from weir.cluster.jobs import Job, Phase
from weir.cluster.reducers.counting import asked, count
from weir.cluster.reducers.nodes import grow
from weir.cluster.reducers.pods import free
from weir.cluster.reducers.promises import drop_promise
from weir.cluster.reducers.standing import leave_class, rank
from weir.cluster.runtimes import likenesses
from weir.cluster.shapes import GPU_ROW
from weir.cluster.state import Cluster


def submitted(cluster: Cluster, event: events.WorkloadSubmitted) -> None:
    """A workload waits."""
    spec = event.workload
    if spec.name in cluster.jobs:
        return
    shapes = tuple(cluster.shapes.of(group.request) for group in spec.groups)
    grow(cluster, nodes=0, devices=1)
    asks = tuple(asked(cluster, shape) for shape in shapes)
    devices_milli = sum(
        dict(ask).get(GPU_ROW, 0) * need for ask, need in zip(asks, spec.needed(), strict=True)
    )
    path = cluster.ledger.path[cluster.ledger.position[spec.project]]
    job = Job(spec, shapes, asks, path, likenesses(spec, devices_milli), devices_milli)
    job.ran_s = event.ran_s
    cluster.ledger.add_sharing(path, job.sharing)
    cluster.jobs[spec.name] = job
    if any(shape.gpu_memory for shape in shapes):
        cluster.by_memory[spec.name] = job
    for group, shape in enumerate(shapes):
        cluster.ledger.add_asked(path, asks[group], spec.groups[group].count)
        cluster.mix.asked(shape, spec.groups[group].count, cluster.room)
    rank(cluster, job)


def ended(cluster: Cluster, event: events.WorkloadEnded) -> None:
    """A workload is over and holds nothing."""
    job = cluster.jobs.get(event.workload)
    if job is None:
        return
    drop_promise(cluster, job)
    for group in job.pods:
        for pod in group:
            if pod.phase in (Phase.RUNNING, Phase.STOPPING):
                free(cluster, pod, event.at_s)
    if not job.held:
        for group_at, pending in enumerate(job.pending):
            cluster.ledger.add_asked(job.path, job.asks[group_at], -pending)
    cluster.ledger.add_sharing(job.path, -job.sharing)
    leave_class(cluster, job)
    cluster.incomplete.pop(event.workload, None)
    del cluster.jobs[event.workload]
    cluster.by_memory.pop(event.workload, None)
    cluster.usage.holds(job.spec.project, cluster.ledger.allocated[job.project][GPU_ROW], event.at_s)
    if event.how is events.End.SUCCEEDED and event.ran_s > 0:
        cluster.runtimes.ended(job.likenesses, event.ran_s)


def held(cluster: Cluster, event: events.WorkloadHeld) -> None:
    """A workload may (not) be started."""
    job = cluster.jobs.get(event.workload)
    if job is None:
        return
    if job.held == event.held:
        job.held_why, job.held_until_s = event.reason, event.until_s
        return
    pods = [pod for group in job.pods for pod in group]
    for pod in pods:
        count(cluster, pod, -1)
    job.held, job.held_why, job.held_until_s = event.held, event.reason, event.until_s
    for pod in pods:
        count(cluster, pod, 1)
    rank(cluster, job)


def checkpointed(cluster: Cluster, event: events.Checkpointed) -> None:
    """A workload saved its state: what it would lose counts from then."""
    job = cluster.jobs.get(event.workload)
    if job is not None and job.started_s is not None and event.at_s >= job.started_s:
        job.saved_s = job.since_s = max(event.at_s, job.since_s)
        cluster.running_pods.saved(job.running_pods(), job.saved_s)
        if cluster.saved and cluster.saved[-1].saved_s != job.saved_s:
            cluster.saved.clear()
        cluster.saved.append(job)


def noted(_cluster: Cluster, _event: events.Noted) -> None:
    """It is for people."""
