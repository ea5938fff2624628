"""Events about workloads and their pods."""

from weir.control.port import StopPod
from weir.kubernetes.crd.schemas import API_VERSION
from weir.kubernetes.state.gangs.gang import Gang, TrackedPod
from weir.kubernetes.writes.operations import EmitEvent, EventSubject


def regarding(gang: Gang, uid: str) -> EventSubject:
    """Return the reference to its object in an Event, with the uid that `kubectl describe` needs."""
    return EventSubject(API_VERSION, "Workload", gang.object_name, gang.key.namespace, uid)


def regarding_pod(gang: Gang, tracked: TrackedPod) -> EventSubject:
    """Return a pod as the subject of an Event."""
    return EventSubject("v1", "Pod", tracked.name, gang.key.namespace, tracked.uid)


def preempted(gang: Gang, tracked: TrackedPod, stop: StopPod) -> EmitEvent:
    """Return the event that says why a pod is stopped."""
    return EmitEvent(
        regarding_pod(gang, tracked), "Preempted", stop.cause.sentence, action="Evicting", type="Warning"
    )
