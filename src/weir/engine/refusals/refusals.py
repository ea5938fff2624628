"""Refusals of pending workloads: the numbers of the check that refused, and the reason that people read.

Those for a shortage of capacity are in `weir.engine.refusals.shortage_refusals`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple, Protocol

from weir.engine.refusals.holder_phrases import MAX_BUDGETS, budgets_protect
from weir.model.nodes import Outage
from weir.model.queues import Queue
from weir.model.reasons import Reason, ReasonCode
from weir.model.resources import GPU, plain_amount, span, written
from weir.state.cluster import Cluster

Numbers = dict[str, object]


class Wording(NamedTuple):
    """Names and the time that sentences need: queues by position, resources by row."""

    queues: Sequence[Queue]
    resources: Sequence[str]
    now_s: float


class PendingRefusal(Protocol):
    """Refusal of a pending workload."""

    def reason(self, wording: Wording) -> Reason:
        """Return the refusal as data and as one sentence."""
        ...


class RefusalSentences:
    """Reasons of the refusals of one state. Workloads with the same refusal share one reason."""

    def __init__(self, cluster: Cluster, now_s: float) -> None:
        self._wording = Wording(cluster.ledger.queues, cluster.rows.names, now_s)
        self._reasons: dict[int, tuple[PendingRefusal, Reason]] = {}  # by identity; the refusal is kept alive

    def reason_of(self, refusal: PendingRefusal) -> Reason:
        """Return the reason of a refusal."""
        kept = self._reasons.get(id(refusal))
        if kept is None:
            kept = self._reasons[id(refusal)] = refusal, refusal.reason(self._wording)
        return kept[1]


class SearchEnd(IntEnum):
    """Result of a failed search for victims, in rising order; several searches have the greatest one."""

    SHORT = 0  # all victims together free too little
    NO_SET = 1  # no set of victims that rules and budgets allow frees enough
    OVERTAKES = 2  # the requester's share would be above those of its victims
    GAVE_UP = 3  # a bound ended the search before all sets


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

    def reason(self, wording: Wording) -> Reason:
        """Return the queue and its amounts, or the headroom that owners keep."""
        if self.kind is RefusalKind.HEADROOM:
            return self._headroom_reason()
        queue, resource = wording.queues[self.queue], wording.resources[self.row]
        is_quota = self.kind is RefusalKind.QUOTA
        noun = "quota for non-preemptible work" if is_quota else "limit"
        amounts = {"have": self.have, "want": self.want, "most": self.most}
        have, want, most = [written(resource, amount) for amount in amounts.values()]
        sentence = (
            f"{'project' if queue.is_project else 'department'} {queue.name} would exceed its {noun}: "
            f"it holds {have} of {most} {_noun(resource)} and this asks for {want} more"
        )
        numbers: Numbers = {"queue": queue.name, "resource": resource}
        numbers |= {name: plain_amount(resource, amount) for name, amount in amounts.items()}
        if self.budgets:
            protect = budgets_protect(self.budgets)
            sentence = f"{sentence}; {protect} it from eviction, so it may not go over quota"
            numbers["budgets"] = list(self.budgets[:MAX_BUDGETS])
        code = ReasonCode.NON_PREEMPTIBLE_OVER_QUOTA if is_quota else ReasonCode.OVER_LIMIT
        return Reason(code, sentence, numbers)

    def _headroom_reason(self) -> Reason:
        amounts = {"free": self.have, "kept": self.most, "want": self.want}
        numbers = {name: plain_amount(GPU, amount) for name, amount in amounts.items()}
        sentence = (
            f"it would go over quota, and of {written(GPU, self.have)} free GPUs "
            f"{written(GPU, self.most)} are kept for owners"
        )
        return Reason(ReasonCode.CAPACITY_RESERVED, sentence, numbers)


@dataclass(frozen=True, slots=True)
class QuotaShortfall:
    """Quota that a reclaim would exceed. From the time `claims_s` on, the fair share allows the reclaim."""

    over: QuotaRefusal
    claims_s: float | None

    def clause(self, wording: Wording, numbers: Numbers, so: str = "it may only use free capacity") -> str:
        """Return the quota that a reclaim would exceed, as a clause; add its figures to `numbers`."""
        over, resource = self.over, wording.resources[self.over.row]
        name, held = wording.queues[over.queue].name, over.have + over.want
        numbers["claim"] = {
            "queue": name,
            "resource": resource,
            "would_hold": plain_amount(resource, held),
            "quota": plain_amount(resource, over.most),
        }
        patience = ""
        if self.claims_s is not None:
            left = span(max(1.0, self.claims_s - wording.now_s))
            patience = f" (its fair share covers it: it may reclaim that in {left})"
        return (
            f"{name} would hold {written(resource, held)} of a quota of "
            f"{written(resource, over.most)} {_noun(resource)}, so {so}{patience}"
        )


@dataclass(frozen=True, slots=True)
class NodesRefusal:
    """Nodes that could never take the workload, by constraint; `of_nodes` doesn't depend on their load."""

    of_nodes: Reason
    over_quota: bool

    def reason(self, _: Wording) -> Reason:
        """Return the constraints."""
        of_nodes = self.of_nodes
        return flagged(of_nodes.why, of_nodes.sentence, dict(of_nodes.numbers), self.over_quota)


