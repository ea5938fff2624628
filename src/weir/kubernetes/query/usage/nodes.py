"""The past of workloads on each node: their spans with the GPUs that they held there."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.query.usage.past_workloads import USE_S, UsageHistoryEntry, UsageSpan
from weir.model.workloads import WHOLE_MILLI

UNKNOWN = "-"
"""Key of GPUs whose node isn't recorded."""


def gpus_by_node(workload_object: WorkloadObject, gpus: float) -> tuple[tuple[str, float], ...]:
    """Return these GPUs of a workload by node, from the places of its pods; empty if none is recorded."""
    weights: defaultdict[str, float] = defaultdict(float)
    for allocation in workload_object.status.allocations:
        weights[allocation.node] += len(allocation.devices) * (allocation.share or WHOLE_MILLI)
    total = sum(weights.values())
    return tuple((node, gpus * weight / total) for node, weight in sorted(weights.items()) if weight)


def on_nodes(past: Iterable[UsageHistoryEntry]) -> Mapping[str, list[UsageHistoryEntry]]:
    """Return the past on each node. Waits and evictions are of no node."""
    by_node: defaultdict[str, list[UsageHistoryEntry]] = defaultdict(list)
    for entry in past:
        nodes = {node for span in entry.spans for node, _ in _places(span)}
        uses = _uses_by_node(entry, nodes) if entry.uses else {}
        for node in nodes:
            spans = [
                UsageSpan(span.from_s, dict(_places(span)).get(node, 0.0), waits=False)
                for span in entry.spans
            ]
            by_node[node].append(
                replace(entry, first_started_s=None, spans=spans, evictions=[], uses=uses.get(node, {}))
            )
    return by_node


def _places(span: UsageSpan) -> tuple[tuple[str, float], ...]:
    return span.nodes or (((UNKNOWN, span.gpus),) if span.gpus else ())


def _uses_by_node(
    past: UsageHistoryEntry, nodes: Collection[str]
) -> Mapping[str, dict[int, tuple[float, float]]]:
    """Return the measured use by node: each has the part of it that it had of the GPUs at that time."""
    holding = [
        (span, range(int(from_s // USE_S), math.ceil(end_s / USE_S)), from_s, end_s)
        for from_s, end_s, span in past.between(min(past.uses), max(past.uses) + USE_S)
        if _places(span)
    ]
    if len(nodes) == 1:  # the usual case: one node
        steps = {step for _, covered, _, _ in holding for step in covered}
        return {
            node: {at_s: sums for at_s, sums in past.uses.items() if at_s // USE_S in steps} for node in nodes
        }
    held: defaultdict[int, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for span, covered, from_s, end_s in holding:
        for step in covered:
            part_s = min(end_s, (step + 1) * USE_S) - max(from_s, step * USE_S)
            for node, gpus in _places(span):
                held[step][node] += gpus * part_s
    by_node: defaultdict[str, dict[int, tuple[float, float]]] = defaultdict(dict)
    for at_s, (seen_gpu_s, used_gpu_s) in past.uses.items():
        parts: Mapping[str, float] = held.get(at_s // USE_S, {})
        all_held = sum(parts.values())
        for node, its in parts.items():
            if its:
                by_node[node][at_s] = seen_gpu_s * its / all_held, used_gpu_s * its / all_held
    return by_node
