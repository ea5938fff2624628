"""Refusals of pending workloads, with the numbers of the check that refused.

A refusal is data. `weir.engine.refusal_sentences` turns it into the reason that people read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple

from weir.model.nodes import Outage
from weir.model.reasons import Reason


class RefusalKind(StrEnum):
    """Quota checks that refuse a pending workload."""

    QUOTA = "quota"  # non-preemptible work over a quota
    LIMIT = "limit"
    HEADROOM = "headroom"


@dataclass(frozen=True, slots=True)
class QuotaRefusal:
    """A quota, limit or headroom: queue, resource row, current amount, requested amount, and maximum."""

    kind: RefusalKind
    queue: int
    row: int
    have: int
    want: int
    most: int
    budgets: tuple[str, ...] = ()  # disruption budgets that make the workload non-preemptible


@dataclass(frozen=True, slots=True)
class NodesRefusal:
    """Nodes that could never take the workload, each by a constraint. The reason is the same while idle."""

    reason: Reason
    over_quota: bool


@dataclass(frozen=True, slots=True)
class Shortage:
    """Capacity that the shapes of a workload lack now, shared by all workloads with these shapes.

    `fitting` are the pods that fit, for each group that lacks some; `nodes` counts the matching nodes that
    can't take a pod by what they are short of; `helped` are the shortages that evictions could end.
    """

    fitting: tuple[int, ...]
    nodes: Mapping[str, int]
    sentence: str
    helped: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuotaShortfall:
    """Queue whose quota a reclaim would exceed. From `claims_s` on, the fair share is a claim."""

    queue: int
    row: int
    have: int
    quota: int
    claims_s: float | None


@dataclass(frozen=True, slots=True)
class NoClaim:
    """No right to evict others: the workload may not preempt, or a quota doesn't cover it."""

    may_preempt: bool
    shortfall: QuotaShortfall | None


@dataclass(frozen=True, slots=True)
class OlderClaims:
    """Older workloads of the project that claim the rest of its quota, and their GPUs in thousandths."""

    project: int
    workloads: tuple[str, ...]
    claimed: int


@dataclass(frozen=True, slots=True)
class PreemptionCycle:
    """Victims for which the workload itself was evicted, and the end of their protection."""

    partners: Mapping[str, float]


class Protection(StrEnum):
    """Causes that protect a running workload from eviction, by precedence."""

    FIXED = "fixed"  # it is non-preemptible
    PRIORITY = "priority"  # same project, and its priority isn't lower
    CLAIM = "claim"  # the requester has no claim on its queue
    QUEUE = "queue"  # its queue isn't above its quota or share
    CYCLE = "cycle"  # the requester was evicted for it a moment ago
    MIN_RUNTIME = "min_runtime"
    REFUSED = "refused"  # its eviction was refused a moment ago
    BUDGETS = "budgets"  # disruption budgets allow no eviction


class SearchEnd(IntEnum):
    """Result of a failed search for victims; of several searches, the greatest."""

    SHORT = 0  # all victims together free too little
    NO_SET = 1  # no set of victims that rules and budgets allow frees enough
    OVERTAKES = 2  # the requester's share would be above those of its victims
    GAVE_UP = 3  # a bound ended the search before all sets


class FailedSearch(NamedTuple):
    """A search for victims without success. A `final` one fails until a checkpoint."""

    end: SearchEnd
    is_final: bool


@dataclass(frozen=True, slots=True)
class IneligibleVictims:
    """Amounts of a resource that running work holds: `eligible` by victims that don't free enough.

    `holders` are the amounts by their protection from the workload, and by project. `shortfall` is the
    quota that keeps it from claiming capacity of other projects. `end` is the end of the search for victims,
    if one was worth it.
    """

    resource: str
    eligible: int
    holders: Mapping[tuple[Protection, int], int]
    budgets: tuple[str, ...]
    shortfall: QuotaShortfall | None
    end: SearchEnd | None = None


NoVictims = NoClaim | OlderClaims | PreemptionCycle | IneligibleVictims
"""Causes why no eviction helps a workload that lacks capacity."""


@dataclass(frozen=True, slots=True)
class ShortageRefusal:
    """Capacity is short, and no eviction helps.

    `groups` are the groups that lack pods, with their number; `level` is the topology level that all of its
    pods have to share.
    """

    shortage: Shortage
    groups: tuple[tuple[str, int], ...]
    level: str | None
    several_groups: bool
    cause: NoVictims
    over_quota: bool


@dataclass(frozen=True, slots=True)
class ModelLimitRefusal:
    """GPU models whose limit (non-preemptible work: quota) is used up, while only such GPUs are free."""

    models: tuple[str, ...]
    non_preemptible: bool


@dataclass(frozen=True, slots=True)
class ReservationRefusal:
    """Free capacity that is reserved for work that has waited longer."""


@dataclass(frozen=True, slots=True)
class DomainPatienceRefusal:
    """A gang that would fit only scattered, and waits for one domain of its preferred level until then."""

    level: str
    until_s: float


@dataclass(frozen=True, slots=True)
class DomainShortage:
    """Domains of the required level: those its pods run in, else the best one with the pods that fit."""

    level: str
    pods: int
    runs_in: tuple[str, ...]
    best: str = ""
    fitting: int = 0


@dataclass(frozen=True, slots=True)
class TogetherRefusal:
    """Each pod of a gang fits now, but not all of them at once."""

    domain: DomainShortage | None
    shortfall: QuotaShortfall | None
    over_quota: bool


@dataclass(frozen=True, slots=True)
class OutageRefusal:
    """An outage of a node that the workload would run into, and its maximum run time, if it has one."""

    node: str
    outage: Outage
    longest_s: float | None
    may_start_before: bool  # preemptible without a maximum run time


Refusal = (
    QuotaRefusal
    | NodesRefusal
    | ShortageRefusal
    | ModelLimitRefusal
    | ReservationRefusal
    | DomainPatienceRefusal
    | TogetherRefusal
    | OutageRefusal
)