@dataclass(frozen=True, slots=True)
class ModelLimitRefusal:
    """GPU models whose limit (non-preemptible work: quota) is used up, while only such GPUs are free."""

    models: tuple[str, ...]
    non_preemptible: bool

    def reason(self, _: Wording) -> Reason:
        """Return the models."""
        fixed = self.non_preemptible
        noun = "quota for non-preemptible work" if fixed else "limit"
        sentence = (
            f"the free GPUs are {', '.join(self.models)}, and its queues are at their {noun} for these models"
        )
        code = ReasonCode.NON_PREEMPTIBLE_OVER_QUOTA if fixed else ReasonCode.OVER_LIMIT
        return Reason(code, sentence, {"models": list(self.models)})


@dataclass(frozen=True, slots=True)
class ReservationRefusal:
    """Free capacity that is reserved for work that has waited longer."""

    def reason(self, _: Wording) -> Reason:
        """Return that the capacity is reserved."""
        sentence = "the free capacity is reserved for work that has waited longer"
        return Reason(ReasonCode.CAPACITY_RESERVED, sentence)


@dataclass(frozen=True, slots=True)
class DomainPatienceRefusal:
    """A gang that fits only scattered now, and waits until a time for one domain of its preferred level."""

    level: str
    until_s: float

    def reason(self, wording: Wording) -> Reason:
        """Return the level and the time that is left."""
        left = span(self.until_s - wording.now_s)
        sentence = f"it would fit only scattered and waits up to {left} more for one {self.level}"
        return Reason(ReasonCode.CAPACITY_RESERVED, sentence)


@dataclass(frozen=True, slots=True)
class DomainShortage:
    """Domains of the required level: those of its running pods, else the best, with the pods that fit."""

    level: str
    pods: int
    runs_in: tuple[str, ...]
    best: str = ""
    fitting: int = 0

    def clause(self, numbers: Numbers) -> str:
        """Return that no domain of the level can take the pods; the figures are added to `numbers`."""
        level, pods = self.level, self.pods
        numbers.update(level=level, pods=pods)
        if self.runs_in:
            those = "one more pod" if pods == 1 else f"{pods} more pods"
            names = " and ".join(self.runs_in)
            return f"its pods share one {level} and run in {names}, which can't take {those}"
        numbers.update(best=self.best, fitting_there=self.fitting)
        return (
            f"no {level} has capacity for all {pods} pods that have to share one: "
            f"the best, {self.best}, takes {self.fitting} now"
        )


@dataclass(frozen=True, slots=True)
class TogetherRefusal:
    """Each pod of a gang fits now, but not all of them at once."""

    domain: DomainShortage | None
    shortfall: QuotaShortfall | None
    over_quota: bool

    def reason(self, wording: Wording) -> Reason:
        """Return the domain that the pods would have to share."""
        numbers: Numbers = {}
        claim = "" if self.shortfall is None else f"; {self.shortfall.clause(wording, numbers)}"
        sentence = "each of its pods fits, but not all of them at once"
        if self.domain is not None:
            sentence = self.domain.clause(numbers)
        return flagged(ReasonCode.GANG_INCOMPLETE, f"{sentence}{claim}", numbers, self.over_quota)


@dataclass(frozen=True, slots=True)
class OutageRefusal:
    """An outage of a node that the workload would run into, and its maximum run time, if it has one."""

    node: str
    outage: Outage
    longest_s: float | None
    may_start_before: bool  # preemptible without a maximum run time

    def reason(self, wording: Wording) -> Reason:
        """Return the outage, and when the workload could start."""
        outage, left_s = self.outage, self.outage.from_s - wording.now_s
        numbers: Numbers = {"node": self.node, "from_s": outage.from_s}
        if outage.devices is not None:
            numbers["gpus"] = list(outage.devices)
        if outage.until_s is not None:
            numbers["until_s"] = outage.until_s
        cause = f"{self._out_of_service()}: {outage.sentence}"
        after = "" if outage.until_s is None else span(outage.until_s - wording.now_s)
        end = f"; it could start after the end, in {after}" if after else ""
        if left_s <= 0:
            return Reason(ReasonCode.MAINTENANCE, f"{cause}{end}", numbers)
        numbers["left_s"] = left_s
        if self.longest_s is not None:
            numbers["max_runtime_s"] = self.longest_s
            why = f"its maximum run time is {span(self.longest_s)}, and the outage begins in {span(left_s)}"
        elif self.may_start_before:
            why = f"the outage begins in {span(left_s)}, too soon to start it before"
        else:
            why = f"the outage begins in {span(left_s)}, and it has no --max-runtime that ends before"
        return Reason(ReasonCode.MAINTENANCE, f"{cause}; {why}{end}", numbers)

    def _out_of_service(self) -> str:
        devices = self.outage.devices
        if devices is None:
            return f"node {self.node} goes out of service"
        indices, several = ", ".join([str(device) for device in devices]), len(devices) != 1
        return (
            f"GPU{'s' if several else ''} {indices} of {self.node} go{'' if several else 'es'} out of service"
        )


def flagged(code: ReasonCode, sentence: str, numbers: Numbers, over_quota: bool) -> Reason:
    """Return a reason that tells whether the workload is over quota."""
    if over_quota:
        numbers["over_quota"] = True
    return Reason(code, sentence, numbers)


def _noun(resource: str) -> str:
    return "GPUs" if resource == GPU else resource
