"""Short phases: a workload that is about to change is written once, after the change."""

from weir.kubernetes.state.gangs.gang import Gang
from weir.kubernetes.writes.statuses.fields import pending
from weir.kubernetes.writes.statuses.workload_body import WrittenStatus

PASSING_S, STARTING_S = 1.0, 15.0
"""Time after which a short phase is written: usually, and "Starting" while many workloads change.

Most workloads run before that, and one write is enough.
"""
OWNER_S = 10.0
"""Time to wait for the owners of pods. Until then, a pod may turn out to belong to another workload."""


def passing_until(gang: Gang, phase: str, done: WrittenStatus, *, has_reason: bool, is_burst: bool) -> float:
    """Return until when the state of a workload is likely to change again."""
    assert gang.head is not None
    if done.undecided_s is not None:
        return done.undecided_s + PASSING_S  # its pods are back: the next decision has their reason
    if is_burst and phase == "Starting" and not any(pending(gang)):
        return max(tracked.at_s for tracked in gang.pods() if tracked.holds) + STARTING_S
    if phase == "Pending" and gang.head.orphan:
        return done.since_s + OWNER_S
    is_passing = phase == "Starting" or (phase == "Pending" and not has_reason)
    return done.since_s + PASSING_S if is_passing else 0.0
