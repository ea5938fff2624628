"""Events about workloads, their pods, and objects that can't be read."""

from weir.control.port import StopPod
from weir.kubernetes.crd.schemas import API_VERSION
from weir.kubernetes.state.gangs.gang import Gang, TrackedPod
from weir.kubernetes.state.unreadable import QUARANTINED, UnreadableObject
from weir.kubernetes.writes.operations import EmitEvent, EventSubject

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


def regarding(gang: Gang, uid: str) -> EventSubject:
    """Return its object, as an Event names it: without the uid `kubectl describe` doesn't find the event."""
    return EventSubject(API_VERSION, "Workload", gang.object_name, gang.key.namespace, uid)


def regarding_pod(gang: Gang, tracked: TrackedPod) -> EventSubject:
    """Return a pod as the subject of an Event."""
    return EventSubject("v1", "Pod", tracked.name, gang.key.namespace, tracked.uid)


def preempted(gang: Gang, tracked: TrackedPod, stop: StopPod) -> EmitEvent:
    """Return the event that says why a pod is stopped."""
    return EmitEvent(
        regarding_pod(gang, tracked), "Preempted", stop.cause.sentence, action="Evicting", type="Warning"
    )


def unreadable_event(unread: UnreadableObject) -> EmitEvent | None:
    """Tell people that an object can't be read; None where an event can't name it."""
    kind = _KINDS.get(unread.resource)
    if kind is None:
        return None
    namespace, _, name = unread.key.rpartition("/")
    about = EventSubject(kind[0], kind[1], name, namespace, unread.uid)
    return EmitEvent(about, "Unreadable", unread.sentence, type="Warning")
