"""Writes about objects that can't be read."""

from collections.abc import Iterator

from weir.kubernetes.crd.schemas import API_VERSION
from weir.kubernetes.state.unreadable import QUARANTINED, UnreadableObject
from weir.kubernetes.writes.operations import EmitEvent, EventSubject, Write
from weir.kubernetes.writes.statuses.condition_reasons import UNREADABLE_POD
from weir.kubernetes.writes.statuses.pending_pods import condition

_KINDS = {
    "pods": ("v1", "Pod"),
    "nodes": ("v1", "Node"),
    "workloads": (API_VERSION, "Workload"),
    QUARANTINED: (API_VERSION, "Workload"),
    "projects": (API_VERSION, "Project"),
    "departments": (API_VERSION, "Department"),
    "topologies": (API_VERSION, "Topology"),
    "persistentvolumeclaims": ("v1", "PersistentVolumeClaim"),
    "persistentvolumes": ("v1", "PersistentVolume"),
    "poddisruptionbudgets": ("policy/v1", "PodDisruptionBudget"),
}


def unreadable_writes(unread: UnreadableObject, now_s: float) -> Iterator[Write | EmitEvent]:
    """Yield an event about an object that can't be read, and a condition if it is a pod."""
    event = _event(unread)
    if event is not None:
        yield event
    if unread.resource == "pods" and unread.uid:
        namespace, _, name = unread.key.rpartition("/")
        yield condition(namespace, name, unread.uid, UNREADABLE_POD, unread.sentence, now_s)


def _event(unread: UnreadableObject) -> EmitEvent | None:
    """Report that an object can't be read; None if an event can't name the object."""
    kind = _KINDS.get(unread.resource)
    if kind is None:
        return None
    namespace, _, name = unread.key.rpartition("/")
    about = EventSubject(kind[0], kind[1], name, namespace, unread.uid)
    return EmitEvent(about, "Unreadable", unread.sentence, type="Warning")
