"""Reasons of the condition `PodScheduled` and of the events about pods that wait.

Autoscalers buy nodes for pods whose condition has the reason `Unschedulable`, and for no others. So only work
within its quota that more nodes would help has that reason; other work has other reasons.
"""

from collections.abc import Iterator

from weir.api.answers import Explanation
from weir.control.port import LifecycleRule
from weir.kubernetes.translate.gates import CLAIM, GATED, OWNER_MISSING, REFUSED, VOLUME
from weir.model.reasons import EvictionRule
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
    Code.PERSON_LIMIT: "LimitExceeded",
    Code.MAINTENANCE: "Maintenance",
    Code.DEPENDENCY: "Dependency",
    Code.NON_PREEMPTIBLE_OVER_QUOTA: "QuotaExceeded",
    Code.WAITING_FOR_EVICTION: "WaitingForEviction",
    Code.CAPACITY_RESERVED: "CapacityReserved",
    Code.SUSPENDED: "Suspended",
    Code.NOT_READY: "GangIncomplete",
}
"""Reasons by code. Another code is its own reason, in camel case: `some_code` is `SomeCode`."""
WORKLOAD_ENDED = "workload_ended"
UNREADABLE_POD = "Unreadable"
_OWN_CODES = (GATED, VOLUME, CLAIM, OWNER_MISSING, REFUSED, WORKLOAD_ENDED)
TOPOLOGY_NOT_FOUND, _STOPPED = "TopologyNotFound", "Stopped"
_STOP_RULES = frozenset(rule.value for rules in (EvictionRule, LifecycleRule) for rule in rules)
"""Rules by which pods are stopped: the reason of the pods that replace them, until the next decision."""


def condition_reason(why: Explanation) -> str:
    """Return the reason word of a pending pod's condition."""
    if why.why in HELPED_BY_NODES and why.numbers.get("over_quota"):
        return OVER_QUOTA
    if why.why in HELPED_BY_NODES:
        return TOPOLOGY_NOT_FOUND if "known" in why.numbers else UNSCHEDULABLE
    return _word(why.why)


def all_condition_reasons() -> Iterator[str]:
    """Yield the reasons of all conditions of pending pods."""
    yield from (UNSCHEDULABLE, OVER_QUOTA, TOPOLOGY_NOT_FOUND, UNREADABLE_POD, _STOPPED)
    yield from {_word(code) for code in Code if code not in HELPED_BY_NODES}
    yield from map(_word, _OWN_CODES)


def _word(code: str) -> str:
    word = _REASONS.get(code)  # type: ignore[call-overload] # a code is the text of itself
    if word is None and code in _STOP_RULES:
        return _STOPPED
    return word or "".join(part.capitalize() for part in code.split("_"))
