"""Refusals by free capacity: a shortage, or capacity that the workload may not use."""

import math
from collections.abc import Sequence

from weir.engine.ineligible_victims import ineligible_victims, preemption_cycle
from weir.engine.infeasible_workloads import best_domain, domain_name
from weir.engine.kept_refusals import KeptClaim, KeptRefusal, KeptRefusals, QuotaAnswer, shared
from weir.engine.outages import NodeOutage
from weir.engine.preemption_rules import cycle_ends_s
from weir.engine.queue_order import Candidate
from weir.engine.quota_overlay import INFINITE
from weir.engine.reason_context import ReasonContext
from weir.engine.refusals import DomainShortage, OutageRefusal, QuotaRefusal, Refusal, TogetherRefusal
from weir.engine.requester_claims import claims_change_s, no_claim, quota_shortfall
from weir.engine.shortage_refusals import NoClaim, NoVictims, PreemptionCycle, Shortage, ShortageRefusal
from weir.model.policy import AffinityRules
from weir.model.resources import GPU
from weir.state.jobs import Job, Wants
from weir.state.shapes import GPU_ROW


class CapacityRefusals:
    """Capacity refusals of one state, each with the next time at which it may change."""

    def __init__(self, context: ReasonContext, table: KeptRefusals) -> None:
        self.context = context
        self.table = table
        self._placement = context.allocator.placement
        self._outages = self._placement.outages
        self._shortages: dict[tuple[Wants, AffinityRules], Shortage] = {}
        self._outage_s = self._outages.next_s() if self._outages else INFINITE
        self._any_in_service = not self._outages or self._outages.any_node_in_service()
        # The next time at which a pending workload may get a reservation
        self._reserve_s: float | None = None
        self._any_reserved = False

    def refusal(self, kept: KeptRefusal) -> tuple[Refusal, float]:
        """Return the capacity refusal of a workload, and the next time at which it may change."""
        candidate = kept.candidate
        shortage = self._shortage(candidate)
        for fits, (_, lack) in zip(shortage.fitting, kept.groups, strict=True):
            if fits < lack:
                break
        else:
            return self._withheld(candidate, kept.quota)
        if not self._any_in_service:
            return _outage_refusal(
                self.context, candidate.job, self._outages.barring(candidate.job)
            ), self._outage_s
        claim = kept.claim
        if (
            claim is None
            or claim.versions != self._versions_of(candidate)
            or self.context.now_s >= claim.until_s
        ):
            claim = self._claim(candidate)
            if kept.claim is not None and claim.denied == kept.claim.denied:
                claim = claim._replace(denied=kept.claim.denied)
        same, kept.claim = kept.claim is not None and claim.denied is kept.claim.denied, claim
        until_s, before = min(claim.until_s, self._outage_s), kept.refusal
        if (
            same
            and claim.denied is not None
            and isinstance(before, ShortageRefusal)
            and before.shortage is shortage
        ):
            return before, until_s
        job = candidate.job
        level = None if job.topology is None else job.topology.required
        cause, cause_until_s = self._cause(candidate, claim, shortage)
        several = len(job.spec.groups) > 1
        refusal = ShortageRefusal(shortage, kept.groups, level, several, cause, not kept.quota.in_quota)
        return refusal, min(until_s, cause_until_s)

    def _versions_of(self, candidate: Candidate) -> tuple[int, bool]:
        """Return the versions that the claim of a workload depends on, without usage."""
        shares = self.context.overlay.share_versions()
        return shares[candidate.job.project], bool(self.context.cluster.unprotected)

    def _claim(self, candidate: Candidate) -> KeptClaim:
        """Return the claim of a workload. Only a shortage needs that."""
        rules = self.context.rules(candidate)
        denied, until_s = no_claim(self.context, rules), claims_change_s(self.context, rules)
        return KeptClaim(denied, self._versions_of(candidate), until_s)

    def _shortage(self, candidate: Candidate) -> Shortage:
        """Return the capacity that a workload lacks; an equal result is the same object."""
        job = candidate.job
        # Pod affinity makes the shortage specific to this workload
        if any(shape.pod_rules for shape in job.shapes):
            return self.context.shortage(candidate)
        key = candidate.of.wants, self.context.feasibility.affinity(job)
        found = self._shortages.get(key)
        if found is None:
            found = shared(self.table.shortages, key, self.context.shortage(candidate))
            self._shortages[key] = found
        return found

    # Short of capacity

    def _cause(self, candidate: Candidate, claim: KeptClaim, shortage: Shortage) -> tuple[NoVictims, float]:
        """Return why no eviction helps, and until when."""
        # False: evictions alone can't end the shortage
        can_help = bool(shortage.helped) or not shortage.nodes
        if claim.denied is not None:
            # Older claims are no cause if evictions can't end the shortage
            is_cause = can_help or isinstance(claim.denied, NoClaim)
            return claim.denied if is_cause else NoClaim(may_preempt=True, shortfall=None), INFINITE
        if not can_help:
            return NoClaim(may_preempt=True, shortfall=None), INFINITE
        context, rules = self.context, self.context.rules(candidate)
        resource = shortage.helped[0] if shortage.helped else GPU
        row = context.cluster.rows.known(resource)
        row = GPU_ROW if row is None else row
        holdings = context.holdings(candidate, row)
        ends_s = [cycle_ends_s(rules, name) for name in rules.job.stopped_for]
        until_s = min([end_s for end_s in ends_s if end_s is not None], default=INFINITE)
        until_s = min(until_s, holdings.until_s)
        if until_s < INFINITE and rules.job.stopped_for:
            lacks = context.matching(candidate)
            if partners := preemption_cycle(holdings, rules, row, context.capacity, lacks):
                return PreemptionCycle(partners), until_s
        shortfall = quota_shortfall(context, rules)
        end = context.cache.preemption.search_end(context.cluster, (candidate.of, candidate.at))
        found = ineligible_victims(holdings, rules, resource, shortfall, end)
        return found or NoClaim(may_preempt=True, shortfall=shortfall), until_s

    # Free capacity that it may not use

    def _withheld(self, candidate: Candidate, quota: QuotaAnswer) -> tuple[Refusal, float]:
        """Return the cause why a workload may not use free capacity that it fits into, or not yet."""
        until_s = self._withheld_until_s(candidate)
        if self._outages and (barring := self._outages.barring(candidate.job)):
            with self.context.capacity.trial():
                placed = self._placement.place(candidate, self.context.allocator.placer)
            if placed is None:
                return _outage_refusal(self.context, candidate.job, barring), until_s
        if quota.any_model_shut or self._any_reserved:
            withheld = self._placement.refusal(candidate)
            if withheld is not None:
                return withheld, until_s
        headroom = None if quota.in_quota else self._headroom(candidate.gpu_milli)
        if headroom is not None:
            return headroom, until_s
        if (patience := self._placement.patience_refusal(candidate)) is not None:
            return patience, min(until_s, patience.until_s)
        rules = self.context.rules(candidate)
        until_s = min(until_s, claims_change_s(self.context, rules))
        shortfall = quota_shortfall(self.context, rules)
        return TogetherRefusal(_domain(self.context, candidate), shortfall, not quota.in_quota), until_s

    def _withheld_until_s(self, candidate: Candidate) -> float:
        """Return the next time at which outages or reservations may withhold other nodes."""
        context = self.context
        if self._reserve_s is None:
            patience_s = context.policy.reserve_after
            ends_s = [of.first.waits_since_s + patience_s for of in context.cluster.waiting.values()]
            self._reserve_s = min([end_s for end_s in ends_s if end_s > context.now_s], default=INFINITE)
            self._any_reserved = bool(self._placement.reserved)
        if not self._outages:
            return self._reserve_s
        if self._any_reserved:
            return math.nextafter(context.now_s, INFINITE)  # an outage may end a reservation at any time
        return min(self._reserve_s, self._outages.changes_s(candidate.job))

    def _headroom(self, want: int) -> QuotaRefusal | None:
        """Return the headroom refusal of these devices for work over quota; None if enough stays free."""
        found = self.context.checks.headroom_refusal(want, self.context.capacity)
        return None if found is None else shared(self.table.headrooms, want, found)


