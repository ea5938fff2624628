"""Resources of a job on one node: that of a pool, or each of several that are alike."""

from typing import NamedTuple

from weir.slurm.batch_request import BatchRequest
from weir.slurm.errors import SlurmError
from weir.slurm.gpu_requests import models, total

_CPU_OPTIONS = ("ntasks", "ntasks-per-node", "ntasks-per-gpu", "cpus-per-task", "cpus-per-gpu", "mincpus")


class NodeResources(NamedTuple):
    """Resources of all tasks of a node together. `cpus` is None if the script names none.

    `tasks` are those of the whole job. `memory` is in MiB; None for no limit. `folded` is the number of nodes
    that became one, and `pods` the number of pods that have these resources.
    """

    tasks: int
    cpus: int | None
    gpus: int
    models: tuple[str, ...]
    memory: int | None
    folded: int = 1
    pods: int = 1


def node_resources(request: BatchRequest, *, fold: bool) -> NodeResources:
    """Return the resources of a job on one node. `fold` puts all nodes of a job on it.

    Raises:
        SlurmError: the job needs several nodes, or different GPUs.
    """
    nodes = request.nodes[0] if request.nodes else 1
    if nodes > 1 and not fold:
        right = "write --nodes=1, or --best-effort to run all its tasks on the one node"
        raise SlurmError(f"--nodes={nodes}: a pool of one machine has one node: {right}")
    nodes = max(1, nodes)
    gpus, named = _gpus(request, nodes)
    if len(named) > 1:
        raise SlurmError(f"asks for GPUs of several models ({', '.join(named)}): write one model")
    cpus = _cpus(request, nodes, gpus)
    return NodeResources(request.tasks, cpus, gpus, named, _memory(request, nodes, cpus, gpus), nodes)


def _gpus(request: BatchRequest, nodes: int) -> tuple[int, tuple[str, ...]]:
    ways = [
        (request.gpus, 1),
        (request.gpus_per_node, nodes),
        (request.gpus_per_task, request.tasks),
        (request.gpus_per_socket, request.sockets * nodes),
    ]
    numbers = [total(gpus) * times for gpus, times in ways]
    named = models([gpu_request for gpus, _ in ways for gpu_request in gpus])
    if not any(numbers) and request.tasks_per_gpu is not None:
        return -(-request.tasks // request.tasks_per_gpu), named
    return max(numbers), named


def _cpus(request: BatchRequest, nodes: int, gpus: int) -> int | None:
    if request.cpus_per_gpu is not None:
        return max(request.cpus_per_gpu * gpus, request.mincpus)
    if not any(request.has(name) for name in _CPU_OPTIONS):
        return None
    return max(request.tasks * request.cpus_per_task, request.mincpus * nodes)


def _memory(request: BatchRequest, nodes: int, cpus: int | None, gpus: int) -> int | None:
    """Return the memory in MiB; 0 of a node is all of it, so there is no limit; None without a limit."""
    if request.memory is not None:
        return request.memory * nodes or None
    if request.memory_per_cpu is not None:
        return request.memory_per_cpu * (cpus or 1) or None
    if request.memory_per_gpu is not None:
        return request.memory_per_gpu * gpus or None
    return None
