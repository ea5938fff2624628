"""The one reducer: it changes the cluster by an event. No other code changes the cluster.

Events come late, twice and out of order. An event that no longer applies (its pod is gone, its workload has
ended) changes nothing. So a repeated event is harmless.
"""

from collections.abc import Callable
from typing import Any

from weir.state import events
from weir.state.cluster import Cluster
from weir.state.reducers import budgets, nodes, nominations, pods, queues, workloads
from weir.state.reducers.accounting import usage_on
from weir.state.reducers.person_limits import settle_limits

__all__ = ["reduce", "usage_on"]


def reduce(cluster: Cluster, event: events.Event) -> None:
    """Apply one event to the cluster."""
    kind = type(event)
    at_s: float = getattr(event, "at_s", 0.0)
    cluster.now_s = max(cluster.now_s, at_s)
    if kind not in _QUIET:
        cluster.changes += 1
        cluster.changed_s = cluster.now_s
    _REDUCERS[kind](cluster, event)
    if cluster.admission.changed:
        settle_limits(cluster)


_QUIET = frozenset({events.Checkpointed, events.NoteAdded})
_REDUCERS: dict[type, Callable[[Cluster, Any], None]] = {
    events.NodeSet: nodes.node_set,
    events.NodeLost: nodes.node_lost,
    events.QueuesSet: queues.queues_set,
    events.TopologiesSet: queues.topologies_set,
    events.WorkloadSubmitted: workloads.submitted,
    events.WorkloadChanged: workloads.changed,
    events.WorkloadEnded: workloads.ended,
    events.WorkloadSuspended: workloads.suspended,
    events.HistoryRestored: workloads.history_restored,
    events.Checkpointed: workloads.checkpointed,
    events.PodAssigned: pods.assigned,
    events.PodStopping: pods.stopping,
    events.PodStopped: pods.stopped,
    events.StopRefused: budgets.stop_refused,
    events.BudgetSet: budgets.budget_set,
    events.BudgetRemoved: budgets.budget_removed,
    events.PodProtected: budgets.pod_protected,
    events.Nominated: nominations.nominated,
    events.NominationReleased: nominations.nomination_released,
    events.NominationBlocked: nominations.nomination_blocked,
    events.NoteAdded: workloads.note_added,
}
