"""Events about workloads, their pods, and objects that can't be read."""

from weir.control.port import StopPod
from weir.kubernetes.own.shapes import API_VERSION
from weir.kubernetes.picture.gangs import Gang
from weir.kubernetes.picture.seen import Seen
from weir.kubernetes.picture.unreadable import QUARANTINED, Unread
from weir.kubernetes.writing.writes import Emit, Regarding

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


def regarding(gang: Gang, uid: str) -> Regarding:
    """Its object, as an Event names it: without the uid `kubectl describe` doesn't find the event."""
    return Regarding(API_VERSION, "Workload", gang.object_name, gang.key.namespace, uid)


def regarding_pod(gang: Gang, seen: Seen) -> Regarding:
    """A pod, as an Event names it."""
    return Regarding("v1", "Pod", seen.name, gang.key.namespace, seen.uid)


def preempted(gang: Gang, seen: Seen, stop: StopPod) -> Emit:
    """Return the event that says why a pod is stopped."""
    return Emit(
        regarding_pod(gang, seen), "Preempted", stop.cause.sentence, action="Evicting", type="Warning"
    )


def unreadable_event(unread: Unread) -> Emit | None:
    """Tell people that an object can't be read; None where an event can't name it."""
    kind = _KINDS.get(unread.resource)
    if kind is None:
        return None
    namespace, _, name = unread.key.rpartition("/")
    about = Regarding(kind[0], kind[1], name, namespace, unread.uid)
    return Emit(about, "Unreadable", unread.sentence, type="Warning")
