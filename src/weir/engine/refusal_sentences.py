"""Reasons that people read, rendered from refusals. Nothing is looked up here but names."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from weir.engine.holder_phrases import (
    MAX_BUDGETS,
    amounts_phrase,
    budgets_protect,
    holder_phrase,
    names_phrase,
)
from weir.engine.node_refusals import amount_phrase
from weir.engine.refusals import (
    DomainPatienceRefusal,
    DomainShortage,
    IneligibleVictims,
    ModelLimitRefusal,
    NoClaim,
    NodesRefusal,
    OlderClaims,
    OutageRefusal,
    PreemptionCycle,
    QuotaRefusal,
    QuotaShortfall,
    Refusal,
    RefusalKind,
    ReservationRefusal,
    SearchEnd,
    ShortageRefusal,
    TogetherRefusal,
)
from weir.model.nodes import Outage
from weir.model.queues import Queue
from weir.model.reasons import Reason, ReasonCode
from weir.model.resources import GPU, plain_amount, span, written
from weir.state.cluster import Cluster

Numbers = dict[str, object]
_ENDS = {
    SearchEnd.SHORT: "don't free enough",
    SearchEnd.NO_SET: "don't free enough",
    SearchEnd.OVERTAKES: "stay: it would hold more of its share than they of theirs",
    SearchEnd.GAVE_UP: "weren't tried in every combination: the search is bounded",
}


class RefusalSentences:
    """Reasons of the refusals of one state. Workloads with the same refusal share one reason."""

    def __init__(self, cluster: Cluster, now_s: float) -> None:
        self._queues = cluster.ledger.queues
        self._resources = cluster.rows.names
        self._now_s = now_s
        self._known: dict[int, tuple[Refusal, Reason]] = {}  # by identity; the refusal is kept alive
        self._by_type: dict[type, Callable[[Any], Reason]] = {
            QuotaRefusal: self._quota,
            NodesRefusal: _nodes,
            ShortageRefusal: self._shortage,
            ModelLimitRefusal: _model_limit,
            ReservationRefusal: _reservation,
            DomainPatienceRefusal: lambda refusal: _domain_patience(refusal, now_s),
            TogetherRefusal: self._together,
            OutageRefusal: lambda refusal: _outage(refusal, now_s),
        }

    def reason_of(self, refusal: Refusal) -> Reason:
        """Return the reason of a refusal."""
        known = self._known.get(id(refusal))
        if known is None:
            known = self._known[id(refusal)] = refusal, self._by_type[type(refusal)](refusal)
        return known[1]

    # Quotas

    def _quota(self, refusal: QuotaRefusal) -> Reason:
        if refusal.kind is RefusalKind.HEADROOM:
            return _headroom(refusal)
        queue, resource = self._queues[refusal.queue], self._resources[refusal.row]
        is_quota = refusal.kind is RefusalKind.QUOTA
        what = "quota for non-preemptible work" if is_quota else "limit"
        amounts = {"have": refusal.have, "want": refusal.want, "most": refusal.most}
        have, want, most = [written(resource, amount) for amount in amounts.values()]
        sentence = (
            f"{'project' if queue.is_project else 'department'} {queue.name} would exceed its {what}: "
            f"it holds {have} of {most} {_noun(resource)} and this asks for {want} more"
        )
        numbers: Numbers = {"queue": queue.name, "resource": resource}
        numbers |= {name: plain_amount(resource, amount) for name, amount in amounts.items()}
        if refusal.budgets:
            protect = budgets_protect(refusal.budgets)
            sentence = f"{sentence}; {protect} it from eviction, so it may not go over quota"
            numbers["budgets"] = list(refusal.budgets[:MAX_BUDGETS])
        code = ReasonCode.NON_PREEMPTIBLE_OVER_QUOTA if is_quota else ReasonCode.OVER_LIMIT
        return Reason(code, sentence, numbers)

    def _shortfall(
        self, shortfall: QuotaShortfall | None, numbers: Numbers, so: str = "it may only use free capacity"
    ) -> str:
        """Return the quota that a reclaim would exceed, as a clause; add its figures to `numbers`."""
        if shortfall is None:
            return ""
        name, resource = self._queues[shortfall.queue].name, self._resources[shortfall.row]
        numbers["claim"] = {
            "queue": name,
            "resource": resource,
            "would_hold": plain_amount(resource, shortfall.have),
            "quota": plain_amount(resource, shortfall.quota),
        }
        patience = ""
        if shortfall.claims_s is not None:
            left = span(max(1.0, shortfall.claims_s - self._now_s))
            patience = f" (its fair share covers it: it may reclaim that in {left})"
        return (
            f"{name} would hold {written(resource, shortfall.have)} of a quota of "
            f"{written(resource, shortfall.quota)} {_noun(resource)}, "
            f"so {so}{patience}"
        )

    # Capacity

    def _shortage(self, refusal: ShortageRefusal) -> Reason:
        shortage, cause = refusal.shortage, refusal.cause
        fitting = [
            (group, min(lack, fits), lack)
            for (group, lack), fits in zip(refusal.groups, shortage.fitting, strict=True)
        ]
        numbers: Numbers = {
            "short": dict(shortage.nodes),
            "fitting": {group: fits for group, fits, _ in fitting},
            "needed": {group: lack for group, _, lack in fitting},
        }
        where = shortage.sentence
        if refusal.level is not None:
            where += f"; all of its pods have to share one {refusal.level}"
        if isinstance(cause, NoClaim):
            code, sentence = self._no_claim(refusal, cause, fitting, where, numbers)
        elif isinstance(cause, OlderClaims):
            code, sentence = ReasonCode.OLDER_CLAIM, f"{where}; {self._older_claims(cause, numbers)}"
        elif isinstance(cause, PreemptionCycle):
            code, sentence = ReasonCode.PREEMPTION_CYCLE, self._cycle(cause, numbers)
        else:
            claim = self._shortfall(cause.shortfall, numbers, "it may not reclaim")
            victims = _victims(cause, self._queues, numbers)
            sentence = f"{where}; {victims}{'; ' if claim else ''}{claim}"
            code = ReasonCode.NO_ELIGIBLE_VICTIMS
        return _flagged(code, sentence, numbers, refusal.over_quota)

    def _no_claim(
        self,
        refusal: ShortageRefusal,
        cause: NoClaim,
        fitting: Sequence[tuple[str, int, int]],
        where: str,
        numbers: Numbers,
    ) -> tuple[ReasonCode, str]:
        claim = self._shortfall(cause.shortfall, numbers)
        meek = "" if cause.may_preempt else "it may not preempt"
        rest = "".join([f"; {each}" for each in (meek, claim) if each])
        if sum([lack for _, _, lack in fitting]) > 1 and any(fits for _, fits, _ in fitting):
            of_group = " of group {}" if refusal.several_groups else ""
            parts = ", ".join(
                [f"{fits} of {lack} pods{of_group.format(name)}" for name, fits, lack in fitting]
            )
            return ReasonCode.GANG_INCOMPLETE, f"only {parts} fit now: {where}{rest}"
        return ReasonCode.INSUFFICIENT_CAPACITY, f"insufficient capacity: {where}{rest}"

    def _older_claims(self, cause: OlderClaims, numbers: Numbers) -> str:
        """Return the workloads whose claims use up the quota, as a clause."""
        names, project = list(cause.workloads), self._queues[cause.project].name
        numbers["older"], numbers["claimed"] = names, plain_amount(GPU, cause.claimed)
        amount = f" ({amount_phrase(GPU, cause.claimed)})" if cause.claimed else ""
        claims = "claims" if len(names) == 1 else "claim"
        return (
            f"{names_phrase(names)} of {project} came first and {claims} the rest of its quota{amount}, "
            f"so this may only use free capacity"
        )

    def _cycle(self, cause: PreemptionCycle, numbers: Numbers) -> str:
        numbers["partners"] = dict(cause.partners)
        left = span(max(cause.partners.values()) - self._now_s)
        return (
            f"it could evict {names_phrase(sorted(cause.partners))}, for which it was evicted itself: "
            f"not before {left} have passed, so that they don't evict one another in turn"
        )

    def _together(self, refusal: TogetherRefusal) -> Reason:
        numbers: Numbers = {}
        claim = self._shortfall(refusal.shortfall, numbers)
        if refusal.domain is None:
            sentence = "each of its pods fits, but not all of them at once"
        else:
            sentence = _domain(refusal.domain, numbers)
        rest = f"; {claim}" if claim else ""
        return _flagged(ReasonCode.GANG_INCOMPLETE, f"{sentence}{rest}", numbers, refusal.over_quota)


def _outage(refusal: OutageRefusal, now_s: float) -> Reason:
    outage = refusal.outage
    numbers: Numbers = {"node": refusal.node, "from_s": outage.from_s}
    if outage.devices is not None:
        numbers["gpus"] = list(outage.devices)
    if outage.until_s is not None:
        numbers["until_s"] = outage.until_s
    what = f"{_out_of_service(outage, refusal.node)}: {outage.sentence}"
    after = "" if outage.until_s is None else span(outage.until_s - now_s)
    end = f"; it could start after the end, in {after}" if after else ""
    left_s = outage.from_s - now_s
    if left_s <= 0:
        return Reason(ReasonCode.MAINTENANCE, f"{what}{end}", numbers)
    numbers["left_s"] = left_s
    if refusal.longest_s is not None:
        numbers["max_runtime_s"] = refusal.longest_s
        why = f"its maximum run time is {span(refusal.longest_s)}, and that begins in {span(left_s)}"
    elif refusal.may_start_before:
        why = f"that begins in {span(left_s)}, too soon to start it before"
    else:
        why = f"that begins in {span(left_s)}, and it has no --max-runtime that ends before"
    return Reason(ReasonCode.MAINTENANCE, f"{what}; {why}{end}", numbers)


def _domain_patience(refusal: DomainPatienceRefusal, now_s: float) -> Reason:
    left = span(refusal.until_s - now_s)
    sentence = f"it would fit only scattered and waits up to {left} more for one {refusal.level}"
    return Reason(ReasonCode.CAPACITY_RESERVED, sentence)


def _flagged(code: ReasonCode, sentence: str, numbers: Numbers, over_quota: bool) -> Reason:
    if over_quota:
        numbers["over_quota"] = True
    return Reason(code, sentence, numbers)


def _nodes(refusal: NodesRefusal) -> Reason:
    reason = refusal.reason
    return _flagged(reason.why, reason.sentence, dict(reason.numbers), refusal.over_quota)


def _headroom(refusal: QuotaRefusal) -> Reason:
    amounts = {"free": refusal.have, "kept": refusal.most, "want": refusal.want}
    numbers = {name: plain_amount(GPU, amount) for name, amount in amounts.items()}
    sentence = (
        f"it would go over quota, and of {written(GPU, refusal.have)} free GPUs "
        f"{written(GPU, refusal.most)} are kept for owners"
    )
    return Reason(ReasonCode.CAPACITY_RESERVED, sentence, numbers)


def _model_limit(refusal: ModelLimitRefusal) -> Reason:
    fixed = refusal.non_preemptible
    what = "quota for non-preemptible work" if fixed else "limit"
    sentence = (
        f"the free GPUs are {', '.join(refusal.models)}, and its queues are at their {what} for these models"
    )
    code = ReasonCode.NON_PREEMPTIBLE_OVER_QUOTA if fixed else ReasonCode.OVER_LIMIT
    return Reason(code, sentence, {"models": list(refusal.models)})


def _reservation(_: ReservationRefusal) -> Reason:
    sentence = "the free capacity is reserved for work that has waited longer"
    return Reason(ReasonCode.CAPACITY_RESERVED, sentence)


def _victims(cause: IneligibleVictims, queues: Sequence[Queue], numbers: Numbers) -> str:
    """Return the amounts of eligible victims and of protected holders, as a clause."""
    resource, held_by = cause.resource, Counter[str]()
    for (protection, project), units in cause.holders.items():
        held_by[holder_phrase(protection, queues[project].name, cause.budgets)] += units
    if cause.budgets:
        numbers["budgets"] = list(cause.budgets[:MAX_BUDGETS])
    numbers["held_by"] = {holder: plain_amount(resource, held) for holder, held in held_by.items()}
    numbers["resource"] = resource
    held = amounts_phrase(resource, held_by)
    if not cause.eligible:
        return f"no eligible victims: {held}"
    numbers["eligible"] = plain_amount(resource, cause.eligible)
    if cause.end is SearchEnd.GAVE_UP:
        numbers["gave_up"] = True
    failed = "don't free enough" if cause.end is None else _ENDS[cause.end]
    eligible = f"the eligible victims ({amount_phrase(resource, cause.eligible)}) {failed}"
    return f"{eligible}; {held}" if held else eligible


def _domain(domain: DomainShortage, numbers: Numbers) -> str:
    level, pods = domain.level, domain.pods
    numbers.update(level=level, pods=pods)
    if domain.runs_in:
        those = "one more pod" if pods == 1 else f"{pods} more pods"
        names = " and ".join(domain.runs_in)
        return f"its pods share one {level} and run in {names}, which can't take {those}"
    numbers.update(best=domain.best, fitting_there=domain.fitting)
    return (
        f"no {level} has capacity for all {pods} pods that have to share one: "
        f"the best, {domain.best}, takes {domain.fitting} now"
    )


def _out_of_service(outage: Outage, node: str) -> str:
    if outage.devices is None:
        return f"node {node} goes out of service"
    indices, several = ", ".join([str(device) for device in outage.devices]), len(outage.devices) != 1
    return f"GPU{'s' if several else ''} {indices} of {node} go{'' if several else 'es'} out of service"


def _noun(resource: str) -> str:
    return "GPUs" if resource == GPU else resource
