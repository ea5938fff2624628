"""Branches of the cluster state: the effects of some events, without a change of the state.

A branch is a cluster of its own. It shares with the state all parts that these events don't change. So it is
made in a few milliseconds, even for a large cluster. Only a new quota tree changes every workload. Its log of
changed nodes begins where it branches. The state must not change while a branch of it is in use.
"""

from collections.abc import Collection, Iterable, Mapping

from weir.model.queues import Queue
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Job, JobTerms, Pod
from weir.state.person_admission import Person


def branch(
    cluster: Cluster, names: Iterable[str] = (), person: Person | None = None, *, with_usage: bool
) -> Cluster:
    """Return a branch of the cluster.

    Args:
        cluster: the state.
        names: the workloads that events on the branch may end; a new quota tree changes all workloads.
        person: the project and user whose workloads may be submitted, one at a time.
        with_usage: whether decisions depend on past usage.
    """
    jobs = _jobs_to_copy(cluster, names, person)
    copies = {job: _copy_of(job) for job in jobs}
    made = Cluster()
    _share(cluster, made)
    _branch_tables(cluster, made, copies, with_usage=with_usage)
    projects = {job.project for job in jobs}
    if person is not None:
        projects.add(cluster.ledger.position[person[0]])
    _branch_jobs(cluster, made, copies, projects)
    _branch_waiting(cluster, made, copies, projects)
    if any(job.holds_capacity() or job.name in cluster.nominated for job in jobs):
        _branch_capacity(cluster, made, copies)
    return made


def replace_quota(cluster: Cluster, queue: Queue) -> None:
    """Replace quota and limit of a queue on a branch."""
    cluster.ledger.replace_amounts(queue, cluster.rows)
    cluster.static_version += 1


def _jobs_to_copy(cluster: Cluster, names: Iterable[str], person: Person | None) -> list[Job]:
    """Return these jobs, and those of the same persons, whose admission depends on them."""
    admission = cluster.admission
    chosen = dict.fromkeys(names)
    if admission.projects:
        persons = {admission.person_of[name] for name in chosen if name in admission.person_of}
        for other in persons if person is None else {person, *persons}:
            chosen.update(dict.fromkeys(admission.names_of(other)))
    return [cluster.jobs[name] for name in chosen]


def _copy_of(job: Job) -> Job:
    copy = Job(job.spec, JobTerms(job.shapes, job.requests, job.path, job.like, job.devices_milli))
    copy.placed, copy.pending, copy.absent = job.placed.copy(), job.pending.copy(), job.absent.copy()
    copy.needed, copy.is_elastic, copy.sharing = job.needed, job.is_elastic, job.sharing
    copy.stopping, copy.waits_since_s, copy.ran_s = job.stopping, job.waits_since_s, job.ran_s
    copy.started_s, copy.saved_s, copy.since_s = job.started_s, job.saved_s, job.since_s
    copy.below_since_s, copy.absent_since_s = job.below_since_s, job.absent_since_s
    copy.held, copy.held_code, copy.held_why = job.held, job.held_code, job.held_why
    copy.held_until_s, copy.withheld = job.held_until_s, job.withheld
    copy.nomination_freed_by, copy.stopped_for = job.nomination_freed_by, job.stopped_for.copy()
    copy.blocked_since_s = job.blocked_since_s
    copy.waiting = job.waiting  # replaced when its class is copied
    for pods, originals in zip(copy.pods, job.pods, strict=True):
        for pod, original in zip(pods, originals, strict=True):
            pod.phase, pod.node, pod.devices = original.phase, original.node, original.devices
            pod.nomination, pod.amounts, pod.row = original.nomination, original.amounts, original.row
            pod.budgets = original.budgets
    return copy


def _share(cluster: Cluster, made: Cluster) -> None:
    """Share with the branch the parts that none of its events changes, and copy counters."""
    made.now_s, made.changes, made.changed_s = cluster.now_s, cluster.changes, cluster.changed_s
    made.static_version, made.log_epoch = cluster.static_version, cluster.log_epoch
    made.classes_made = cluster.classes_made
    made.nodes, made.node_at, made.node_names = cluster.nodes, cluster.node_at, cluster.node_names
    made.capacity, made.device_memory = cluster.capacity, cluster.device_memory
    made.weighted_nodes, made.outage_nodes = cluster.weighted_nodes, cluster.outage_nodes
    made.topologies, made.budgets = cluster.topologies, cluster.budgets
    made.runtimes = cluster.runtimes
    made.free_capacity, made.releasing = cluster.free_capacity, cluster.releasing
    made.releasing_on, made.pods_on = cluster.releasing_on, cluster.pods_on
    made.running_pods = cluster.running_pods


