"""Running workloads whose ends have the same consequences: one trial answers for all of them."""

from collections.abc import Iterable

from weir.state.cluster import Cluster
from weir.state.jobs import Job, Pod

_HOSTNAME = "kubernetes.io/hostname"


def without_equals(cluster: Cluster, names: Iterable[str]) -> list[str]:
    """Return the names without workloads whose end has the same consequences as that of an earlier one."""
    by_name = _names_count(cluster)
    kept: dict[tuple[object, ...], str] = {}
    for name in names:
        job = cluster.jobs.get(name)
        if job is not None:
            kept.setdefault(_kind(cluster, job, by_name=by_name), name)
    return list(kept.values())


def _names_count(cluster: Cluster) -> bool:
    """Return True if a request may distinguish nodes that differ only in their names."""
    return bool(cluster.topologies) or any(
        request.nodes or request.node_selector or request.rules or request.pod_rules
        for request in (shape.request for shape in cluster.shapes.all)
    )


def _kind(cluster: Cluster, job: Job, *, by_name: bool) -> tuple[object, ...]:
    pods = sorted([(pod.node, pod.shape.id, _devices(cluster, pod)) for pod in job.running_pods()])
    nodes = dict.fromkeys(node for node, _, _ in pods)
    return (
        (job.project, job.spec.user, job.type, job.priority, job.preemptible, job.stopping),
        job.saved_s == cluster.now_s,
        tuple([pod[1:] for pod in pods]),
        tuple([node if by_name else _node_kind(cluster, node) for node in nodes]),
    )


def _devices(cluster: Cluster, pod: Pod) -> tuple[int, ...]:
    """Return the devices of a pod that differ from others of its node; none if any will do."""
    node = cluster.nodes[pod.node]
    is_any = pod.shape.whole and node is not None and not node.links and not node.outages
    return () if is_any else pod.devices


def _node_kind(cluster: Cluster, index: int) -> tuple[object, ...]:
    """Return all that distinguishes a node from others, but for its name."""
    node, columns = cluster.nodes[index], cluster.free_capacity
    if node is None or node.outages:
        return (index,)
    residents = sorted(
        [
            (pod.job.project, pod.job.priority, pod.job.preemptible, pod.shape.id, pod.phase.value)
            for pod in cluster.pods_on[index]
        ]
    )
    return (
        (node.gpus, node.gpu_memory, node.gpu_model, node.gpu_weight_milli, node.taints, node.links),
        tuple(sorted(node.capacity.items())),
        tuple(sorted((key, value) for key, value in node.labels.items() if key != _HOSTNAME)),
        columns.free[:, index].tobytes(),
        tuple(sorted(zip(columns.share[index].tolist(), columns.memory[index].tolist(), strict=True))),
        columns.marks[:, index].tobytes(),
        tuple(residents),
    )
