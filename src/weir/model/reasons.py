"""Reasons of pending workloads and causes of evictions: data first, one sentence from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ReasonCode(StrEnum):
    """Codes of all reasons for which a workload is pending."""

    OVER_LIMIT = "over_limit"
    NON_PREEMPTIBLE_OVER_QUOTA = "non_preemptible_over_quota"
    NO_NODE_MATCHES = "no_node_matches"
    INSUFFICIENT_CAPACITY = "insufficient_capacity"
    OLDER_CLAIM = "older_claim"
    NO_ELIGIBLE_VICTIMS = "no_eligible_victims"
    GANG_INCOMPLETE = "gang_incomplete"
    WAITING_FOR_EVICTION = "waiting_for_eviction"
    CAPACITY_RESERVED = "capacity_reserved"
    PREEMPTION_CYCLE = "preemption_cycle"
    SUSPENDED = "suspended"
    RETRYING = "retrying"
    PERSON_LIMIT = "person_limit"
    NOT_READY = "not_ready"
    MAINTENANCE = "maintenance"
    BEGIN_TIME = "begin_time"
    DEPENDENCY = "dependency"


class EvictionRule(StrEnum):
    """Rules by which a pod is evicted."""

    RECLAIM_SHARE = "reclaim_share"
    RECLAIM_QUOTA = "reclaim_quota"
    PREEMPT = "preempt"
    CONSOLIDATE = "consolidate"
    SWAP = "swap"
    REPACK = "repack"
    GANG_BROKEN = "gang_broken"
    OVERCOMMITTED = "overcommitted"
    MEMORY_EXCEEDED = "memory_exceeded"
    IDLE = "idle"


_RULE_PHRASES: Mapping[str, str] = {
    EvictionRule.RECLAIM_SHARE: "reclaim of fair share",
    EvictionRule.RECLAIM_QUOTA: "reclaim of quota",
    EvictionRule.PREEMPT: "preemption",
    EvictionRule.CONSOLIDATE: "consolidation",
    EvictionRule.SWAP: "swap",
    EvictionRule.REPACK: "repacking",
    EvictionRule.GANG_BROKEN: "broken gang",
    EvictionRule.OVERCOMMITTED: "over-commitment",
    EvictionRule.MEMORY_EXCEEDED: "use of GPU memory",
    EvictionRule.IDLE: "idle work",
}


def rule_phrase(rule: str) -> str:
    """Return the rule of an eviction in words; one of another version by its code."""
    return _RULE_PHRASES.get(rule, rule.replace("_", " "))


@dataclass(frozen=True, slots=True)
class Reason:
    """Reason of a pending workload. `sentence` is for people; `numbers` are its data.

    Amounts are plain: GPUs and cores with fractions, memory in bytes.
    """

    why: ReasonCode
    sentence: str
    numbers: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvictionCause:
    """Cause of an eviction: the beneficiary, the rule, and the shares of both queues.

    `choice` has the cost of the eviction, and the cost of the next choice of victims.
    """

    rule: EvictionRule
    by: str | None
    sentence: str
    numbers: Mapping[str, object] = field(default_factory=dict)
    choice: str = ""


def suspension_reason(code: ReasonCode, why: str, until_s: float | None = None) -> Reason:
    """Return the reason of a suspended workload, with the time at which that ends by itself, if any."""
    numbers: dict[str, object] = {} if until_s is None else {"until_s": until_s}
    if code is not ReasonCode.SUSPENDED:
        return Reason(code, why, numbers)
    why = why or "suspended"
    return Reason(code, f"it is suspended: {why}", {"suspended": why, **numbers})


def as_sentence(text: str) -> str:
    """Return a clause as a sentence of its own; a name at its beginning keeps its case."""
    if text.partition(" ")[0].isalpha():
        text = text[0].upper() + text[1:]
    return text if not text or text.endswith(("?", "!")) else f"{text.rstrip('.')}."


def as_clause(sentence: str) -> str:
    """Return a sentence as the second half of another."""
    return sentence[:1].lower() + sentence[1:]
