"""Workloads: submitted, changed, suspended, checkpointed, ended."""

from weir.model.workloads import Workload
from weir.state import events
from weir.state.cluster import Cluster
from weir.state.jobs import Job, JobTerms, Phase, Pod, devices_asked
from weir.state.reducers.accounting import allocate, charge, recharged, request_of, set_absent, usage_on
from weir.state.reducers.column_growth import grow
from weir.state.reducers.nominations import release_nomination, release_nominations
from weir.state.reducers.pending_index import dequeue, enqueue, set_running, update_status
from weir.state.reducers.pods import release
from weir.state.runtime_history import runtime_key
from weir.state.shapes import GPU_ROW, RequestShape


def submitted(cluster: Cluster, event: events.WorkloadSubmitted) -> None:
    """Add a pending workload."""
    spec = event.workload
    if spec.name in cluster.jobs:
        return
    terms = _terms(cluster, spec)
    job = Job(spec, terms)
    job.ran_s = event.ran_s
    cluster.ledger.add_sharing(job.path, job.sharing)
    cluster.jobs[spec.name] = job
    _note_protection(cluster, job)
    for shape, request, group in zip(job.shapes, job.requests, spec.groups, strict=True):
        if shape.gpu_memory:
            cluster.by_memory[spec.name] = job
        cluster.ledger.add_asked(job.path, request, group.count)
        cluster.mix.asked(shape.plain or shape, group.count, cluster.free_capacity)
    if event.absent:
        set_absent(cluster, job, _named(job, event.absent))
    enqueue(cluster, job)


def _terms(cluster: Cluster, spec: Workload) -> JobTerms:
    """Return a workload's terms for the engine: shapes, charges, queue path, run-time key, devices."""
    shapes = tuple([cluster.shapes.shape_of(group.request) for group in spec.groups])
    grow(cluster, nodes=0, devices=1)
    requests = tuple([request_of(cluster, shape) for shape in shapes])
    gangs = zip(devices_asked(shapes, requests), spec.needed(), strict=True)
    devices_milli = sum([milli * need for milli, need in gangs])
    path = cluster.ledger.path[cluster.ledger.position[spec.project]]
    return JobTerms(shapes, requests, path, runtime_key(spec, devices_milli), devices_milli)


def _note_protection(cluster: Cluster, job: Job) -> None:
    """Update the index of workloads that have lost their protection."""
    if job.spec.unprotected:
        cluster.unprotected[job.name] = job
    else:
        cluster.unprotected.pop(job.name, None)


def _named(job: Job, keys: frozenset[events.PodKey]) -> set[Pod]:
    return {
        pod for group in job.pods for pod in group if events.PodKey(job.name, pod.group, pod.index) in keys
    }


def changed(cluster: Cluster, event: events.WorkloadChanged) -> None:
    """Replace a workload whose request or pods changed: remove the old one and add the new one."""
    spec, at_s = event.workload, event.at_s
    job = cluster.jobs.get(spec.name)
    if job is None:
        return
    before = job.spec
    terms = _terms(cluster, spec)
    _leave_places(cluster, job, spec, terms.shapes, event)
    out_of = job.project
    _take_out(cluster, job)
    cluster.usage.holds(before.project, cluster.ledger.allocated[out_of][GPU_ROW], at_s)
    for group_index, shape in enumerate(terms.shapes):
        had = (
            before.groups[group_index].count
            if group_index < len(job.shapes) and job.shapes[group_index] is shape
            else 0
        )
        if spec.groups[group_index].count > had:
            cluster.mix.asked(
                shape.plain or shape, spec.groups[group_index].count - had, cluster.free_capacity
            )
    job.take_on(spec, terms)
    _note_protection(cluster, job)
    _put_in(cluster, job)
    set_absent(cluster, job, _named(job, event.absent))
    if job.started_s is None and job.is_below():
        release_nominations(cluster, job)  # the nominations no longer complete the gang
    update_status(cluster, job, at_s)


def _leave_places(
    cluster: Cluster,
    job: Job,
    spec: Workload,
    shapes: tuple[RequestShape, ...],
    event: events.WorkloadChanged,
) -> None:
    """Release the devices of pods that are absent, or no longer part of the workload."""
    absent = _named(job, event.absent)
    counts = [group.count for group in spec.groups] + [0] * len(job.pods)
    if any(one is not other for one, other in zip(job.shapes, shapes, strict=False)):
        release_nominations(cluster, job)
    for pod in [pod for group in job.pods for pod in group]:
        gone = pod.index >= counts[pod.group]
        if gone and pod.nomination is not None:
            release_nomination(cluster, pod)
        if (gone or pod in absent) and pod.phase in (Phase.RUNNING, Phase.STOPPING):
            release(cluster, pod, event.at_s)


