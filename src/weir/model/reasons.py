"""Why a workload waits and why one was stopped: data first, one sentence from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ReasonCode(StrEnum):
    """Every "no" the engine can say."""

    OVER_LIMIT = "over_limit"
    NON_PREEMPTIBLE_OVER_QUOTA = "non_preemptible_over_quota"
    NO_NODE_MATCHES = "no_node_matches"
    INSUFFICIENT_CAPACITY = "insufficient_capacity"
    NO_ELIGIBLE_VICTIMS = "no_eligible_victims"
    GANG_INCOMPLETE = "gang_incomplete"
    WAITING_FOR_EVICTION = "waiting_for_eviction"
    CAPACITY_RESERVED = "capacity_reserved"
    PREEMPTION_CYCLE = "preemption_cycle"
    SUSPENDED = "suspended"
    NOT_READY = "not_ready"


class EvictionRule(StrEnum):
    """Under which rule a pod was stopped."""

    RECLAIM_SHARE = "reclaim_share"
    RECLAIM_QUOTA = "reclaim_quota"
    PREEMPT = "preempt"
    CONSOLIDATE = "consolidate"
    SWAP = "swap"
    REPACK = "repack"
    GANG_BROKEN = "gang_broken"
    OVERCOMMITTED = "overcommitted"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a workload waits. `sentence` is what people read; `numbers` are what it says."""

    why: ReasonCode
    sentence: str
    numbers: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvictionCause:
    """Why a pod was stopped: for whom, under which rule, and the two queues' shares around it."""

    rule: EvictionRule
    by: str | None
    sentence: str
    numbers: Mapping[str, object] = field(default_factory=dict)


def as_clause(sentence: str) -> str:
    """A sentence as the second half of another."""
    return sentence[:1].lower() + sentence[1:]
