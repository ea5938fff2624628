"""Refusals of all pending workloads of one state.

The checks are those of the decision: quotas, nodes, limits, free capacity and its owners. Their results are
kept while the values that they depend on stay the same. Parts that several classes share are computed once.
The refusal for a shortage of capacity says if the workload may evict others, and why not.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from weir.engine.allocation.allocate import Allocator, new_allocator
from weir.engine.cache import EngineCache
from weir.engine.explanation.ineligible_victims import (
    RunningHoldings,
    budgets_of,
    ineligible_victims,
    preemption_cycle,
)
from weir.engine.explanation.infeasible_workloads import best_domain, domain_name, infeasible
from weir.engine.explanation.node_shortages import PodRuleShortages, node_shortages, shortage_of
from weir.engine.order.queue_order import Candidate
from weir.engine.placement.feasibility_cache import FeasibilityCache
from weir.engine.placement.outages import NodeOutage
from weir.engine.protection.preemption_rules import PreemptionRules, effective_priority, lowest_priority
from weir.engine.refusals.kept_refusals import KeptClaim, KeptRefusal, KeptRefusals, shared
from weir.engine.refusals.refusals import (
    DomainShortage,
    NodesRefusal,
    OutageRefusal,
    PendingRefusal,
    QuotaRefusal,
    QuotaShortfall,
    RefusalKind,
    TogetherRefusal,
)
from weir.engine.refusals.shortage_refusals import (
    NoClaim,
    NoVictims,
    OlderClaims,
    PreemptionCycle,
    Shortage,
    ShortageRefusal,
)
from weir.engine.usage.quota_overlay import INFINITE
from weir.model.policy import AffinityRules, Policy
from weir.model.resources import GPU
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Job, Wants
from weir.state.shapes import GPU_ROW


class CapacityRefusals:
    """Capacity refusals of one state."""

    def __init__(self, allocator: Allocator, table: KeptRefusals) -> None:
        self.allocator = allocator
        self.table = table
        self._placement = allocator.placement
        self._outages = self._placement.outages
        self._shortages: dict[tuple[Wants, AffinityRules], Shortage] = {}
        self._holdings_on: dict[bytes, RunningHoldings] = {}  # by the mask of the counted nodes
        self._any_in_service = not self._outages or self._outages.any_node_in_service()

    def refusal(self, kept: KeptRefusal) -> PendingRefusal:
        """Return the refusal of a workload: by quotas or its nodes, or else by free capacity."""
        if kept.final is not None:
            return kept.final
        candidate, job = kept.candidate, kept.candidate.job
        shortage = self._shortage(candidate)
        for fits, lack in zip(shortage.fitting, filter(None, candidate.lacks), strict=True):
            if fits < lack:
                break
        else:
            return self._withheld(candidate, kept.in_quota)
        if not self._any_in_service:
            return _outage_refusal(self.allocator, job, self._outages.barring(job))
        claim = kept.claim = self._claim(candidate, kept.claim)
        groups = tuple([(name, lack) for name, _, lack in candidate.lacking()])
        level = None if job.topology is None else job.topology.required
        cause, several = self._cause(candidate, claim, shortage), len(job.spec.groups) > 1
        return ShortageRefusal(shortage, groups, level, several, cause, not kept.in_quota)

    def _claim(self, candidate: Candidate, kept: KeptClaim | None) -> KeptClaim:
        """Return the workload's claim on others' capacity, cached while valid; only shortages need it."""
        allocator = self.allocator
        unprotected = bool(allocator.cluster.unprotected)
        versions = allocator.overlay.share_versions()[candidate.job.project], unprotected
        if kept is not None and kept.versions == versions and allocator.now_s < kept.until_s:
            return kept
        rules = allocator.rules_of(candidate)
        return KeptClaim(no_claim(allocator, rules), versions, claims_change_s(allocator, rules))

    def _shortage(self, candidate: Candidate) -> Shortage:
        """Return the capacity that a workload lacks; an equal result is the same object.

        Workloads with equal requests share it, unless their pods have affinity rules.
        """
        allocator, job = self.allocator, candidate.job
        affinity = allocator.feasibility.affinity(job)
        needs = [(shape, lack) for _, shape, lack in candidate.lacking()]
        if any(shape.pod_rules for shape in job.shapes):
            with allocator.capacity.trial():
                by_rules = PodRuleShortages(allocator, affinity, job)
                short = [
                    by_rules.find(shape, lack)
                    if shape.pod_rules
                    else node_shortages(allocator, shape, affinity)
                    for shape, lack in needs
                ]
                return shortage_of(allocator.cluster, allocator.capacity, short)
        key = candidate.queued.wants, affinity
        shortage = self._shortages.get(key)
        if shortage is None:
            short = [node_shortages(allocator, shape, affinity) for shape, _ in needs]
            shortage = shortage_of(allocator.cluster, allocator.capacity, short)
            shortage = self._shortages[key] = shared(self.table.shortages, key, shortage)
        return shortage

    def _holdings(self, candidate: Candidate, row: int) -> RunningHoldings:
        """Return the amount of a resource that running work holds on the nodes that a candidate may use."""
        cluster = self.allocator.cluster
        usable = np.zeros(cluster.capacity.shape[1], np.bool_)
        for _, matching, _ in self.allocator.matching(candidate):
            usable |= matching[: len(usable)]
        nodes = None if usable[cluster.capacity[row] > 0].all() else usable
        key = b"" if nodes is None else nodes.tobytes()
        holdings = self._holdings_on.get(key)
        if holdings is None:
            policy, now_s = self.allocator.policy, self.allocator.now_s
            holdings = self._holdings_on[key] = RunningHoldings(cluster, policy, now_s, nodes)
        return holdings

    # Short of capacity

    def _cause(self, candidate: Candidate, claim: KeptClaim, shortage: Shortage) -> NoVictims:
        """Return why no eviction helps."""
        # False: evictions alone can't end the shortage
        can_help = bool(shortage.helped) or not shortage.nodes
        if claim.denied is not None and (can_help or isinstance(claim.denied, NoClaim)):
            return claim.denied
        if not can_help:  # older claims are no cause either
            return NoClaim(may_preempt=True, shortfall=None)
        allocator, rules = self.allocator, self.allocator.rules_of(candidate)
        resource = shortage.helped[0] if shortage.helped else GPU
        row = allocator.cluster.rows.get(resource)
        row = GPU_ROW if row is None else row
        holdings = self._holdings(candidate, row)
        if rules.job.stopped_for:
            lacks = allocator.matching(candidate)
            if partners := preemption_cycle(holdings, rules, row, allocator.capacity, lacks):
                return PreemptionCycle(partners)
        shortfall = quota_shortfall(allocator, rules)
        end = allocator.cache.preemption.search_end(allocator.cluster, (candidate.queued, candidate.index))
        victims = ineligible_victims(holdings, rules, resource, shortfall, end)
        return victims or NoClaim(may_preempt=True, shortfall=shortfall)

    # Free capacity that it may not use

    def _withheld(self, candidate: Candidate, in_quota: bool) -> PendingRefusal:
        """Return why a workload may not use free capacity that it fits into, or not yet."""
        allocator, job = self.allocator, candidate.job
        if self._outages and (barring := self._outages.barring(job)):
            with allocator.capacity.trial():
                placed = self._placement.place(candidate, allocator.placer)
            if placed is None:
                return _outage_refusal(allocator, job, barring)
        withheld: PendingRefusal | None = self._placement.refusal(candidate)
        if withheld is None and not in_quota:
            withheld = self._headroom(candidate.gpu_milli)
        withheld = withheld or self._placement.patience_refusal(candidate)
        if withheld is not None:
            return withheld
        shortfall = quota_shortfall(allocator, allocator.rules_of(candidate))
        return TogetherRefusal(_domain(allocator, candidate), shortfall, not in_quota)

    def _headroom(self, want: int) -> QuotaRefusal | None:
        """Return the headroom refusal of these devices for work over quota; None if enough stays free."""
        refusal = self.allocator.checks.headroom_refusal(want, self.allocator.capacity)
        return None if refusal is None else shared(self.table.headrooms, want, refusal)


def _outage_refusal(allocator: Allocator, job: Job, barring: Sequence[NodeOutage]) -> OutageRefusal:
    """Return the outage that must be over before a workload may start."""
    first = min(
        barring, key=lambda node_outage: (node_outage.outage.until_s or INFINITE, node_outage.outage.from_s)
    )
    return OutageRefusal(
        allocator.cluster.node_names[first.node],
        first.outage,
        allocator.placement.outages.longest_run_s(job),
        job.preemptible and not first.outage.keeps_running,
    )


def _domain(allocator: Allocator, candidate: Candidate) -> DomainShortage | None:
    """Return the domains of the required level that can't take all of its pods; None without a level."""
    job = candidate.job
    topology, cluster = job.topology, allocator.cluster
    if topology is None or topology.required is None:
        return None
    level = allocator.feasibility.level(topology.name, topology.required)
    runs_in = {int(level.domain_of[pod.node]) for pod in job.running_pods()} - {-1}
    needs = candidate.lacking()
    pods = sum([lack for _, _, lack in needs])
    if runs_in:
        names = tuple([domain_name(cluster, level, domain) for domain in sorted(runs_in)])
        return DomainShortage(topology.required, pods, names)
    affinity = allocator.feasibility.affinity(job)
    best = best_domain(allocator, allocator.capacity, level, needs, affinity)
    return DomainShortage(topology.required, pods, (), best.name, best.pods)


