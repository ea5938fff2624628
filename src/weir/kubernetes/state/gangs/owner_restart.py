"""Restarts of workloads whose pods can't be evicted, because their owner would fail for good.

Weir suspends the owner, whose controller deletes the pods, and resumes it once they are gone. The suspension
is written together with a mark on the owner, so a restart of Weir loses nothing. An owner suspended without
the mark was suspended by a person.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class OwnerRestart:
    """State of the restart of one workload by a suspension of its owner.

    `is_ordered`: the suspension is ordered, and the owner doesn't show it yet. `is_shown`: the owner is
    suspended, and its pods still exist. `is_undone`: the owner was resumed while it still had pods.
    `until_s`: when to stop waiting for the deletion of the pods; None before the API server answered.
    `is_certain`: the API server has accepted the suspension.
    """

    is_ordered: bool = False
    is_shown: bool = False
    is_undone: bool = False
    until_s: float | None = None
    is_certain: bool = False

    @property
    def is_under_way(self) -> bool:
        """Return True while the controller still has to delete its pods."""
        return self.is_ordered or self.is_shown

    def order(self) -> None:
        """Begin a restart."""
        self.end()
        self.is_ordered = True

    def end(self) -> None:
        """End a restart, because its pods are deleted or because it isn't carried out."""
        self.is_ordered = self.is_shown = self.is_undone = self.is_certain = False
        self.until_s = None

    def is_late(self, now_s: float) -> bool:
        """Return True if all pods should be terminating already."""
        return self.until_s is not None and now_s >= self.until_s

    def settle(self, *, is_suspended: bool) -> None:
        """Update the restart by the state of the owner."""
        if is_suspended:
            self.is_shown, self.is_ordered = self.is_under_way, False
        elif self.is_shown:
            self.is_shown, self.is_undone = False, True
