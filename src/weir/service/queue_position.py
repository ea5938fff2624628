"""Position of a pending workload in the queue of its project."""

from bisect import bisect_left

from weir.state.cluster import Cluster


def queue_position(cluster: Cluster, name: str) -> tuple[int | None, int]:
    """Return the position of a workload among the pending ones of its project, and their number.

    The position counts from 1; it is None if the workload isn't pending or is unknown.
    """
    job = cluster.jobs.get(name)
    if job is None:
        return None, 0
    classes = cluster.waiting_of.get(job.project, {})
    pending = sum(len(queued.members) for queued in classes)
    if job.waiting is None:
        return None, pending
    own, age, ahead = (-job.priority, job.waiting.step.standing), (job.submitted_s, job.name), 0
    for queued in classes:
        rank = (-queued.first.priority, queued.step.standing)
        if rank < own:
            ahead += len(queued.members)
        elif rank == own:
            ahead += bisect_left(queued.members, age)  # members are in order of age and name
    return 1 + ahead, pending
