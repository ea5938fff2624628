"""Reasons of the condition `PodScheduled` and of the events about pods that wait.

Autoscalers buy nodes for pods whose condition has the reason `Unschedulable`, and for no others. So only
work within its quota that more nodes would help has that reason; everything else has its own word.
"""

from weir.api.answers import Explanation
from weir.model.reasons import ReasonCode as Code

UNSCHEDULABLE = "Unschedulable"
OVER_QUOTA = "OverQuota"
HELPED_BY_NODES = frozenset(
    (
        Code.NO_NODE_MATCHES,
        Code.INSUFFICIENT_CAPACITY,
        Code.NO_ELIGIBLE_VICTIMS,
        Code.GANG_INCOMPLETE,
        Code.PREEMPTION_CYCLE,
    )
)
"""Codes of reasons that more nodes would end."""
_REASONS = {
    Code.OVER_LIMIT: "LimitExceeded",
    Code.NON_PREEMPTIBLE_OVER_QUOTA: "QuotaExceeded",
    Code.WAITING_FOR_EVICTION: "WaitingForEviction",
    Code.CAPACITY_RESERVED: "CapacityReserved",
    Code.SUSPENDED: "Suspended",
    Code.NOT_READY: "GangIncomplete",
}
"""Reasons by code. A code that isn't here is its own reason, in camel case: `some_code` is `SomeCode`."""


def condition_reason(why: Explanation) -> str:
    """Return the one word for why a pod waits."""
    if why.why in HELPED_BY_NODES and why.numbers.get("over_quota"):
        return OVER_QUOTA
    if why.why in HELPED_BY_NODES:
        return "TopologyNotFound" if "known" in why.numbers else UNSCHEDULABLE
    found = _REASONS.get(why.why)  # type: ignore[call-overload] # a code is the text of itself
    return found or "".join(part.capitalize() for part in why.why.split("_"))
