"""Amounts of a cluster at one moment, for statuses, metrics and people.

Requests that no node can ever satisfy are neither demand nor pending: they count as unschedulable.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from weir.api.answers import Explanation, QueueRow
from weir.engine.overcommit import OvercommittedNode
from weir.kubernetes.state.queue_view import QueueView
from weir.model.policy import Policy
from weir.model.reasons import ReasonCode as WhyClass
from weir.model.resources import GPU, plain_amount
from weir.model.workloads import WHOLE_MILLI
from weir.service.queue_rows import queue_rows
from weir.state.cluster import Cluster

Amounts = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """Made by the control thread, and never changed."""

    queues: Mapping[str, QueueRow] = field(default_factory=dict)
    demand: Mapping[str, Amounts] = field(default_factory=dict)  # by queue and resource
    unschedulable: Mapping[str, int] = field(default_factory=dict)  # workloads that no node can ever take
    waiting: Mapping[tuple[str, str], int] = field(default_factory=dict)  # workloads by project and reason
    nodes: int = 0
    gpus: float = 0.0
    allocated_gpus: float = 0.0
    foreign_gpus: float = 0.0
    overcommitted_nodes: int = 0
    overcommitted_gpus: float = 0.0


@dataclass(frozen=True, slots=True)
class SchedulableDemand:
    """Pending work that some node could ever run."""

    pending: Mapping[str, int]  # workloads by project
    unschedulable: Mapping[str, int]  # the others
    excess: Mapping[int, Mapping[int, int]]  # requests of the others, by queue and resource row

    @classmethod
    def of(cls, cluster: Cluster, view: QueueView, reasons: Mapping[str, Explanation]) -> Self:
        """Separate schedulable from unschedulable workloads by their reasons."""
        stuck: Counter[str] = Counter()
        excess: dict[int, dict[int, int]] = {}
        for name, why in reasons.items():
            job = cluster.jobs.get(name) if why.why == WhyClass.NO_NODE_MATCHES else None
            if job is None or job.is_running:
                continue
            stuck[job.spec.project] += 1
            if not job.asks_now:
                continue
            for above in job.path:
                line = excess.setdefault(above, {})
                for requests, pending in zip(job.requests, job.pending, strict=True):
                    for row, amount in requests:
                        line[row] = line.get(row, 0) + amount * pending
        can_run = {name: max(0, count - stuck[name]) for name, count in view.pending.items()}
        return cls(can_run, stuck, excess)


def cluster_summary(
    cluster: Cluster,
    policy: Policy,
    now_s: float,
    view: QueueView,
    runnable: SchedulableDemand,
    reasons: Mapping[str, Explanation],
    overcommitted: Sequence[OvercommittedNode] = (),
) -> ClusterSummary:
    """Return the present amounts of the cluster."""
    rows = queue_rows(cluster, policy, now_s, view.running, runnable.pending, runnable.excess)
    ledger = cluster.ledger
    unschedulable = dict.fromkeys(rows, 0)
    for project, count in runnable.unschedulable.items():
        position = ledger.position.get(project)
        for queue in ledger.path[position] if position is not None else ():
            unschedulable[ledger.queues[queue].name] += count
    waiting: Counter[tuple[str, str]] = Counter()
    for name, why in reasons.items():
        job = cluster.jobs.get(name)
        if job is not None:
            waiting[job.spec.project, why.why] += 1
    nodes = [node for node in cluster.nodes if node is not None]
    demand = {name: _demand(cluster, name, runnable) for name in rows}
    return ClusterSummary(
        queues=rows,
        demand=demand,
        unschedulable=unschedulable,
        waiting=waiting,
        nodes=len(nodes),
        gpus=float(sum(node.gpus for node in nodes)),
        allocated_gpus=sum(row.allocated.get(GPU, 0.0) for row in rows.values() if row.parent is None),
        foreign_gpus=float(sum(node.gpus - node.own_gpus for node in nodes)),
        overcommitted_nodes=len(overcommitted),
        overcommitted_gpus=sum(overcommit.use.excess_milli for overcommit in overcommitted) / WHOLE_MILLI,
    )


def _demand(cluster: Cluster, name: str, runnable: SchedulableDemand) -> dict[str, float]:
    """Return usage and requests of a queue together, without requests that can never be satisfied."""
    ledger, names = cluster.ledger, cluster.rows.names
    position = ledger.position[name]
    less = runnable.excess.get(position, {})
    amounts = (
        allocated + asked - less.get(row, 0)
        for row, (allocated, asked) in enumerate(
            zip(ledger.allocated[position], ledger.asked[position], strict=True)
        )
    )
    return {
        name: plain_amount(name, amount) for name, amount in zip(names, amounts, strict=False) if amount > 0
    }
