"""A cluster as plain values, by name, so that two of them can be compared."""

from typing import Any

import numpy as np

from weir.state.capacity_columns import CapacityColumns
from weir.state.cluster import Cluster
from weir.state.jobs import Phase

from .running import key_of, pods_of


def picture(cluster: Cluster, *, history: bool = True) -> dict[str, Any]:
    """Everything on which the engine decides; without `history` only what follows from how things are now."""
    view = {
        "room": _columns(cluster, cluster.free_capacity),
        "releasing": _columns(cluster, cluster.releasing),
        "ledger": _ledger(cluster),
        "jobs": {name: _job(cluster, name) for name in sorted(cluster.jobs)},
        "waiting": _waiting(cluster),
        "running": sorted(name for jobs in cluster.running.values() for name in jobs),
        "nominated": sorted(cluster.nominated),
        "incomplete": sorted(cluster.incomplete),
        "priorities": {
            level: dict(sorted(jobs.items())) for level, jobs in sorted(cluster.priorities.items()) if jobs
        },
        "pods on": {
            cluster.node_names[index]: sorted(map(key_of, pods))
            for index, pods in enumerate(cluster.pods_on)
            if pods
        },
        "movable": _movable(cluster),
    }
    if history:
        view["mix"] = [(shape.id, count) for shape, count in cluster.mix.drawn]
        view["learned"] = cluster.runtimes.version
    return view


def differs(one: Any, other: Any, path: str = "") -> list[str]:
    """Return the differences of two views, each as one line."""
    if isinstance(one, dict) and isinstance(other, dict):
        differences = []
        for key in {**one, **other}:
            differences += differs(one.get(key), other.get(key), f"{path}{key}: ")
        return differences
    return [] if one == other else [f"{path}{one} and {other}"]


def _columns(cluster: Cluster, columns: CapacityColumns) -> dict[str, Any]:
    columns_by_node: dict[str, Any] = {}
    for index, node in enumerate(cluster.nodes):
        if node is not None:
            free = {name: int(columns.free[row, index]) for row, name in enumerate(cluster.rows.names)}
            columns_by_node[node.name] = (
                {name: amount for name, amount in sorted(free.items()) if amount},
                columns.share[index, : node.gpus].tolist(),
                columns.memory[index, : node.gpus].tolist(),
                {
                    name: pods
                    for row, name in sorted(enumerate(cluster.marks.names), key=lambda pair: pair[1])
                    if (pods := int(columns.marks[row, index]))
                },
            )
    return columns_by_node


def _ledger(cluster: Cluster) -> dict[str, Any]:
    ledger = cluster.ledger
    by_queue: dict[str, Any] = {}
    for index, queue in enumerate(ledger.queues):
        for table in ("allocated", "fixed", "asked"):
            line = getattr(ledger, table)[index]
            amounts = dict(zip(cluster.rows.names, line, strict=True))
            by_queue[f"{table} of {queue.name}"] = {
                name: value for name, value in sorted(amounts.items()) if value
            }
        by_queue[f"sharing of {queue.name}"] = ledger.sharing[index]
    return by_queue


def _job(cluster: Cluster, name: str) -> dict[str, Any]:
    job = cluster.jobs[name]
    assert job.running_pods() == [pod for pod in pods_of(job) if pod.phase is Phase.RUNNING]
    return {
        "pods": [(pod.phase.name, pod.node, pod.devices, pod.nomination) for pod in pods_of(job)],
        "placed": job.placed,
        "pending": job.pending,
        "absent": job.absent,
        "needed": job.needed,
        "stopping": job.stopping,
        "started": job.started_s is not None,
        "below": job.below_since_s is not None,
        "held": job.held,
    }


def _waiting(cluster: Cluster) -> list[Any]:
    """The classes by who is in them and what they ask for next; each job in its own class, each class in its lists."""
    classes = []
    for pending in cluster.waiting.values():
        assert pending in cluster.waiting_of[pending.project]
        assert all(job.waiting is pending for _, _, job in pending.members)
        members = [name for _, name, _ in pending.members]
        request = sorted((cluster.rows.names[row], amount) for row, amount in pending.step.request)
        classes.append((members, list(pending.step.lacks), pending.step.standing, request))
    assert sum(len(queued) for queued in cluster.waiting_of.values()) == len(classes)
    return sorted(classes)


def _movable(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """Preemptible running pods and their whole devices by node, as the columns of what runs have it."""
    columns = cluster.running_pods
    by_workload: dict[str, tuple[int, int]] = {}
    for row in np.flatnonzero((columns.node >= 0) & np.isfinite(columns.restart)).tolist():
        name = cluster.node_names[int(columns.node[row])]
        pods, whole = by_workload.get(name, (0, 0))
        by_workload[name] = (pods + 1, whole + int(columns.whole[row]))
    return by_workload
