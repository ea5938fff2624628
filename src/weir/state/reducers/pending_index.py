"""Index of jobs by status: running, incomplete, and pending by equivalence class."""

from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Job, Phase
from weir.state.shapes import GPU_ROW


def update_status(cluster: Cluster, job: Job, at_s: float) -> None:
    """Update a job in the index of pending and incomplete jobs."""
    name = job.name
    cluster.usage.holds(job.spec.project, cluster.ledger.allocated[job.project][GPU_ROW], at_s)
    if job.started_s is not None and job.is_below():
        if job.below_since_s is None:
            job.below_since_s = at_s
    else:
        job.below_since_s = None
    if job.below_since_s is not None and job.is_running:
        cluster.incomplete[name] = job
    else:  # a gang whose last pods stop has nothing left to evict
        cluster.incomplete.pop(name, None)
    if not _waits_for_absent(cluster, job):
        job.absent_since_s = None
    elif job.absent_since_s is None:
        job.absent_since_s = at_s
    enqueue(cluster, job)


def _waits_for_absent(cluster: Cluster, job: Job) -> bool:
    """Return True if capacity is nominated for an absent pod."""
    return (
        any(job.absent)
        and job.name in cluster.nominated
        and any(
            pod.phase is Phase.ABSENT and pod.nomination is not None for group in job.pods for pod in group
        )
    )


def enqueue(cluster: Cluster, job: Job) -> None:
    """Add a pending job to its equivalence class."""
    cluster.admission.note(job)
    waits = any(job.pending) and not job.stopping and job.asks_now
    if not waits:
        dequeue(cluster, job)
        if any(job.pending) and job.asks_now:
            cluster.stopping[job.name] = job
        return
    cluster.stopping.pop(job.name, None)
    key = _class_key(job)
    if job.waiting is not None:
        if job.waiting.key == key:
            return
        dequeue(cluster, job)
    queued = cluster.waiting.get(key)
    if queued is None:
        queued = cluster.waiting[key] = EquivalenceClass(key, job, cluster.classes_made)
        cluster.classes_made += 1
        cluster.waiting_of.setdefault(job.project, {})[queued] = None
    queued.add(job)
    job.waiting = queued


def _class_key(job: Job) -> tuple[object, ...]:
    spec = job.spec
    key = (
        job.project,
        tuple(
            [
                (shape.id, group.count, group.min, group.order)
                for shape, group in zip(job.shapes, spec.groups, strict=True)
            ]
        ),
        tuple(job.pending),
        spec.min_pods,
        job.type,
        job.priority,
        job.preemptible,
        job.can_preempt,
        job.topology,
        job.max_runtime_s,
        job.like.names[0],
        job.ran_s,
    )
    return (*key, job.name, tuple(job.placed)) if any(job.placed) else key


def dequeue(cluster: Cluster, job: Job) -> None:
    """Remove a job from its class, and the class with its last member."""
    cluster.stopping.pop(job.name, None)
    waiting = job.waiting
    if waiting is None:
        return
    job.waiting = None
    waiting.remove(job)
    if not waiting.members:
        del cluster.waiting[waiting.key]
        of_project = cluster.waiting_of[waiting.project]
        del of_project[waiting]
        if not of_project:  # positions of projects change with the tree: none may outlive its project
            del cluster.waiting_of[waiting.project]


def set_running(cluster: Cluster, job: Job, runs: bool) -> None:
    """Add a job to the running ones, or remove it."""
    if not runs:
        del cluster.running[job.project][job.name]
    else:
        cluster.running.setdefault(job.project, {})[job.name] = job
    if job.preemptible:
        counts = cluster.priorities.setdefault(job.project, {})
        counts[job.priority] = counts.get(job.priority, 0) + (1 if runs else -1)
        if not counts[job.priority]:
            del counts[job.priority]