def _branch_tables(cluster: Cluster, made: Cluster, copies: Mapping[Job, Job], *, with_usage: bool) -> None:
    """Copy the tables of the cluster into the branch."""
    made.rows, made.marks = cluster.rows.branch(), cluster.marks.branch()
    made.shapes = cluster.shapes.branch(made.rows, made.marks)
    made.ledger = cluster.ledger.branch(made.rows)
    made.mix = cluster.mix.frozen()
    if with_usage:
        made.usage = cluster.usage.branch()
    made.admission = cluster.admission.branch(copies)


def _branch_jobs(
    cluster: Cluster, made: Cluster, copies: Mapping[Job, Job], projects: Collection[int]
) -> None:
    """Copy the indexes of jobs into the branch, with copied jobs in place of the originals."""
    made.jobs, made.by_memory = cluster.jobs.copy(), cluster.by_memory.copy()
    made.unprotected, made.nominated = cluster.unprotected.copy(), cluster.nominated.copy()
    made.incomplete, made.stopping = cluster.incomplete.copy(), cluster.stopping.copy()
    named = (made.jobs, made.by_memory, made.unprotected, made.nominated, made.incomplete, made.stopping)
    for table in named:
        table.update({job.name: copy for job, copy in copies.items() if job.name in table})
    made.running, made.priorities = cluster.running.copy(), cluster.priorities.copy()
    for project in projects:
        if project in cluster.running:
            made.running[project] = {
                name: copies.get(job, job) for name, job in cluster.running[project].items()
            }
        if project in cluster.priorities:
            made.priorities[project] = cluster.priorities[project].copy()
    made.saved = [copies.get(job, job) for job in cluster.saved]
    pods = _pods_by_original(copies) if cluster.refused else {}
    made.refused = {pods.get(pod, pod): at_s for pod, at_s in cluster.refused.items()}
    made.withdrawn = cluster.withdrawn.copy()


def _branch_waiting(
    cluster: Cluster, made: Cluster, copies: Mapping[Job, Job], projects: Collection[int]
) -> None:
    """Copy the pending classes of these projects into the branch, with copied jobs as members."""
    classes: dict[EquivalenceClass, EquivalenceClass] = {}
    for project in projects:
        for queued in cluster.waiting_of.get(project, ()):
            classes[queued] = queued.copy()
    for job, copy in copies.items():
        if job.waiting is not None:
            own = copy.waiting = classes[job.waiting]
            own.members[job.waiting.position_of(job)] = (job.submitted_s, job.name, copy)
    made.waiting = cluster.waiting.copy()
    made.waiting.update({queued.key: own for queued, own in classes.items()})
    made.waiting_of = cluster.waiting_of.copy()
    for project in projects:
        if project in cluster.waiting_of:
            made.waiting_of[project] = {classes[queued]: None for queued in cluster.waiting_of[project]}


def _branch_capacity(cluster: Cluster, made: Cluster, copies: Mapping[Job, Job]) -> None:
    """Copy the capacity into the branch, so that ended jobs can release it there."""
    made.free_capacity = cluster.free_capacity.copy()
    if any(job.stopping for job in copies):
        made.releasing, made.releasing_on = cluster.releasing.copy(), cluster.releasing_on.copy()
    made.running_pods = cluster.running_pods.branch(copies)
    made.pods_on = cluster.pods_on.copy()
    pods = _pods_by_original(copies)
    for node in {pod.node for pod in pods if pod.node >= 0}:
        made.pods_on[node] = {pods.get(pod, pod): None for pod in cluster.pods_on[node]}


def _pods_by_original(copies: Mapping[Job, Job]) -> dict[Pod, Pod]:
    return {
        original: pod
        for job, copy in copies.items()
        for originals, pods in zip(job.pods, copy.pods, strict=True)
        for original, pod in zip(originals, pods, strict=True)
    }
