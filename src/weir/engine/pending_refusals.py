"""Refusals of all pending workloads of one state, kept while nothing that they depend on changes.

The checks are those of the decision: quotas, nodes, limits, free capacity and its owners. None is run again
for a class whose refusal still holds, and what classes have in common is computed once.
"""

from collections.abc import Sequence
from dataclasses import replace

from weir.engine.allocate import Allocator
from weir.engine.budget_protection import budgets_of
from weir.engine.cache import EngineCache
from weir.engine.infeasible_gang import best_domain, domain_name
from weir.engine.infeasible_nodes import infeasible
from weir.engine.kept_refusals import KeptRefusal, KeptRefusals
from weir.engine.outage_refusals import outage_refusal
from weir.engine.preemption_rules import PreemptionRules
from weir.engine.queue_order import Candidate
from weir.engine.quota_overlay import INFINITE
from weir.engine.reason_context import ReasonContext
from weir.engine.refusals import (
    DomainShortage,
    NoClaim,
    NodesRefusal,
    NoVictims,
    PreemptionCycle,
    QuotaRefusal,
    Refusal,
    RefusalKind,
    Shortage,
    ShortageRefusal,
    TogetherRefusal,
)
from weir.engine.shortage_refusals import claimless, first_resource, without_victims
from weir.model.policy import AffinityPolicy, Policy
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Wants


