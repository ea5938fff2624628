"""Static partitions: every tenant on nodes of its own, without borrowing or the engine.

In a partition the oldest job that fits starts, the others wait beside it (backfill); it goes to the
fullest node with enough capacity, a job of several nodes to empty ones. Nothing is ever stopped.
"""

from bisect import insort
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from math import inf
from statistics import fmean

from weir.simulation.job_trace import JobTrace
from weir.simulation.traces.tenants import NODE_GPUS

Row = dict[str, object]


def delays_s(job_traces: Sequence[JobTrace], nodes: int) -> list[float]:
    """Return the wait of each job on nodes of its own."""
    free = [NODE_GPUS] * nodes
    waiting: dict[int, list[tuple[float, int]]] = {}  # by size, oldest first
    ends: list[tuple[float, int, tuple[int, ...]]] = []
    sizes = [
        sum(group.count * group.request.devices for group in job_trace.workload.groups)
        for job_trace in job_traces
    ]
    comes = sorted((job_trace.workload.submitted_s, index) for index, job_trace in enumerate(job_traces))
    delays = [0.0] * len(job_traces)
    coming = 0
    while coming < len(comes) or ends:
        now_s = min(ends[0][0] if ends else inf, comes[coming][0] if coming < len(comes) else inf)
        while ends and ends[0][0] <= now_s:
            _, index, on = heappop(ends)
            for node in on:
                free[node] += min(sizes[index], NODE_GPUS)
        while coming < len(comes) and comes[coming][0] <= now_s:
            insort(waiting.setdefault(sizes[comes[coming][1]], []), comes[coming])
            coming += 1
        fitting = set(waiting)
        while fitting:
            size = min(fitting, key=lambda size: waiting[size][0])
            places = _places(free, size)
            if places is None:
                fitting.discard(size)
                continue
            submitted_s, index = waiting[size].pop(0)
            for node in places:
                free[node] -= min(size, NODE_GPUS)
            delays[index] = now_s - submitted_s
            heappush(ends, (now_s + job_traces[index].duration_s, index, places))
            if not waiting[size]:
                del waiting[size]
                fitting.discard(size)
    return delays


def _places(free: Sequence[int], size: int) -> tuple[int, ...] | None:
    if size > NODE_GPUS:
        empty = [node for node, left in enumerate(free) if left == NODE_GPUS]
        return tuple(empty[: size // NODE_GPUS]) if len(empty) >= size // NODE_GPUS else None
    fits = [(left, node) for node, left in enumerate(free) if left >= size]
    return (min(fits)[1],) if fits else None


def partitions(job_traces: Sequence[JobTrace], quota_nodes: Mapping[str, int]) -> Row:
    """Return the figures of all tenants on their quota nodes, and each tenant's mean completion time."""
    jcts: list[float] = []
    delays: list[float] = []
    by_tenant = {}
    for tenant, nodes in quota_nodes.items():
        own = [job_trace for job_trace in job_traces if job_trace.workload.project == tenant]
        if not own:
            continue
        late = delays_s(own, nodes)
        took = [delay + job_trace.duration_s for delay, job_trace in zip(late, own, strict=True)]
        by_tenant[tenant] = fmean(took)
        delays += late
        jcts += took
    return {
        "jct_mean_s": fmean(jcts),
        "delay_mean_s": fmean(delays),
        "delay_p99_s": sorted(delays)[int(len(delays) * 0.99)],
        "preemptions": 0,
        "lost_gpu_hours": 0.0,
        "by_tenant": by_tenant,
    }
