"""Cluster for the tenants of a trace: exactly as many nodes as their quotas need.

The quota of a tenant in nodes is its mean usage over the submission window, times `k`. It is at least the
size of its largest job. The public traces state no quotas; this is our construction.
"""

from collections import defaultdict
from collections.abc import Sequence
from math import ceil

from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.resources import GPU
from weir.model.scenario import Scenario
from weir.model.workloads import WHOLE_MILLI
from weir.simulation.job_trace import JobTrace

NODE_GPUS = 8


def tenants(job_traces: Sequence[JobTrace], k: float, *, static: bool = False) -> Scenario:
    """Return nodes of eight devices and one project for each tenant; static projects never borrow."""
    quotas = quota_nodes(job_traces, k)
    queues = []
    for number, (name, nodes) in enumerate(quotas.items()):
        amounts = {GPU: nodes * NODE_GPUS * WHOLE_MILLI}
        queue = Queue(
            name,
            quota=amounts,
            limit=amounts if static else {},
            weight={GPU: 0.0} if static else {},
            created_s=60.0 * number,
        )
        queues.append(queue)
    capacity = {"cpu": 64_000, "memory": 512 << 30, "pods": 110}
    return Scenario(
        name=f"{len(quotas)} tenants, k = {k}",
        nodes=tuple(
            Node(f"node-{index:03}", NODE_GPUS, 16 << 30, capacity) for index in range(sum(quotas.values()))
        ),
        topologies=(),
        queues=tuple(queues),
        workloads=(),
        policy=Policy(),
        tick_s=1.0,
    )


def projects(names: Sequence[str]) -> Scenario:
    """Return a scenario without nodes and with projects without a quota: enough to read a trace against."""
    queues = tuple(Queue(name) for name in names)
    return Scenario("projects", (), (), queues, (), Policy())


def quota_nodes(job_traces: Sequence[JobTrace], k: float) -> dict[str, int]:
    """Return the quota of each tenant, in whole nodes."""
    submitted_s = [job_trace.workload.submitted_s for job_trace in job_traces]
    window_s = max(1.0, max(submitted_s) - min(submitted_s))
    used: dict[str, float] = defaultdict(float)
    largest: dict[str, int] = defaultdict(int)
    for job_trace in job_traces:
        workload = job_trace.workload
        gpus = sum(group.count * group.request.devices for group in workload.groups)
        used[workload.project] += gpus * job_trace.duration_s
        largest[workload.project] = max(largest[workload.project], gpus)
    return {
        name: max(ceil(k * used[name] / window_s / NODE_GPUS), ceil(largest[name] / NODE_GPUS))
        for name in sorted(used)
    }
