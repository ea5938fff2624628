"""Estimate when the Job controller makes new pods after evictions and failures.

The controller pauses 10 s after the first pod of a Job that failed or was evicted. The pause doubles with
each further one until a pod succeeds, up to 10 min. With `backoffLimitPerIndex` it counts each index by
itself: a gang of six that is evicted once pauses 10 s instead of 320 s.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

FIRST_S, MOST_S = 10.0, 600.0
_DOUBLINGS_MAX = 10


@dataclass(slots=True, eq=False)
class JobBackoff:
    """Pods of one Job that failed or were evicted since its last success."""

    lost: int = 0
    stopped: int = 0  # the part of `lost` that was evicted or deleted
    last_s: float = 0.0

    def lose(self, now_s: float, *, over: str, bound: bool, stopping: bool) -> None:
        """Count an ended pod; a pod without a node counts only if it failed."""
        if over == "Succeeded":
            self.lost = self.stopped = 0
        elif over or bound:
            self.lost += 1
            self.stopped += stopping
            self.last_s = now_s

    def resume(self, lost: int, stopped: int, last_s: float) -> None:
        """Continue with the counts of an earlier process."""
        if not self.lost:
            self.lost, self.stopped, self.last_s = max(0, lost), max(0, stopped), last_s

    def until_s(self, body: Mapping[str, Any] | None, pods: int) -> float | None:
        """Return roughly when the controller makes new pods of a Job; None if that is unknown."""
        if body is None or body.get("kind") != "Job" or not self.lost:
            return None
        spec = body.get("spec") or {}
        count = self.lost
        if spec.get("backoffLimitPerIndex") is not None:
            count = -(-count // max(1, pods))  # a gang loses all its indices together
        return self.last_s + min(MOST_S, FIRST_S * float(2 ** min(count - 1, _DOUBLINGS_MAX)))

    def sentence(self, body: Mapping[str, Any] | None, pods: int) -> str:
        """Return a sentence about the back-off of the Job controller; empty without a back-off to report."""
        until_s = self.until_s(body, pods)
        if until_s is None:
            return ""
        ends_at = datetime.fromtimestamp(until_s, UTC).strftime("%H:%M:%S")
        cause = "an eviction" if self.stopped else "a failed pod"
        return f"The Job controller pauses after {cause}, until about {ends_at} UTC."
