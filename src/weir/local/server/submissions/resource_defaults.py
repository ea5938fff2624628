"""Default CPU and memory of pods without a request: the machine's share of their GPUs.

The amounts are charged to quotas and weigh a job's share of busy processors. Nodes don't reserve these
amounts, and they limit nothing: work whose GPUs fit starts, even if earlier work requested more CPU or
memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weir.model.nodes import Node
from weir.model.queues import Queue
from weir.model.resources import CPU, CPU_SLOTS, MEMORY
from weir.model.workloads import WHOLE_MILLI, Request, Workload
from weir.scenario_io.specs import PodsEntry

CPU_ONLY_MILLI = 1000
CPU_ONLY_MEMORY = 1 << 30
"""Charged for a pod without GPUs."""


def with_defaults(
    workload: Workload, written: Sequence[PodsEntry], nodes: Sequence[Node], queues: Mapping[str, Queue]
) -> Workload:
    """Return the workload with an assumed amount for each of CPU and memory that its groups leave open."""
    most = _bounds(workload, queues)
    unsized = [not {"cpu", "memory"} <= entry.model_fields_set for entry in written]
    if not any(unsized):
        return workload
    slots = _slots(workload, written, nodes)
    groups = [
        replace(group, request=_assumed(group.request, entry, nodes, most, slot=slots and _takes_slot(entry)))
        for group, entry in zip(workload.groups, written, strict=True)
    ]
    return replace(workload, groups=tuple(groups))


def _assumed(
    request: Request, written: PodsEntry, nodes: Sequence[Node], most: Mapping[str, int], *, slot: bool
) -> Request:
    part = {CPU: 0, MEMORY: 0}
    for node in _usable(request, nodes):
        for resource, amount in _part(request, node).items():
            part[resource] = max(part[resource], amount)
    part = {resource: min(amount, most.get(resource, amount)) for resource, amount in part.items()}
    if "cpu" not in written.model_fields_set:
        request = replace(request, cpu_milli=0, assumed_cpu_milli=part[CPU])
    if "memory" not in written.model_fields_set:
        request = replace(request, memory=0, assumed_memory=part[MEMORY])
    if slot:
        request = replace(request, further=tuple(sorted({**dict(request.further), CPU_SLOTS: 1}.items())))
    return request


def _usable(request: Request, nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes that the request names, or all if none of them is known."""
    named = [
        node
        for node in nodes
        if (request.nodes is None or node.name in request.nodes)
        and (not request.devices or not request.gpu_models or node.gpu_model in request.gpu_models)
    ]
    return named or list(nodes)


def _part(request: Request, node: Node) -> dict[str, int]:
    """Return the CPU and memory of a node that belong to the GPUs of a request, at most all of it."""
    cpu, memory = node.capacity.get(CPU, 0), node.capacity.get(MEMORY, 0)
    if not request.devices or not node.gpus:
        return {CPU: min(CPU_ONLY_MILLI, cpu), MEMORY: min(CPU_ONLY_MEMORY, memory)}
    milli = request.devices * min(WHOLE_MILLI, request.share_on(node.gpu_memory))
    total = node.gpus * WHOLE_MILLI
    milli = min(milli, total)
    return {CPU: cpu * milli // total, MEMORY: memory * milli // total}


def _bounds(workload: Workload, queues: Mapping[str, Queue]) -> dict[str, int]:
    """Return the most that one pod may be assumed to use, so that the workload stays within its queues."""
    most: dict[str, int] = {}
    current: str | None = workload.project
    while current is not None and current in queues:
        queue = queues[current]
        bounds = [queue.limit] if workload.preemptible else [queue.limit, queue.quota]
        for bound in bounds:
            for resource in (CPU, MEMORY):
                if resource in bound:
                    per_pod = bound[resource] // max(1, workload.pods)
                    most[resource] = min(per_pod, most.get(resource, per_pod))
        current = queue.parent
    return most


def _takes_slot(written: PodsEntry) -> bool:
    return not written.gpus and written.gpu_memory is None and "cpu" not in written.model_fields_set


def _slots(workload: Workload, written: Sequence[PodsEntry], nodes: Sequence[Node]) -> bool:
    """Return True if its CPU-only pods take slots; gangs with more pods than slots don't."""
    total = sum(node.capacity.get(CPU_SLOTS, 0) for node in nodes)
    pods = sum(
        group.count for group, entry in zip(workload.groups, written, strict=True) if _takes_slot(entry)
    )
    return 0 < pods <= total
