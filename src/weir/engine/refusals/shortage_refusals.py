"""Refusals for a shortage of capacity, with the cause why no eviction helps."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weir.engine.refusals.holder_phrases import (
    MAX_BUDGETS,
    Protection,
    amounts_phrase,
    holder_phrase,
    names_phrase,
)
from weir.engine.refusals.node_refusals import amount_phrase
from weir.engine.refusals.refusals import Numbers, QuotaShortfall, SearchEnd, Wording, flagged
from weir.model.reasons import Reason, ReasonCode
from weir.model.resources import GPU, plain_amount, span

_ENDS = {
    SearchEnd.SHORT: "don't free enough",
    SearchEnd.NO_SET: "don't free enough",
    SearchEnd.OVERTAKES: "stay: its queue would then use a larger part of its share than theirs",
    SearchEnd.GAVE_UP: "weren't tried in every combination: the search is bounded",
}


@dataclass(frozen=True, slots=True)
class Shortage:
    """Capacity that the shapes of a workload lack now, shared by all workloads with these shapes.

    `fitting` has the number of pods that fit for each group with missing pods. `nodes` has the number of
    matching nodes that can't take a pod, by the resource that is short. `helped` are the shortages that
    evictions could end.
    """

    fitting: tuple[int, ...]
    nodes: Mapping[str, int]
    sentence: str
    helped: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoClaim:
    """No right to evict others: the workload may not preempt, or a quota doesn't cover it."""

    may_preempt: bool
    shortfall: QuotaShortfall | None

    def clause(self, wording: Wording, numbers: Numbers) -> str:
        """Return the obstacles to evicting others, each after a semicolon; empty if unknown."""
        meek = "" if self.may_preempt else "; it may not preempt"
        return meek if self.shortfall is None else f"{meek}; {self.shortfall.clause(wording, numbers)}"


@dataclass(frozen=True, slots=True)
class OlderClaims:
    """Older workloads of the project that claim the rest of its quota, and their GPUs in thousandths."""

    project: int
    workloads: tuple[str, ...]
    claimed: int

    def clause(self, wording: Wording, numbers: Numbers) -> str:
        """Return the workloads whose claims use up the quota."""
        names = list(self.workloads)
        numbers["older"], numbers["claimed"] = names, plain_amount(GPU, self.claimed)
        amount = f" ({amount_phrase(GPU, self.claimed)})" if self.claimed else ""
        claims = "claims" if len(names) == 1 else "claim"
        return (
            f"{names_phrase(names)} of {wording.queues[self.project].name} came first and {claims} the rest "
            f"of its quota{amount}, so this may only use free capacity"
        )


@dataclass(frozen=True, slots=True)
class PreemptionCycle:
    """Victims for which the workload itself was evicted, and the end of their protection."""

    partners: Mapping[str, float]

    def clause(self, wording: Wording, numbers: Numbers) -> str:
        """Return the victims, and how long they are protected."""
        numbers["partners"] = dict(self.partners)
        left = span(max(self.partners.values()) - wording.now_s)
        return (
            f"it could evict {names_phrase(sorted(self.partners))}, for which it was evicted itself: "
            f"not before {left} have passed, so that they don't evict one another in turn"
        )


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

    def clause(self, wording: Wording, numbers: Numbers) -> str:
        """Return the amounts of eligible victims and of protected holders."""
        claim = (
            "" if self.shortfall is None else self.shortfall.clause(wording, numbers, "it may not reclaim")
        )
        victims = self._victims(wording, numbers)
        return f"{victims}; {claim}" if claim else victims

    def _victims(self, wording: Wording, numbers: Numbers) -> str:
        resource, held_by = self.resource, Counter[str]()
        for (protection, project), units in self.holders.items():
            held_by[holder_phrase(protection, wording.queues[project].name, self.budgets)] += units
        if self.budgets:
            numbers["budgets"] = list(self.budgets[:MAX_BUDGETS])
        numbers["held_by"] = {holder: plain_amount(resource, held) for holder, held in held_by.items()}
        numbers["resource"] = resource
        held = amounts_phrase(resource, held_by)
        if not self.eligible:
            return f"no eligible victims: {held}"
        numbers["eligible"] = plain_amount(resource, self.eligible)
        if self.end is SearchEnd.GAVE_UP:
            numbers["gave_up"] = True
        failed = "don't free enough" if self.end is None else _ENDS[self.end]
        eligible = f"the eligible victims ({amount_phrase(resource, self.eligible)}) {failed}"
        return f"{eligible}; {held}" if held else eligible


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

    def reason(self, wording: Wording) -> Reason:
        """Return the shortage and the cause."""
        shortage, cause = self.shortage, self.cause
        fitting = [
            (group, min(lack, fits), lack)
            for (group, lack), fits in zip(self.groups, shortage.fitting, strict=True)
        ]
        numbers: Numbers = {
            "short": dict(shortage.nodes),
            "fitting": {group: fits for group, fits, _ in fitting},
            "needed": {group: lack for group, _, lack in fitting},
        }
        where = shortage.sentence
        if self.level is not None:
            where += f"; all of its pods have to share one {self.level}"
        clause = cause.clause(wording, numbers)
        if isinstance(cause, NoClaim):
            code, short = self._short(fitting)
            sentence = f"{short}: {where}{clause}"
        elif isinstance(cause, PreemptionCycle):
            code, sentence = ReasonCode.PREEMPTION_CYCLE, clause
        else:
            older = isinstance(cause, OlderClaims)
            code = ReasonCode.OLDER_CLAIM if older else ReasonCode.NO_ELIGIBLE_VICTIMS
            sentence = f"{where}; {clause}"
        return flagged(code, sentence, numbers, self.over_quota)

    def _short(self, fitting: Sequence[tuple[str, int, int]]) -> tuple[ReasonCode, str]:
        """Return that capacity is short, or of a gang of which some pods fit, how many."""
        if sum([lack for _, _, lack in fitting]) > 1 and any(fits for _, fits, _ in fitting):
            of_group = " of group {}" if self.several_groups else ""
            parts = ", ".join(
                [f"{fits} of {lack} pods{of_group.format(name)}" for name, fits, lack in fitting]
            )
            return ReasonCode.GANG_INCOMPLETE, f"only {parts} fit now"
        return ReasonCode.INSUFFICIENT_CAPACITY, "insufficient capacity"
