"""The past of workloads on each node: their spans with the GPUs that they held there."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.query.past_workloads import USE_S, UsageHistoryEntry, UsageSpan
from weir.model.workloads import WHOLE_MILLI

UNKNOWN = "-"
"""Key of GPUs whose node isn't recorded."""


def gpus_by_node(thing: WorkloadObject, gpus: float) -> tuple[tuple[str, float], ...]:
    """Return these GPUs of a workload by node, by the places of its pods; nothing if none is recorded."""
    weights: defaultdict[str, float] = defaultdict(float)
    for each in thing.status.allocations:
        weights[each.node] += len(each.devices) * (each.share or WHOLE_MILLI)
    total = sum(weights.values())
    return tuple((node, gpus * weight / total) for node, weight in sorted(weights.items()) if weight)


def on_nodes(past: Iterable[UsageHistoryEntry]) -> Mapping[str, list[UsageHistoryEntry]]:
    """Return the past on each node. Waits and evictions are of no node."""
    found: defaultdict[str, list[UsageHistoryEntry]] = defaultdict(list)
    for each in past:
        nodes = {node for span in each.spans for node, _ in _places(span)}
        for node in nodes:
            found[node].append(_on_node(each, node))
    return found


def _places(span: UsageSpan) -> tuple[tuple[str, float], ...]:
    return span.nodes or (((UNKNOWN, span.gpus),) if span.gpus else ())


def _on_node(past: UsageHistoryEntry, node: str) -> UsageHistoryEntry:
    spans = [UsageSpan(span.from_s, dict(_places(span)).get(node, 0.0), waits=False) for span in past.spans]
    here = replace(past, first_started_s=None, spans=spans, evictions=[], uses={})
    for at_s, (seen_gpu_s, used_gpu_s) in past.uses.items():
        held, all_held = (
            sum(span.gpus * (end_s - from_s) for from_s, end_s, span in each.between(at_s, at_s + USE_S))
            for each in (here, past)
        )
        if held and all_held:
            here.uses[at_s] = seen_gpu_s * held / all_held, used_gpu_s * held / all_held
    return here
