"""Refusals by free capacity: a shortage, or capacity that the workload may not use."""

from collections.abc import Sequence

from weir.engine.feasibility_cache import FeasibilityCache
from weir.engine.ineligible_victims import any_eligible, ineligible_victims, preemption_cycle
from weir.engine.infeasible_workloads import best_domain, domain_name
from weir.engine.kept_refusals import KeptRefusal, KeptRefusals, Situation, shared
from weir.engine.preemption_rules import PreemptionRules, lowest_priority
from weir.engine.queue_order import Candidate
from weir.engine.quota_overlay import INFINITE
from weir.engine.reason_context import ReasonContext
from weir.engine.refusals import (
    DomainShortage,
    NoClaim,
    NoVictims,
    OlderClaims,
    OutageRefusal,
    PreemptionCycle,
    QuotaRefusal,
    QuotaShortfall,
    Refusal,
    Shortage,
    ShortageRefusal,
    TogetherRefusal,
    TooFewVictims,
)
from weir.model.resources import GPU
from weir.state.jobs import Job
from weir.state.shapes import GPU_ROW


class CapacityRefusals:
    """Refusals of one state by its free capacity."""

    def __init__(self, context: ReasonContext, table: KeptRefusals) -> None:
        self.context = context
        self.table = table
        self._placement = context.allocator.placement
        self.any_outage = bool(self._placement.outages)

    def look(self, situation: Situation, candidate: Candidate) -> None:
        """Find out the shortage of a situation, and the headroom if that alone refuses it."""
        shortage, job = self.context.shortage(candidate), candidate.job
        if not any(shape.pod_rules for shape in job.shapes):  # else it is of this workload alone
            key = candidate.of.wants, self.context.feasibility.affinity(job)
            shortage = shared(self.table.shortages, key, shortage)
        situation.shortage = shortage
        lacks = zip(shortage.fitting, situation.groups, strict=True)
        situation.is_short = any(fits < lack for fits, (_, lack) in lacks)
        refuses = not (situation.is_short or situation.in_quota or situation.any_model_shut)
        alone = refuses and not self.any_outage and not self._placement.reserved
        situation.headroom = self._headroom(candidate.gpu_milli) if alone else None

    # Short of capacity

    def note_claim(self, kept: KeptRefusal) -> None:
        """Find out if a workload may claim capacity of others. Only a shortage needs that."""
        context, candidate = self.context, kept.candidate
        job, rules = candidate.job, context.rules(candidate)
        kept.share, kept.claim_until_s = None, INFINITE
        if rules.depends_on_share:
            kept.share = context.overlay.share[job.project].copy()  # the tree updates its lines
            if context.policy.usage.k:
                kept.claim_until_s = -INFINITE  # shares change with time
            elif not rules.is_patient:
                kept.claim_until_s = job.waits_since_s + context.policy.reclaim_share_after
        has_claim = rules.any_reclaim or bool(job.stopped_for)
        kept.claimless = None if has_claim else _claimless(context, candidate, rules)

    def short(self, kept: KeptRefusal, situation: Situation) -> ShortageRefusal:
        """Return why no eviction helps a workload for which capacity is short."""
        shortage, job = situation.shortage, kept.candidate.job
        assert shortage is not None
        level = None if job.topology is None else job.topology.required
        cause, several = self._cause(kept, shortage), len(job.spec.groups) > 1
        return ShortageRefusal(shortage, situation.groups, level, several, cause, not situation.in_quota)

    def _cause(self, kept: KeptRefusal, shortage: Shortage) -> NoVictims:
        can_help = bool(shortage.helped) or not shortage.nodes  # else a cause remains that no eviction ends
        if kept.claimless is not None:
            # older claims don't matter to a shortage that no eviction ends
            is_cause = can_help or isinstance(kept.claimless, NoClaim)
            return kept.claimless if is_cause else NoClaim(may_preempt=True, shortfall=None)
        context, candidate = self.context, kept.candidate
        rules = context.rules(candidate)
        cause: NoVictims | None = None
        if can_help:
            cause = _without_victims(context, candidate, rules, shortage.helped)
            if cause is None and not rules.any_reclaim:
                cause = _claimless(context, candidate, rules)
        policy, refused = context.policy, context.cluster.refused
        time_counts = policy.min_runtime.any or policy.usage.k or refused or rules.job.stopped_for
        if time_counts or isinstance(cause, PreemptionCycle):
            kept.refusal_until_s = -INFINITE
        return cause or NoClaim(rules.job.can_preempt, _shortfall(context, rules))

    # Free capacity that it may not use

    def outage(self, candidate: Candidate, *, fits: bool) -> OutageRefusal | None:
        """Return the outage that keeps a workload waiting; None if none does.

        `fits` is True if each of its pods fits the capacity that is free, in service or not.
        """
        context, outages, job = self.context, self._placement.outages, candidate.job
        barring = outages.barring(job) if outages else []
        if not barring:
            return None
        out_of_service = {
            each.node
            for each in barring
            if each.outage.devices is None and each.outage.from_s <= context.now_s
        }
        nodes = [at for at, node in enumerate(context.cluster.nodes) if node is not None]
        if not fits and not out_of_service.issuperset(nodes):
            return None
        with context.capacity.trial():
            if fits and self._placement.place(candidate, context.allocator.placer) is not None:
                return None
        first = min(barring, key=lambda each: (each.outage.until_s or INFINITE, each.outage.from_s))
        return OutageRefusal(
            context.cluster.node_names[first.node],
            first.outage,
            outages.longest_run_s(job),
            job.preemptible and not first.outage.keeps_running,
        )

    def withheld(self, candidate: Candidate, situation: Situation) -> Refusal:
        """Return why a workload may not use the capacity that it fits, or not at once."""
        withheld = self._placement.refusal(candidate)
        if withheld is not None:
            return withheld
        headroom = None if situation.in_quota else self._headroom(candidate.gpu_milli)
        if headroom is not None:
            return headroom
        if (patience := self._placement.patience_refusal(candidate)) is not None:
            return patience
        shortfall = _shortfall(self.context, self.context.rules(candidate))
        return TogetherRefusal(self._domain(candidate), shortfall, not situation.in_quota)

    def _headroom(self, want: int) -> QuotaRefusal | None:
        """Return the headroom that keeps these devices from work over quota; None if it stays free."""
        found = self.context.checks.headroom_refusal(want, self.context.capacity)
        return None if found is None else shared(self.table.headrooms, want, found)

    def _domain(self, candidate: Candidate) -> DomainShortage | None:
        """Return the domains of the required level that can't take all of its pods; None without a level."""
        job, context = candidate.job, self.context
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


