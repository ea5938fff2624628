"""Objects of a cluster as records of its history."""

from collections.abc import Iterable, Mapping
from typing import Any

from weir.api.answers import Explanation, QueueRow
from weir.kubernetes.query.workloads.event_index import IndexedEvent
from weir.kubernetes.query.workloads.index import LIVE, WorkloadIndexEntry
from weir.kubernetes.query.workloads.rows import (
    event_number,
    event_row,
    max_runtime_s,
    memory_isolation,
    reported_fields,
)
from weir.store.cluster.records import ClusterEvent, ClusterHistoryEntry

DELETED = "Its object was deleted."
KNOWN_WITHIN_S = 30.0
"""Time after an event in which its workload may still be unknown to a replica."""
CLOCK_ERROR_S = 1.0
"""Error of Weir's estimate of the API server's time, whose answers state whole seconds."""


def signature(workload: WorkloadIndexEntry) -> tuple[Any, ...]:
    """Return the parts of a workload whose change is stored."""
    status = workload.object.status
    return (
        status.phase,
        status.started_at,
        status.ended_at,
        status.reason.why if status.reason is not None else None,
        status.last_eviction.at if status.last_eviction is not None else None,
    )


def workload_record(
    workload: WorkloadIndexEntry,
    queues: Mapping[str, QueueRow],
    now_s: float,
    *,
    first_started_s: float | None = None,
    removed_s: float | None = None,
) -> ClusterHistoryEntry:
    """Return the record of a workload; `removed_s`: when its object was deleted."""
    row, workload_object = (
        workload.row(now_s).model_copy(update={"first_started_s": first_started_s}),
        workload.object,
    )
    if removed_s is not None and row.status in LIVE:
        ran_s = 0.0 if row.started_s is None else max(0.0, removed_s - row.started_s)
        reason = Explanation(why="stopped", sentence=DELETED)
        changed = {"status": "stopped", "ended_s": removed_s, "ran_s": ran_s, "reason": reason}
        row = row.model_copy(update={**changed, "pods_running": 0})
    queue = queues.get(row.project)
    detail = {
        "max_runtime_s": max_runtime_s(workload_object),
        **reported_fields(workload_object),
        **memory_isolation(workload_object),
    }
    return ClusterHistoryEntry(
        row=row,
        namespace=workload.namespace,
        name=workload.name,
        owner=workload_object.spec.owner.name,
        department=None if queue is None else queue.parent,
        is_live=row.status in LIVE,
        seen_s=now_s if removed_s is None else removed_s,
        stated={"metadata": workload.metadata, "detail": detail},
    )


def early_events(events: Iterable[IndexedEvent], now_s: float) -> set[str]:
    """Return the keys of events whose workload isn't known yet: Weir reports a start as it records it."""
    return {
        event[0].metadata.key
        for event in events
        if event[2] is None and abs(now_s - event_row(*event).at_s) < KNOWN_WITHIN_S
    }


def event_record(event: IndexedEvent, now_s: float) -> ClusterEvent:
    """Return the record of an event. An Event states its own time: one of the future would never be old."""
    view, name, project = event
    row = event_row(view, name, project)
    if row.at_s > now_s + CLOCK_ERROR_S:
        row = row.model_copy(update={"at_s": now_s, "id": event_number(view, now_s)})
    return ClusterEvent(view.metadata.uid or f"event:{row.id}", view.regarding.namespace, row)