class PendingRefusals:
    """Refusals of one state; `allocator` is that of the cycle that decided on it, if there was one."""

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        now_s: float,
        cache: EngineCache,
        allocator: Allocator | None = None,
    ) -> None:
        self.now_s = now_s
        self._cluster = cluster
        self._policy = policy
        self._cache = cache
        self._allocator = allocator
        self._changes = cluster.changes
        self._kept_context: ReasonContext | None = None
        self._kept_table: KeptRefusals | None = None
        # Of this state: versions by project, shortages by request, headroom by requested devices
        self._touched: dict[int, int] = {}
        self._shortages: dict[tuple[Wants, tuple[AffinityPolicy, ...]], Shortage] = {}
        self._headrooms: dict[int, QuotaRefusal | None] = {}
        self._any_outage = False

    @property
    def is_current(self) -> bool:
        """Return True if the cluster hasn't changed since."""
        return self._changes == self._cluster.changes

    def of_class(self, of: EquivalenceClass) -> Refusal:
        """Return what refuses the oldest workload of a class."""
        table = self._kept_table or self._table()
        kept = table.of.get(of)
        if kept is None or kept.changes != self._changes or self.now_s >= kept.refusal_until_s:
            if kept is None or not self._claims_hold(kept, of):
                kept = table.of[of] = self._claims_of(Candidate(of, 0))
            kept.refusal_until_s = kept.until_s
            kept.refusal = self._refusal(of, 0, kept)
            kept.changes = self._changes
        assert kept.refusal is not None
        return kept.refusal

    def of_member(self, of: EquivalenceClass, at: int) -> Refusal:
        """Return what refuses one workload of a class."""
        return self._refusal(of, at, self._claims_of(Candidate(of, at))) if at else self.of_class(of)

    @property
    def _context(self) -> ReasonContext:
        if self._kept_context is None:
            assert self.is_current, "refusals are those of one state"
            self._kept_context = ReasonContext(
                self._cluster, self._policy, self.now_s, self._cache, self._allocator
            )
        return self._kept_context

    def _table(self) -> KeptRefusals:
        """Return the kept refusals; a plan that acts keeps none, since it may not be carried out."""
        found = self._kept_table
        if found is None:
            found = self._cache.refusals if not self._context.overlay.log else KeptRefusals()
            found.prune(len(self._cluster.waiting))
            self._kept_table = found
            self._any_outage = bool(self._context.allocator.placement.outages)
        return found

    # Whatever is free: quotas, nodes, and claims

    def _claims_hold(self, kept: KeptRefusal, of: EquivalenceClass) -> bool:
        return kept.touched == self._version(of.project) and self.now_s < kept.until_s

    def _version(self, project: int) -> int:
        """Return how often the usage has changed that checks of the project's workloads read."""
        found = self._touched.get(project)
        if found is None:
            ledger = self._cluster.ledger
            found = self._touched[project] = sum(
                [
                    ledger.touched[queue]
                    for queue in ledger.path[project]
                    if queue == project or ledger.bounded[queue] or ledger.limited[queue]
                ]
            )
        return found

    def _claims_of(self, candidate: Candidate) -> KeptRefusal:
        """Return what is refused whatever is free, and what quotas say of the rest."""
        context, job = self._context, candidate.job
        kept = KeptRefusal(self._version(job.project))
        refusal = context.overlay.refusal(job, candidate.request)
        if refusal is not None and refusal.kind is RefusalKind.QUOTA:
            kept.final = replace(refusal, budgets=budgets_of(job))
        else:
            kept.final = self._nodes_refusal(candidate) or refusal
        if job.spec.lapsed or job.spec.protected:
            kept.until_s = -INFINITE  # budgets come and go
        if kept.final is not None:
            return kept
        kept.in_quota = context.checks.in_quota(candidate)
        kept.groups = tuple([(name, lack) for name, _, lack in context.lacking(candidate)])
        kept.any_model_shut = bool(context.allocator.placement.models_shut(candidate))
        return kept

    def _note_claim(self, kept: KeptRefusal, candidate: Candidate) -> None:
        """Find out whether a workload has a claim on what others hold. Only a shortage needs that."""
        context, job = self._context, candidate.job
        rules = context.rules(candidate)
        kept.share, kept.claim_until_s = None, INFINITE
        if rules.depends_on_share:
            kept.share = context.overlay.share[job.project].copy()  # the tree updates its lines
            if self._policy.usage.k:
                kept.claim_until_s = -INFINITE  # shares change with time
            elif not rules.is_patient:
                kept.claim_until_s = job.waits_since_s + self._policy.reclaim_share_after
        has_claim = rules.any_reclaim or bool(job.stopped_for)
        kept.claimless = None if has_claim else claimless(context, candidate, rules)

    def _claim_holds(self, kept: KeptRefusal, of: EquivalenceClass) -> bool:
        """Return True if the claim is known, and neither time nor the fair share has changed it."""
        return self.now_s < kept.claim_until_s and (
            kept.share is None or kept.share == self._context.overlay.share[of.project]
        )

    def _nodes_refusal(self, candidate: Candidate) -> NodesRefusal | None:
        """Return why the nodes could never take it, however idle; None if they may."""
        reason = infeasible(self._context, candidate)
        if reason is None:
            return None
        covered = self._context.overlay.covers(candidate.job.path, candidate.request)
        return NodesRefusal(reason, over_quota=not covered)

    # Free capacity

    def _refusal(self, of: EquivalenceClass, at: int, kept: KeptRefusal) -> Refusal:
        if kept.final is not None:
            return kept.final
        shortage = self._shortage(of, at)
        is_short = _is_short(shortage, kept.groups)
        if self._any_outage:
            kept.refusal_until_s = -INFINITE
            outage = outage_refusal(self._context, Candidate(of, at), fits=not is_short)
            if outage is not None:
                return outage
        return self._short(of, at, kept, shortage) if is_short else self._withheld(of, at, kept)

    def _shortage(self, of: EquivalenceClass, at: int) -> Shortage:
        job = of.members[at][2]
        key = of.wants, self._context.feasibility.affinity(job)
        found = self._shortages.get(key)
        if found is None:
            found = self._context.shortage(Candidate(of, at))
            if not any(shape.pod_rules for shape in job.shapes):  # else it is that of this workload alone
                found = self._shortages[key] = self._table().shared_shortage(key, found)
        return found

    def _short(self, of: EquivalenceClass, at: int, kept: KeptRefusal, shortage: Shortage) -> Refusal:
        """Return why no eviction helps a workload for which capacity is short."""
        if not self._claim_holds(kept, of):
            self._note_claim(kept, Candidate(of, at))
            kept.basis = None
        kept.refusal_until_s = min(kept.refusal_until_s, kept.claim_until_s)
        if (
            kept.claimless is not None
            and kept.basis is shortage
            and isinstance(kept.refusal, ShortageRefusal)
        ):
            return kept.refusal
        kept.basis = shortage
        job = of.members[at][2]
        level = None if job.topology is None else job.topology.required
        cause = self._cause(of, at, kept, shortage)
        several = len(job.spec.groups) > 1
        return ShortageRefusal(shortage, kept.groups, level, several, cause, not kept.in_quota)

    def _cause(self, of: EquivalenceClass, at: int, kept: KeptRefusal, shortage: Shortage) -> NoVictims:
        can_help = bool(shortage.helped) or not shortage.nodes  # else a cause remains that no eviction ends
        if kept.claimless is not None:
            return kept.claimless if can_help else _without_older(kept.claimless)
        candidate = Candidate(of, at)
        rules = self._context.rules(candidate)
        cause: NoVictims | None = None
        if can_help:
            cause = without_victims(self._context, candidate, rules, first_resource(shortage.helped))
        if cause is None and can_help and not rules.any_reclaim:
            cause = claimless(self._context, candidate, rules)
        if self._time_counts(rules) or isinstance(cause, PreemptionCycle):
            kept.refusal_until_s = -INFINITE
        return cause or NoClaim(rules.job.can_preempt, rules.shortfall())

    def _time_counts(self, rules: PreemptionRules) -> bool:
        """Return True if time alone can change which running work is eligible."""
        policy = self._policy
        return bool(
            policy.min_runtime.any or policy.usage.k or self._cluster.refused or rules.job.stopped_for
        )

    # Free capacity that it may not use

    def _withheld(self, of: EquivalenceClass, at: int, kept: KeptRefusal) -> Refusal:
        """Return why a workload may not use the capacity that it fits, or not at once."""
        kept.refusal_until_s = -INFINITE  # reservations come with time
        placement = self._context.allocator.placement
        if not kept.in_quota and not kept.any_model_shut and not placement.any_reservation:
            headroom = self._headroom(of.step.gpu_milli)
            if headroom is not None:
                return headroom
        candidate = Candidate(of, at)
        withheld = placement.refusal(candidate)
        if withheld is not None:
            return withheld
        headroom = None if kept.in_quota else self._headroom(candidate.gpu_milli)
        if headroom is not None:
            return headroom
        if (patience := placement.patience_refusal(candidate)) is not None:
            return patience
        shortfall = self._context.rules(candidate).shortfall()
        return TogetherRefusal(self._domain(candidate), shortfall, not kept.in_quota)

    def _headroom(self, want: int) -> QuotaRefusal | None:
        """Return the headroom that keeps these devices from work over quota; None if it stays free."""
        if want not in self._headrooms:
            found = self._context.checks.headroom_refusal(want, self._context.capacity)
            self._headrooms[want] = None if found is None else self._table().shared_headroom(found)
        return self._headrooms[want]

    def _domain(self, candidate: Candidate) -> DomainShortage | None:
        """Return the domains of the required level that can't take all of its pods; None without a level."""
        job, context = candidate.job, self._context
        topology = job.topology
        if topology is None or topology.required is None:
            return None
        depth = self._cluster.topologies[topology.name].levels.index(topology.required)
        level = context.feasibility.levels(topology.name)[depth]
        runs_in = {int(level.of[pod.node]) for pod in job.running_pods()} - {-1}
        needs = context.lacking(candidate)
        pods = sum([lack for _, _, lack in needs])
        if runs_in:
            names = tuple([domain_name(self._cluster, level, domain) for domain in sorted(runs_in)])
            return DomainShortage(topology.required, pods, names)
        affinity = context.feasibility.affinity(job)
        best = best_domain(self._cluster, self._cache, context.capacity, level, needs, affinity)
        return DomainShortage(topology.required, pods, (), best.name, best.pods)


def _is_short(shortage: Shortage, groups: Sequence[tuple[str, int]]) -> bool:
    """Return True if fewer pods of any group fit than are lacking."""
    for fits, (_, lack) in zip(shortage.fitting, groups, strict=True):  # noqa: SIM110 - asked for each class
        if fits < lack:
            return True
    return False


def _without_older(cause: NoVictims) -> NoVictims:
    """Return the same for a shortage that no eviction ends: older claims don't matter then."""
    return cause if isinstance(cause, NoClaim) else NoClaim(may_preempt=True, shortfall=None)
