"""State of a workload for the idle rules, beside its position on the ladder."""

from dataclasses import dataclass


@dataclass(slots=True)
class IdleState:
    """Warning, extension and suspension of one workload.

    `is_ordered`: control has ordered its suspension, and its owner doesn't show it yet. `order_until_s`: when
    to stop waiting for the owner; None before the API server has accepted the order. `is_reported`: control
    knows that the gate holds the workload. `suspended_for`: why Weir suspended it. `refusal`: why it
    couldn't, as a clause.
    """

    warning: str = ""
    extended_until_s: float = 0.0  # extension that was last reported to control
    is_ordered: bool = False
    order_until_s: float | None = None
    is_reported: bool = True
    suspended_for: str = ""
    refusal: str = ""

    def order(self, reason: str) -> None:
        """Begin a suspension."""
        self.is_ordered, self.order_until_s, self.is_reported = True, None, False
        self.suspended_for = reason

    def refuse(self, why: str) -> None:
        """End a suspension that isn't carried out; if there is a reason, no other is ordered."""
        self.is_ordered, self.suspended_for, self.refusal = False, "", why

    def is_late(self, now_s: float) -> bool:
        """Return True if the owner should show an ordered suspension by now."""
        return self.is_ordered and self.order_until_s is not None and now_s >= self.order_until_s

    def settle(self, now_s: float, *, is_suspended: bool) -> None:
        """End an ordered suspension once the owner shows it or is late, and forget an obsolete reason."""
        if is_suspended or self.is_late(now_s):
            self.is_ordered = False
        if not self.is_ordered and not is_suspended:
            self.suspended_for = ""