def _take_out(cluster: Cluster, job: Job) -> None:
    """Remove a job and its pods' usage from the counts."""
    dequeue(cluster, job)
    _hold_all(cluster, job, -1)
    for pod in job.running_pods():
        cluster.running_pods.remove(pod)
    cluster.ledger.add_sharing(job.path, -job.sharing)
    if job.started_s is not None:
        set_running(cluster, job, False)
    cluster.by_memory.pop(job.name, None)


def _put_in(cluster: Cluster, job: Job) -> None:
    """Add a job and its pods' usage to the counts, on their nodes."""
    job.forget_running()
    for pod in job.running_pods():
        pod.amounts = usage_on(cluster, pod.shape, pod.node)
        cluster.running_pods.add(pod, job.since_s)
    _hold_all(cluster, job, 1)
    cluster.ledger.add_sharing(job.path, job.sharing)
    if job.started_s is not None:
        set_running(cluster, job, True)
    if any(shape.gpu_memory for shape in job.shapes):
        cluster.by_memory[job.name] = job


def _hold_all(cluster: Cluster, job: Job, sign: int) -> None:
    for group in job.pods:
        for pod in group:
            charge(cluster, pod, sign)
            places = [] if pod.nomination is None else [pod.nomination]
            if pod.phase in (Phase.RUNNING, Phase.STOPPING):
                places.append((pod.node, pod.devices))
            for node, devices in places:
                allocate(cluster, pod, node, devices, sign)
                cluster.changed(node)
            if pod.phase is Phase.STOPPING:
                memory = cluster.device_memory[pod.node]
                cluster.releasing.hold(pod.node, pod.shape, pod.devices, memory, -sign)


def ended(cluster: Cluster, event: events.WorkloadEnded) -> None:
    """Remove a workload that has ended."""
    job = cluster.jobs.get(event.workload)
    if job is None:
        return
    release_nominations(cluster, job)
    for group in job.pods:
        for pod in group:
            if pod.phase in (Phase.RUNNING, Phase.STOPPING):
                release(cluster, pod, event.at_s)
    if job.asks_now:
        for group_at, pending in enumerate(job.pending):
            cluster.ledger.add_asked(job.path, job.requests[group_at], -pending)
    cluster.ledger.add_sharing(job.path, -job.sharing)
    dequeue(cluster, job)
    cluster.incomplete.pop(event.workload, None)
    cluster.withdrawn.pop(event.workload, None)
    del cluster.jobs[event.workload]
    cluster.unprotected.pop(event.workload, None)
    cluster.admission.note(job)
    cluster.by_memory.pop(event.workload, None)
    cluster.usage.holds(job.spec.project, cluster.ledger.allocated[job.project][GPU_ROW], event.at_s)
    if event.how is events.WorkloadOutcome.SUCCEEDED and event.ran_s > 0:
        cluster.runtimes.ended(job.like, event.ran_s)
    job.forget_running()
    for group in job.pods:
        group.clear()  # breaks the reference cycle of pods and job, so that both are freed at once


def suspended(cluster: Cluster, event: events.WorkloadSuspended) -> None:
    """Suspend or resume a workload."""
    job = cluster.jobs.get(event.workload)
    if job is None:
        return
    if job.held == event.suspended:
        job.held_why, job.held_until_s, job.held_code = event.reason, event.until_s, event.code
        return
    with recharged(cluster, job):
        job.held, job.held_code = event.suspended, event.code
        job.held_why, job.held_until_s = event.reason, event.until_s
    enqueue(cluster, job)


def history_restored(cluster: Cluster, event: events.HistoryRestored) -> None:
    """Set the history of a workload that decisions use."""
    job = cluster.jobs.get(event.workload)
    if job is None:
        return
    if event.waits_since_s is not None:
        job.waits_since_s = event.waits_since_s
    if event.short_since_s is not None and job.below_since_s is not None:
        job.below_since_s = event.short_since_s
    job.stopped_for.update(event.stopped_for)


def checkpointed(cluster: Cluster, event: events.Checkpointed) -> None:
    """Record a checkpoint: unsaved work counts from this time."""
    job = cluster.jobs.get(event.workload)
    if job is not None and job.started_s is not None and event.at_s >= job.started_s:
        job.saved_s = job.since_s = max(event.at_s, job.since_s)
        cluster.running_pods.saved(job, job.saved_s)
        if cluster.saved and cluster.saved[-1].saved_s != job.saved_s:
            cluster.saved.clear()
        cluster.saved.append(job)


def note_added(_cluster: Cluster, _event: events.NoteAdded) -> None:
    """Change nothing: the event is for readers only."""
