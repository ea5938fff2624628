"""The one reducer: an event in, the cluster changed. Nothing else changes it.

Events come late, twice and out of order; one that no longer applies (a pod that isn't there, a
workload that ended) changes nothing, so that applying it again is harmless.
"""

from collections.abc import Callable
from typing import Any

from weir.state import events
from weir.state.reducers import budgets, nodes, pods, promises, queues, workloads
from weir.state.reducers.counting import holding
from weir.state.state import Cluster

__all__ = ["holding", "reduce"]


def reduce(cluster: Cluster, event: events.Event) -> None:
    """Apply one event to the cluster."""
    kind = type(event)
    at_s: float = getattr(event, "at_s", 0.0)
    cluster.now_s = max(cluster.now_s, at_s)
    if kind not in _QUIET:
        cluster.changes += 1
        cluster.changed_s = cluster.now_s
    _REDUCERS[kind](cluster, event)


_QUIET = frozenset({events.Checkpointed, events.Noted})
_REDUCERS: dict[type, Callable[[Cluster, Any], None]] = {
    events.NodeSet: nodes.node_set,
    events.NodeLost: nodes.node_lost,
    events.QueuesSet: queues.queues_set,
    events.TopologiesSet: queues.topologies_set,
    events.WorkloadSubmitted: workloads.submitted,
    events.WorkloadChanged: workloads.changed,
    events.WorkloadEnded: workloads.ended,
    events.WorkloadHeld: workloads.held,
    events.PastKnown: workloads.past_known,
    events.Checkpointed: workloads.checkpointed,
    events.PodAssigned: pods.assigned,
    events.PodStopping: pods.stopping,
    events.PodStopped: pods.stopped,
    events.StopRefused: budgets.stop_refused,
    events.BudgetSet: budgets.budget_set,
    events.BudgetRemoved: budgets.budget_removed,
    events.PodProtected: budgets.pod_protected,
    events.Promised: promises.promised,
    events.PromiseDropped: promises.promise_dropped,
    events.Noted: workloads.noted,
}
