"""Restarts of workloads whose pods can't be evicted, because their owner would fail for good.

Weir suspends the owner, whose controller deletes the pods, and resumes it once they are gone. A mark on the
owner comes with the suspension, so a restart of Weir loses nothing. Without the mark, a person has suspended
the owner.
"""

from dataclasses import dataclass

from weir.kubernetes.translate.kinds import OwnerSuspension


@dataclass(slots=True)
class OwnerRestart:
    """State of the restart of one workload.

    `is_ordered`: its owner is to be suspended, and doesn't show it yet. `order_until_s`: when to stop waiting
    for the owner; None before the API server took the order. `refusal`: why it couldn't be suspended: its
    pods are evicted then. `is_resuming`: the owner is to be resumed, and doesn't show it yet.
    """

    is_ordered: bool = False
    order_until_s: float | None = None
    refusal: str = ""
    is_resuming: bool = False

    def applies(self, suspension: OwnerSuspension | None, role: str) -> bool:
        """Return True if a pod of this role is stopped by the suspension of its owner."""
        return suspension is not None and role in suspension.roles and not self.refusal

    def order(self) -> None:
        """Begin a restart."""
        self.is_ordered, self.order_until_s = True, None

    def refuse(self, why: str) -> None:
        """End a restart that isn't carried out; with a reason there will be no other."""
        self.is_ordered, self.refusal = False, why

    def is_late(self, now_s: float) -> bool:
        """Return True if the owner should show its suspension by now."""
        return self.is_ordered and self.order_until_s is not None and now_s >= self.order_until_s

    def settle(self, *, is_suspended: bool) -> None:
        """Bring the restart up to the state of the owner."""
        if is_suspended:
            self.is_ordered = False
        else:
            self.is_resuming = False
