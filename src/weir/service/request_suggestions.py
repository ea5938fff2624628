"""Suggestions that change the request: fewer devices or pods, a share, less CPU or memory."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from weir.api.answers import Suggestion
from weir.model.resources import CPU, MEMORY, amount, written
from weir.model.workloads import WHOLE_MILLI, Workload
from weir.service.suggestion_phrases import gpus_phrase, starts, suggestion
from weir.service.what_if import WhatIf, WhatIfOutcome, with_request
from weir.state.cluster import Cluster
from weir.state.shapes import CPU_ROW, MEMORY_ROW

SHARES_MILLI = (500, 250, 100)
"""Shares of a device that are tried instead of a whole one, the largest first."""


def fewer_devices(trials: WhatIf, others_make: bool) -> Iterator[Suggestion]:
    """Suggest fewer devices for its one pod, or fewer pods."""
    spec = trials.job.spec
    if len(spec.groups) != 1:
        return
    group = spec.groups[0]
    if group.count > 1:
        elastic = others_make or trials.job.is_elastic
        size, outcome = _largest(
            trials, sum(trials.job.needed) - 1, lambda pods: _with_pods(spec, pods, elastic=elastic)
        )
        if outcome is not None:
            pods = f"{size} pods" if size > 1 else "1 pod"
            as_minimum = "as its minimum " if elastic else ""
            sentence = f"With {pods} {as_minimum}instead of {sum(trials.job.needed)} {starts(outcome)}"
            yield suggestion(sentence, {"pods": size}, outcome)
    if group.request.is_whole and group.request.devices > 1:
        size, outcome = _largest(
            trials,
            group.request.devices - 1,
            lambda devices: with_request(spec, replace(group.request, devices=devices)),
        )
        if outcome is not None:
            per_pod = " for each pod" if group.count > 1 else ""
            less = f"With {gpus_phrase(size)} instead of {group.request.devices}{per_pod}"
            sentence = f"{less} {starts(outcome)}"
            yield suggestion(sentence, {"gpus": size}, outcome)


def _largest(
    trials: WhatIf, most: int, variant: Callable[[int], Workload]
) -> tuple[int, WhatIfOutcome | None]:
    """Return the largest size that lets it start, by bisection; smaller sizes do, too."""
    low, best = 0, None
    high = most
    while low < high:
        middle = (low + high + 1) // 2
        outcome = trials.tried(variant(middle))
        if outcome is not None:
            low, best = middle, outcome
        else:
            high = middle - 1
    return low, best


def as_share(trials: WhatIf) -> Iterator[Suggestion]:
    """Suggest a share of a device for a pod that requests a whole one."""
    spec = trials.job.spec
    if len(spec.groups) != 1 or not spec.groups[0].request.is_whole or spec.groups[0].request.devices != 1:
        return
    *larger, milli = SHARES_MILLI
    request = spec.groups[0].request
    outcome = trials.tried(with_request(spec, replace(request, share_milli=milli)))
    if outcome is None:
        return  # a larger share can't start sooner
    for more_milli in larger:
        candidate = trials.tried(with_request(spec, replace(request, share_milli=more_milli)))
        if candidate is not None:
            milli, outcome = more_milli, candidate
            break
    share = milli / WHOLE_MILLI
    sentence = f"With a share of {share:g} of a device instead of a whole one {starts(outcome)}"
    yield suggestion(sentence, {"gpus": share}, outcome)


def with_less(trials: WhatIf) -> Iterator[Suggestion]:
    """Suggest a CPU or memory request that one node can satisfy now."""
    spec = trials.job.spec
    if len(spec.groups) != 1:
        return
    request = spec.groups[0].request
    most_memory, most_cpu_milli = trials.read(_most_free)
    memory = min(request.memory, most_memory >> 20 << 20)
    cpu_milli = min(request.cpu_milli, most_cpu_milli // 100 * 100)
    change: dict[str, object] = {}
    if 0 < memory < request.memory:
        change["memory"] = written(MEMORY, memory)
        memory = amount(MEMORY, str(change["memory"]))
    if 0 < cpu_milli < request.cpu_milli:
        change["cpu"] = written(CPU, cpu_milli)
    if not change:
        return
    less = replace(request, memory=memory, cpu_milli=cpu_milli)
    outcome = trials.tried(with_request(spec, less))
    if outcome is not None:
        before = {"memory": written(MEMORY, request.memory), "cpu": written(CPU, request.cpu_milli)}
        parts = [f"{name} {value} instead of {before[name]}" for name, value in change.items()]
        sentence = f"With {' and '.join(parts)} {starts(outcome)}"
        yield suggestion(sentence, change, outcome)


def _most_free(cluster: Cluster) -> tuple[int, int]:
    """Return the most memory and the most processors that are free on one node."""
    free = cluster.free_capacity.free
    return (int(free[MEMORY_ROW].max()), int(free[CPU_ROW].max())) if cluster.nodes else (0, 0)


def _with_pods(spec: Workload, pods: int, *, elastic: bool) -> Workload:
    """Return the workload with `pods` required pods; elastic work keeps its other pods as optional."""
    group = spec.groups[0]
    smaller = replace(group, count=group.count if elastic else pods, min=min(group.min, pods))
    return replace(spec, groups=(smaller,), min_pods=min(spec.min_pods, pods))