def _claimless(context: ReasonContext, candidate: Candidate, rules: PreemptionRules) -> NoClaim | OlderClaims:
    """Return why a workload that may not reclaim has no claim: an older one of its project, or a quota."""
    job = candidate.job
    only_older = (
        not rules.any_reclaim
        and job.can_preempt
        and lowest_priority(context.cluster, context.policy, job.project) >= job.priority
        and context.overlay.covers(job.path, candidate.request)
    )
    older = _older_claims(context.feasibility, candidate) if only_older else []
    if not older:
        return NoClaim(job.can_preempt, _shortfall(context, rules))
    steps = [job.waiting.step.request for job in older if job.waiting is not None]
    claimed = sum(amount for request in steps for row, amount in request if row == GPU_ROW)
    return OlderClaims(job.project, tuple([job.name for job in older]), claimed)


def _older_claims(feasibility: FeasibilityCache, candidate: Candidate) -> list[Job]:
    """Return the workloads that claim the project's quota before a candidate, in the order of the project."""
    own = candidate.of.line_key(candidate.at)
    claims = [
        (of.line_key(at), of.members[at][2])
        for of, count in feasibility.owners(candidate.job.project).items()
        for at in range(count)
        if of.line_key(at) < own
    ]
    return [job for _, job in sorted(claims, key=lambda claim: claim[0])]


def _shortfall(context: ReasonContext, rules: PreemptionRules) -> QuotaShortfall | None:
    """Return the queue whose quota keeps a workload from reclaiming; None if it may reclaim, or never may."""
    job, ledger = rules.job, context.overlay.ledger
    if rules.any_reclaim or not job.can_preempt:
        return None
    gains_by_waiting = not rules.is_patient and rules.in_share
    claims_s = job.waits_since_s + context.policy.reclaim_share_after if gains_by_waiting else None
    for queue in reversed(job.path):
        for row, amount in rules.request:
            have, most = ledger.allocated[queue][row], ledger.quota[queue][row]
            if amount and have + amount > most:
                return QuotaShortfall(queue, row, have + amount, most, claims_s)
    return None


def _without_victims(
    context: ReasonContext, candidate: Candidate, rules: PreemptionRules, helped: Sequence[str]
) -> NoVictims | None:
    """Return the reason why a workload can't evict the holders of the first shortage; None if it may not."""
    resource = helped[0] if helped else GPU
    row = context.cluster.rows.known(resource)
    holdings = context.holdings(candidate, GPU_ROW if row is None else row)
    if partners := preemption_cycle(holdings, rules):
        return PreemptionCycle(partners)
    found = ineligible_victims(holdings, rules, resource)
    return found or (TooFewVictims() if any_eligible(holdings, rules) else None)
