"""Preemption: free capacity for workloads that didn't fit, by consolidation, reclaim or preempt."""

from collections.abc import Callable, Iterator, Sequence

from weir.engine.allocate import Allocator
from weir.engine.domain_clearing import DomainClearing
from weir.engine.failed_preemptions import FailedPreemptions
from weir.engine.pod_placer import NodePlacement
from weir.engine.preemption_context import PreemptionContext
from weir.engine.preemption_eligibility import PreemptionEligibility
from weir.engine.preemption_plan import PreemptionPlan
from weir.engine.preemption_rules import PreemptionKind, PreemptionRules, QuotaProtection
from weir.engine.preemption_ways import PreemptionWays
from weir.engine.queue_order import Candidate, QueueOrder
from weir.engine.quota_overlay import INFINITE
from weir.engine.reclaim_bounds import ReclaimBounds
from weir.engine.refusals import RefusalKind
from weir.engine.victim_search import VictimSearch
from weir.model.workloads import WorkloadType

REPLICAS_AT_ONCE_MOST = 64
"""Replicas of one service for which capacity is freed in one cycle."""
PODS_AT_ONCE_MOST = 24_000
"""Pods looked at for the plans of one cycle; the cycle that follows goes on with the others."""
STOPPED_POD_COUNTS = 64
"""Pods of the cluster whose look costs as much as a pod that is stopped or placed."""
_NEVER_KEPT = (PreemptionKind.CONSOLIDATE, PreemptionKind.OVERRIDE, PreemptionKind.IDLE)
"""Kinds whose failures say nothing of a reclaim."""