def _outage_refusal(context: ReasonContext, job: Job, barring: Sequence[NodeOutage]) -> OutageRefusal:
    """Return the outage after which a workload may start."""
    first = min(barring, key=lambda each: (each.outage.until_s or INFINITE, each.outage.from_s))
    return OutageRefusal(
        context.cluster.node_names[first.node],
        first.outage,
        context.allocator.placement.outages.longest_run_s(job),
        job.preemptible and not first.outage.keeps_running,
    )


def _domain(context: ReasonContext, candidate: Candidate) -> DomainShortage | None:
    """Return the domains of the required level that can't take all of its pods; None without a level."""
    job = candidate.job
    topology, cluster = job.topology, context.cluster
    if topology is None or topology.required is None:
        return None
    depth = cluster.topologies[topology.name].levels.index(topology.required)
    level = context.feasibility.levels(topology.name)[depth]
    runs_in = {int(level.of[pod.node]) for pod in job.running_pods()} - {-1}
    needs = context.lacking(candidate)
    pods = sum([lack for _, _, lack in needs])
    if runs_in:
        names = tuple([domain_name(cluster, level, domain) for domain in sorted(runs_in)])
        return DomainShortage(topology.required, pods, names)
    affinity = context.feasibility.affinity(job)
    best = best_domain(context.allocator, context.capacity, level, needs, affinity)
    return DomainShortage(topology.required, pods, (), best.name, best.pods)
