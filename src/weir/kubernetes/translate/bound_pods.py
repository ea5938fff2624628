"""Pods on nodes: the annotations that Weir writes with a binding, and the times that statuses state."""

from weir.kubernetes.api.object_numbers import seconds_of
from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.translate.annotations import PREFIX, WRITTEN_BY_WEIR

GPUS_KEY, MEMORY_KEY, START_KEY, OWNER_KEY = (f"{PREFIX}{name}" for name in WRITTEN_BY_WEIR)
"""Annotations written with a binding: the devices, the bytes of each for a share, the number of the start,
and the topmost owner of a pod with several."""


def is_ready(pod: KubePod) -> bool:
    """Return True if the pod's condition Ready is true."""
    return any(
        condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions
    )


def placed_s(pod: KubePod) -> float:
    """Return the time at which a pod got its node, if its status states one."""
    scheduled = next(
        (condition for condition in pod.status.conditions if condition.type == "PodScheduled"), None
    )
    return (
        seconds_of(scheduled.last_transition_time)
        if scheduled is not None and scheduled.status == "True"
        else 0.0
    )


def scheduled_s(pod: KubePod) -> float:
    """Return the latest time at which a pod can have been assigned to its node."""
    return placed_s(pod) or seconds_of(pod.status.start_time or pod.metadata.creation_timestamp)
