"""Refusals by free capacity: why a workload is short of it, or may not use what it fits."""

from collections.abc import Sequence

from weir.engine.infeasible_gang import best_domain, domain_name
from weir.engine.kept_refusals import KeptRefusal, KeptRefusals, Situation
from weir.engine.preemption_rules import PreemptionRules
from weir.engine.queue_order import Candidate
from weir.engine.quota_overlay import INFINITE
from weir.engine.reason_context import ReasonContext
from weir.engine.refusals import (
    DomainShortage,
    NoClaim,
    NoVictims,
    PreemptionCycle,
    QuotaRefusal,
    Refusal,
    Shortage,
    ShortageRefusal,
    TogetherRefusal,
)
from weir.engine.shortage_refusals import claimless, first_resource, without_victims
from weir.model.policy import AffinityPolicy
from weir.state.jobs import Wants


class CapacityRefusals:
    """Refusals of one state by its free capacity."""

    def __init__(self, context: ReasonContext, table: KeptRefusals) -> None:
        self._context = context
        self._table = table
        self._placement = context.allocator.placement
        self.any_outage = bool(self._placement.outages)
        # Of this state: shortages by request, and headroom by requested devices
        self._shortages: dict[tuple[Wants, tuple[AffinityPolicy, ...]], Shortage] = {}
        self._headrooms: dict[int, QuotaRefusal | None] = {}

    def look(self, situation: Situation, candidate: Candidate) -> None:
        """Find out the shortage of a situation, and the headroom if that alone refuses it."""
        situation.shortage = self._shortage(candidate)
        situation.is_short = _is_short(situation.shortage, situation.groups)
        refuses = not (situation.is_short or situation.in_quota or situation.any_model_shut)
        alone = refuses and not self.any_outage and not self._placement.any_reservation
        situation.headroom = self._headroom(candidate.gpu_milli) if alone else None

    def _shortage(self, candidate: Candidate) -> Shortage:
        key = candidate.of.wants, self._context.feasibility.affinity(candidate.job)
        found = self._shortages.get(key)
        if found is None:
            found = self._context.shortage(candidate)
            if not any(
                shape.pod_rules for shape in candidate.job.shapes
            ):  # else it is of this workload alone
                found = self._shortages[key] = self._table.shared_shortage(key, found)
        return found

    # Short of capacity

    def note_claim(self, kept: KeptRefusal) -> None:
        """Find out whether a workload has a claim on what others hold. Only a shortage needs that."""
        context, candidate = self._context, kept.candidate
        job, rules = candidate.job, context.rules(candidate)
        kept.share, kept.claim_until_s = None, INFINITE
        if rules.depends_on_share:
            kept.share = context.overlay.share[job.project].copy()  # the tree updates its lines
            if context.policy.usage.k:
                kept.claim_until_s = -INFINITE  # shares change with time
            elif not rules.is_patient:
                kept.claim_until_s = job.waits_since_s + context.policy.reclaim_share_after
        has_claim = rules.any_reclaim or bool(job.stopped_for)
        kept.claimless = None if has_claim else claimless(context, candidate, rules)

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
            return kept.claimless if can_help else _without_older(kept.claimless)
        context, candidate = self._context, kept.candidate
        rules = context.rules(candidate)
        cause: NoVictims | None = None
        if can_help:
            cause = without_victims(context, candidate, rules, first_resource(shortage.helped))
        if cause is None and can_help and not rules.any_reclaim:
            cause = claimless(context, candidate, rules)
        if self._time_counts(rules) or isinstance(cause, PreemptionCycle):
            kept.refusal_until_s = -INFINITE
        return cause or NoClaim(rules.job.can_preempt, rules.shortfall())

    def _time_counts(self, rules: PreemptionRules) -> bool:
        """Return True if time alone can change which running work is eligible."""
        policy, refused = self._context.policy, self._context.cluster.refused
        return bool(policy.min_runtime.any or policy.usage.k or refused or rules.job.stopped_for)

    # Free capacity that it may not use

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
        shortfall = self._context.rules(candidate).shortfall()
        return TogetherRefusal(self._domain(candidate), shortfall, not situation.in_quota)

    def _headroom(self, want: int) -> QuotaRefusal | None:
        """Return the headroom that keeps these devices from work over quota; None if it stays free."""
        if want not in self._headrooms:
            found = self._context.checks.headroom_refusal(want, self._context.capacity)
            self._headrooms[want] = None if found is None else self._table.shared_headroom(found)
        return self._headrooms[want]

    def _domain(self, candidate: Candidate) -> DomainShortage | None:
        """Return the domains of the required level that can't take all of its pods; None without a level."""
        job, context = candidate.job, self._context
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
        best = best_domain(cluster, context.cache, context.capacity, level, needs, affinity)
        return DomainShortage(topology.required, pods, (), best.name, best.pods)


def _is_short(shortage: Shortage, groups: Sequence[tuple[str, int]]) -> bool:
    """Return True if fewer pods of any group fit than are lacking."""
    return any(fits < lack for fits, (_, lack) in zip(shortage.fitting, groups, strict=True))


def _without_older(cause: NoVictims) -> NoVictims:
    """Return the same for a shortage that no eviction ends: older claims don't matter then."""
    return cause if isinstance(cause, NoClaim) else NoClaim(may_preempt=True, shortfall=None)