def no_claim(allocator: Allocator, rules: PreemptionRules) -> NoClaim | OlderClaims | None:
    """Return why a workload may evict nothing; None if it has a claim or victims of lower priority.

    Every request for GPUs may evict idle work without protection.
    """
    job, candidate = rules.job, rules.candidate
    if not job.can_preempt:
        return NoClaim(may_preempt=False, shortfall=None)
    takes_idle = bool(allocator.cluster.unprotected) and candidate.gpu_milli > 0
    if rules.has_claim or takes_idle or _lower_work(allocator, rules):
        return None
    covers = not rules.any_reclaim and allocator.overlay.covers(job.path, candidate.request)
    older = _older_claims(allocator.feasibility, candidate) if covers else []
    if not older:
        return NoClaim(may_preempt=True, shortfall=quota_shortfall(allocator, rules))
    steps = [other.waiting.step.request for other in older if other.waiting is not None]
    claimed = sum(amount for request in steps for row, amount in request if row == GPU_ROW)
    return OlderClaims(job.project, tuple([other.name for other in older]), claimed)


def quota_shortfall(allocator: Allocator, rules: PreemptionRules) -> QuotaShortfall | None:
    """Return the queue whose quota prevents a reclaim; None if it is allowed, or never is."""
    job = rules.job
    if rules.has_claim or not job.can_preempt:
        return None
    over = allocator.checks.shortfall(job, rules.request)
    if over is None:
        return None
    gains_by_waiting = not rules.is_patient and rules.in_share
    claims_s = job.waits_since_s + allocator.policy.reclaim_share_after if gains_by_waiting else None
    return QuotaShortfall(over, claims_s)