class Preemptor:
    """Frees capacity in one cycle. The context is built only if a workload is eligible."""

    def __init__(self, allocator: Allocator, new_context: Callable[[], PreemptionContext]) -> None:
        self._allocator = allocator
        self._cluster = allocator.cluster
        self._policy = allocator.policy
        self._overlay = allocator.overlay
        self._checks = allocator.checks
        self._new_context = new_context
        self._kept_context: PreemptionContext | None = None
        self._bounds = ReclaimBounds(allocator)
        self._eligibility = PreemptionEligibility(allocator, self._bounds)
        self._ways = PreemptionWays(allocator, self._bounds, self._eligibility)
        self._failed = FailedPreemptions(allocator, self._bounds)
        self._domains = DomainClearing(allocator)
        self._looked_at = 0  # pods, for the plans so far
        self.stopped_early = False  # other workloads have to wait for the next cycle

    def gather(self) -> Iterator[tuple[Candidate, PreemptionPlan]]:
        """Yield scattered gangs with one domain cleared by moves, or else their first placement."""
        scattered = self._allocator.scattered
        if scattered:  # none of them is moved for another
            self._context.accounting.expect(candidate.job.name for candidate, _ in scattered)
        for candidate, placements in scattered:
            plan = self._cleared_or_kept(candidate, placements)
            if plan.kind is not None:
                self._allocator.withdraw(placements)
            yield candidate, plan

    def preempt(self) -> Iterator[tuple[Candidate, PreemptionPlan]]:
        """Yield each workload for which capacity was freed, with the plan."""
        candidates = self._eligibility.candidates()
        if candidates:
            yield from self._preempt_for(candidates)

    def retry_refused(self) -> Iterator[tuple[Candidate, PreemptionPlan]]:
        """Free capacity for workloads with refused evictions, before others use what is free."""
        candidates: list[Candidate] = []
        for name, at_s in self._cluster.withdrawn.items():
            of = self._cluster.jobs[name].waiting
            if of is not None and self._allocator.now_s - at_s <= self._policy.budgets.retry:
                job = self._cluster.jobs[name]
                candidates.append(self._allocator.candidate(of, of.position_of(job)))
        if candidates:
            yield from self._preempt_for(candidates)

    def _preempt_for(self, candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, PreemptionPlan]]:
        order = QueueOrder(self._overlay, candidates)
        while (candidate := order.next()) is not None:
            plan = self._plan_for(candidate)
            if plan is None:
                order.settle()
            else:
                if not candidate.again:
                    self._allocator.note_nominated(candidate)
                yield candidate, plan
                order.settle(self._followers(candidate))
                self._looked_at += self._pods_looked_at(plan)
                if self._looked_at > PODS_AT_ONCE_MOST:
                    self.stopped_early = True
                    return

    def _pods_looked_at(self, plan: PreemptionPlan) -> int:
        """Return how many pods the search for a plan looks at: a bound of its time, without caches."""
        if plan.kind is None:
            return 0
        going = len(plan.stopped) + len(plan.placements) + sum(len(places) for _, places, _ in plan.moved)
        return sum(map(len, self._cluster.pods_on)) + STOPPED_POD_COUNTS * going

    def _followers(self, served: Candidate) -> list[Candidate]:
        """Return the candidates after a workload for which capacity was freed.

        A service gets capacity for several replicas in one cycle: its victims stop at the same time.
        """
        followers = []
        if not served.again and served.at + 1 < len(served.of.members):
            followers.append(Candidate(served.of, served.at + 1))
        is_service = served.job.type is WorkloadType.INFERENCE
        grown = served.grown() if is_service else None
        if grown is not None and sum(grown.placed) - sum(served.job.placed) < REPLICAS_AT_ONCE_MOST:
            followers.append(grown.aged(self._allocator.now_s, self._policy.aging))
        return followers

    @property
    def _context(self) -> PreemptionContext:
        """Return the context; it is built at its first use."""
        if self._kept_context is None:
            self._kept_context = self._new_context()
        return self._kept_context

    @property
    def _any_leaves(self) -> bool:
        """Return True if this plan stops or moves any pod so far."""
        return bool(self._context.accounting.leaving)

    def _plan_for(self, candidate: Candidate) -> PreemptionPlan | None:
        """Free capacity for a workload; None if no way succeeds."""
        outages = self._allocator.placement.outages
        if not outages:
            return self._found_plan(candidate)
        with outages.withheld(self._context.placer.capacity, candidate.job):
            return self._found_plan(candidate)

    def _found_plan(self, candidate: Candidate) -> PreemptionPlan | None:
        job, context = candidate.job, self._context
        leaving = context.accounting.leaving
        if leaving and job.is_running and any(pod in leaving for pod in job.running_pods()):
            return None  # a workload that is stopped or moved in this plan doesn't grow in it
        refusal = self._checks.refusal(candidate, context.placer.capacity)
        if refusal is not None and refusal.kind is RefusalKind.QUOTA:
            return None
        # Only then is there more capacity than at its allocation
        if refusal is None and (self._cluster.releasing_on or leaving):
            placements = self._allocator.placement.place(candidate, context.placer)
            if placements is not None:
                context.accounting.start(placements)
                return self._cleared_or_kept(candidate, placements)
        if not job.can_preempt:
            return None
        under_limits = refusal is None or refusal.kind is not RefusalKind.LIMIT
        plan = self._first_success(self._checks.rules_of(candidate, self._allocator.now_s), under_limits)
        if plan is not None:
            self._freed()
        return plan

    def _freed(self) -> None:
        """Forget results from before capacity was freed."""
        self._failed.consolidations.clear()
        self._domains.forget()

    def _first_success(self, rules: PreemptionRules, under_limits: bool) -> PreemptionPlan | None:
        """Free capacity in the first way that succeeds; keep a failure that lasts."""
        failed = self._failed.consolidations
        until_s = INFINITE  # until when every way fails
        for kind, most in self._ways.of(rules, self._context, under_limits):
            failing_until_s = self._failing_until_s(rules, kind, most)
            if failing_until_s is not None:
                until_s = min(until_s, failing_until_s)
                continue
            moves = kind is PreemptionKind.CONSOLIDATE
            key = (
                self._failed.consolidation_key(rules, self._context.affinity_of(rules.job)) if moves else None
            )
            if key is not None and key in failed:
                until_s = until_s if failed[key] else -INFINITE
                continue
            plan, is_final = self._search(rules, kind, most)
            if plan is not None:
                return plan
            if key is None or not is_final:
                until_s = -INFINITE
            if key is not None:
                failed[key] = is_final
        if until_s > self._context.now_s and not (self._any_leaves or self._cluster.releasing_on):
            self._failed.sleep(rules, until_s)
        return None

    def _failing_until_s(
        self, rules: PreemptionRules, kind: PreemptionKind, most: QuotaProtection
    ) -> float | None:
        """Return the time until which a kept failure holds; None if a search is needed."""
        if kind in _NEVER_KEPT or self._any_leaves:
            return None
        failure = self._failed.reclaim(rules, self._context.now_s)
        if failure is None:
            return None
        victims = self._domains.candidates(
            self._context, rules, kind, most, self._policy.consolidation.budget
        )
        return failure.until_s if self._failed.covers(failure, rules, victims.jobs.keys()) else None

    def _search(
        self, rules: PreemptionRules, kind: PreemptionKind, most: QuotaProtection
    ) -> tuple[PreemptionPlan | None, bool]:
        """Free capacity in one way; if that fails, also return whether it fails until a checkpoint."""
        candidate = rules.candidate
        domains, anywhere = self._domains.find(self._context, candidate, kind)
        plan = self._domains.clear_one(self._context, domains, rules, kind, most)
        if plan is not None or not anywhere:
            return plan, False
        victims = self._domains.candidates(
            self._context, rules, kind, most, self._policy.consolidation.budget
        )
        search = VictimSearch(self._context, victims, self._allocator.placement.open_to(candidate))
        plan = search.run()
        fell_short = plan is None and not domains and search.fell_short
        alone = not self._any_leaves and not self._eligibility.has_lower(candidate.of)
        if fell_short and kind is PreemptionKind.RECLAIM and alone:
            self._failed.keep_reclaim(rules, victims.jobs.keys())
        return plan, search.is_final and not domains and not self._failed.more_by_time

    def _cleared_or_kept(self, candidate: Candidate, placements: list[NodePlacement]) -> PreemptionPlan:
        """Clear one domain by moves if these placements are scattered; otherwise keep them."""
        job, transaction, kind = candidate.job, self._context.transaction, PreemptionKind.CONSOLIDATE
        if (
            self._allocator.placement.is_scattered(job, placements)
            and job.can_preempt
            and self._policy.consolidation.enabled
        ):
            with transaction.trial() as trial:
                transaction.cancel(placements)
                self._domains.forget()
                domains, _ = self._domains.find(self._context, candidate, kind)
                rules = self._checks.rules_of(candidate, self._allocator.now_s)
                plan = self._domains.clear_one(self._context, domains, rules, kind, QuotaProtection.NONE)
                if plan is not None:
                    trial.commit()
                    self._freed()
                    return plan
        self._domains.forget()
        return PreemptionPlan(None, placements)
