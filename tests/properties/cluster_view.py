"""A cluster as plain values, by name, so that two of them can be compared."""

from typing import Any

import numpy as np

from weir.state.capacity_columns import CapacityColumns
from weir.state.cluster import Cluster
from weir.state.jobs import Phase

from .running import key_of, pods_of


def picture(cluster: Cluster, *, history: bool = True) -> dict[str, Any]:
    """Everything on which the engine decides; without `history` only what follows from how things are now."""
    found = {
        "room": _columns(cluster, cluster.free_capacity),
        "releasing": _columns(cluster, cluster.releasing),
        "ledger": _ledger(cluster),
        "jobs": {name: _job(cluster, name) for name in sorted(cluster.jobs)},
        "waiting": _waiting(cluster),
        "running": sorted(name for jobs in cluster.running.values() for name in jobs),
        "nominated": sorted(cluster.nominated),
        "incomplete": sorted(cluster.incomplete),
        "priorities": {at: dict(sorted(of.items())) for at, of in sorted(cluster.priorities.items()) if of},
        "pods on": {
            cluster.node_names[at]: sorted(map(key_of, pods))
            for at, pods in enumerate(cluster.pods_on)
            if pods
        },
        "movable": _movable(cluster),
    }
    if history:
        found["mix"] = [(shape.id, count) for shape, count in cluster.mix.drawn]
        found["learned"] = cluster.runtimes.version
    return found


def differs(one: Any, other: Any, at: str = "") -> list[str]:
    """Return the differences of two views, each as one line."""
    if isinstance(one, dict) and isinstance(other, dict):
        found = []
        for key in {**one, **other}:
            found += differs(one.get(key), other.get(key), f"{at}{key}: ")
        return found
    return [] if one == other else [f"{at}{one} and {other}"]


def _columns(cluster: Cluster, columns: CapacityColumns) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for at, node in enumerate(cluster.nodes):
        if node is not None:
            free = {name: int(columns.free[row, at]) for row, name in enumerate(cluster.rows.names)}
            found[node.name] = (
                {name: amount for name, amount in sorted(free.items()) if amount},
                columns.share[at, : node.gpus].tolist(),
                columns.memory[at, : node.gpus].tolist(),
                {
                    name: pods
                    for row, name in sorted(enumerate(cluster.marks.names), key=lambda of: of[1])
                    if (pods := int(columns.marks[row, at]))
                },
            )
    return found


def _ledger(cluster: Cluster) -> dict[str, Any]:
    ledger = cluster.ledger
    found: dict[str, Any] = {}
    for at, queue in enumerate(ledger.queues):
        for table in ("allocated", "fixed", "asked"):
            line = getattr(ledger, table)[at]
            amounts = dict(zip(cluster.rows.names, line, strict=True))
            found[f"{table} of {queue.name}"] = {
                name: value for name, value in sorted(amounts.items()) if value
            }
        found[f"sharing of {queue.name}"] = ledger.sharing[at]
    return found


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
    found = []
    for pending in cluster.waiting.values():
        assert pending in cluster.waiting_of[pending.project]
        assert all(job.waiting is pending for _, _, job in pending.members)
        members = [name for _, name, _ in pending.members]
        request = sorted((cluster.rows.names[row], amount) for row, amount in pending.step.request)
        found.append((members, list(pending.step.lacks), pending.step.standing, request))
    assert sum(len(of) for of in cluster.waiting_of.values()) == len(found)
    return sorted(found)


def _movable(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """Preemptible running pods and their whole devices by node, as the columns of what runs have it."""
    columns = cluster.running_pods
    found: dict[str, tuple[int, int]] = {}
    for row in np.flatnonzero((columns.node >= 0) & np.isfinite(columns.restart)).tolist():
        name = cluster.node_names[int(columns.node[row])]
        pods, whole = found.get(name, (0, 0))
        found[name] = (pods + 1, whole + int(columns.whole[row]))
    return found