def claims_change_s(allocator: Allocator, rules: PreemptionRules) -> float:
    """Return the earliest time at which a workload may gain a claim by waiting; now if priorities age."""
    job, policy = rules.job, allocator.policy
    if policy.aging and not job.is_running:
        return allocator.now_s
    if rules.depends_on_share and not rules.is_patient:
        return job.waits_since_s + policy.reclaim_share_after
    return INFINITE


def _lower_work(allocator: Allocator, rules: PreemptionRules) -> bool:
    """Return True if preemptible work of lower priority runs in the project of a workload."""
    job, policy, now_s = rules.job, allocator.policy, allocator.now_s
    own = effective_priority(job, policy, now_s)
    if not policy.aging:
        return lowest_priority(allocator.cluster, policy, job.project) < own
    others = allocator.cluster.running.get(job.project, {}).values()
    return any(
        other.preemptible and other is not job and effective_priority(other, policy, now_s) < own
        for other in others
    )


def _older_claims(feasibility: FeasibilityCache, candidate: Candidate) -> list[Job]:
    """Return the workloads that claim the project's quota before a candidate, in the order of the project."""
    own = candidate.queued.line_key(candidate.index)
    claims = [
        (queued.line_key(index), queued.members[index][2])
        for queued, count in feasibility.owners(candidate.job.project).items()
        for index in range(count)
        if queued.line_key(index) < own
    ]
    return [job for _, job in sorted(claims, key=lambda claim: claim[0])]


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
        self._now_s = now_s
        self._cluster = cluster
        self._policy = policy
        self._cache = cache
        self._allocator = allocator
        self._changes = cluster.changes
        self._capacity: CapacityRefusals | None = None
        self._of_class: dict[EquivalenceClass, PendingRefusal] = {}
        self._usage: dict[int, int] = {}  # versions by project

    @property
    def is_current(self) -> bool:
        """Return True if the cluster hasn't changed since."""
        return self._changes == self._cluster.changes

    def of_class(self, queued: EquivalenceClass) -> PendingRefusal:
        """Return the refusal of the oldest workload of a class."""
        refusal = self._of_class.get(queued)
        if refusal is None:
            table = self._opened().table
            kept = table.by_class[queued] = self._checked(queued, 0, table.by_class.get(queued))
            refusal = self._opened().refusal(kept)
            if refusal == kept.refusal:
                refusal = kept.refusal  # an equal refusal is kept, with its reason
            self._of_class[queued] = kept.refusal = refusal
        return refusal

    def of_member(self, queued: EquivalenceClass, index: int) -> PendingRefusal:
        """Return the refusal of one workload of a class."""
        return self._opened().refusal(self._checked(queued, index)) if index else self.of_class(queued)

    def _opened(self) -> CapacityRefusals:
        """Return the checks of this state.

        Refusals of a plan with actions aren't cached, because the plan may fail.
        """
        if self._capacity is None:
            assert self.is_current, "refusals are those of one state"
            allocator = self._allocator or new_allocator(
                self._cluster, self._policy, self._now_s, self._cache
            )
            table = KeptRefusals() if allocator.overlay.log else self._cache.refusals
            table.prune(len(self._cluster.waiting))
            self._capacity = CapacityRefusals(allocator, table)
        return self._capacity

    def _usage_version(self, project: int) -> int:
        """Return the version of the usage that quota checks of a project's classes depend on."""
        version = self._usage.get(project)
        if version is None:
            ledger = self._cluster.ledger
            path = ledger.path[project]
            read = [
                queue for queue in path if queue == project or ledger.bounded[queue] or ledger.limited[queue]
            ]
            version = self._usage[project] = sum([ledger.touched[queue] for queue in read])
        return version

    def _checked(
        self, queued: EquivalenceClass, index: int, before: KeptRefusal | None = None
    ) -> KeptRefusal:
        """Return the checks of a workload apart from free capacity; the previous ones if they are valid."""
        job, usage = queued.members[index][2], self._usage_version(queued.project)
        is_same = before is not None and before.candidate.job is job
        candidate = before.candidate if before is not None and is_same else Candidate(queued, index)
        by_budgets = job.spec.lapsed or job.spec.protected  # disruption budgets change the quota check
        if before is not None and is_same and before.usage == usage and not by_budgets:
            return before
        allocator = self._opened().allocator
        final = _final(allocator, candidate)
        in_quota = final is None and allocator.checks.in_quota(candidate)
        refusal = None if before is None else before.refusal
        return KeptRefusal(candidate, usage, final, in_quota, refusal=refusal)


def _final(allocator: Allocator, candidate: Candidate) -> PendingRefusal | None:
    """Return the refusal by quotas, limits or all nodes, which free capacity can't change."""
    job, request = candidate.job, candidate.request
    refused = allocator.checks.quota_refusal(job, request)
    if refused is not None and refused.kind is RefusalKind.QUOTA:
        return replace(refused, budgets=budgets_of(job))
    nodes = infeasible(allocator, candidate)
    if nodes is None:
        return refused
    return NodesRefusal(nodes, over_quota=not allocator.overlay.covers(job.path, request))
