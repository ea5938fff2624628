"""Grace period of an eviction: that of the pod, up to the maximum of the policy.

A tenant may set any period on a pod, and delete the pod with another. Until its end the pod holds GPUs to
which other work may have a claim.
"""

from math import ceil

from weir.kubernetes.state.gangs.gang import TrackedPod


def shortened_grace_s(tracked: TrackedPod, most_s: float) -> int | None:
    """Return the grace period of an eviction if it is shorter than the pod's own; None otherwise.

    `most_s` is the time that the workload has to stop: the longest of its pods, up to that of the policy.
    """
    own_s = None if tracked.info is None else tracked.info.pod_request.grace_s
    return None if own_s is None or own_s <= most_s else least_grace_s(most_s)


def least_grace_s(most_s: float) -> int:
    """Return a grace period in whole seconds; 0 would delete the pod before its node has stopped it."""
    return max(1, ceil(most_s))
