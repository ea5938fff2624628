"""Preemption: free capacity for workloads that didn't fit, by consolidation, reclaim or preempt."""

from collections.abc import Iterator, Sequence

from weir.engine.allocation.allocate import Allocator
from weir.engine.order.queue_order import Candidate, QueueOrder
from weir.engine.placement.pod_placer import NodePlacement
from weir.engine.preemption.preemption_attempts import PreemptionAttempts
from weir.engine.preemption.preemption_eligibility import PreemptionEligibility
from weir.engine.refusals.refusals import RefusalKind
from weir.engine.victims.move_bounds import MoveBounds
from weir.engine.victims.preemption_context import PreemptionContext, PreemptionPlan
from weir.model.workloads import WorkloadType

REPLICAS_AT_ONCE_MAX = 64
"""Replicas of a service for which one cycle frees capacity."""
PODS_AT_ONCE_MAX = 24_000
"""Pods examined for the plans of one cycle; the next cycle continues with the others."""
STOPPED_POD_COUNTS = 64
"""Number of examined pods whose cost equals that of one stopped or placed pod."""


class Preemptor:
    """Frees capacity in one cycle."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._cluster = allocator.cluster
        self._policy = allocator.policy
        self._checks = allocator.checks
        self._moves = MoveBounds(allocator)
        self._eligibility = PreemptionEligibility(allocator, self._moves)
        self._known_attempts: PreemptionAttempts | None = None
        self._looked_at = 0  # number of pods examined for the plans so far
        self.stopped_early = False  # True if other workloads have to wait for the next cycle

    def gather(self) -> Iterator[tuple[Candidate, PreemptionPlan]]:
        """Yield scattered gangs with their plan: one domain cleared by moves, or the first placement."""
        scattered = self._allocator.scattered
        if scattered:  # a scattered gang isn't moved for another one
            self._attempts.context.accounting.expect(candidate.job.name for candidate, _ in scattered)
        for candidate, placements in scattered:
            plan = self._attempts.cleared_or_kept(candidate, placements)
            if plan.kind is not None:
                self._allocator.withdraw(placements)
                self._attempts.bounds.forget()
            yield candidate, plan

    def preempt(self) -> Iterator[tuple[Candidate, PreemptionPlan]]:
        """Yield each workload for which capacity was freed, with the plan."""
        candidates = self._eligibility.candidates()
        if candidates:
            yield from self._preempt_for(candidates, self._least_free_milli(candidates))

    def _least_free_milli(self, candidates: Sequence[Candidate]) -> int | None:
        """Return the thousandths of devices that must be free for any candidate; None if that is unknown.

        Moves leave the number of free devices unchanged. So work that only moves could help needs its own
        devices and the headroom free in total.
        """
        sets = self._allocator.cache.preemption.candidate_sets
        if sets is None or None in sets or not self._policy.oldest_first_in_quota:
            return None  # it may stop others, now or once this plan has changed the usage of its project
        steps = [0 if candidate.job.is_elastic else candidate.gpu_milli for candidate in candidates]
        return min(steps) + self._checks.headroom_milli if all(steps) else None

    def retry_refused(self) -> Iterator[tuple[Candidate, PreemptionPlan]]:
        """Free capacity for workloads with refused evictions, before others use free capacity."""
        candidates: list[Candidate] = []
        for name, at_s in self._cluster.withdrawn.items():
            queued = self._cluster.jobs[name].waiting
            if queued is not None and self._allocator.now_s - at_s <= self._policy.budgets.retry:
                job = self._cluster.jobs[name]
                candidates.append(self._allocator.candidate(queued, queued.position_of(job)))
        if candidates:
            yield from self._preempt_for(candidates)

    def _preempt_for(
        self, candidates: Sequence[Candidate], least_free_milli: int | None = None
    ) -> Iterator[tuple[Candidate, PreemptionPlan]]:
        """Yield plans until no candidate is left that could still succeed."""
        order = QueueOrder(self._allocator.overlay, candidates)
        while self._could_help(least_free_milli) and (candidate := order.next()) is not None:
            plan = self._plan_for(candidate)
            if plan is None:
                order.settle()
            else:
                self._attempts.bounds.forget()
                if not candidate.again:
                    self._allocator.note_nominated(candidate)
                yield candidate, plan
                order.settle(self._followers(candidate))
                self._looked_at += self._pods_looked_at(plan)
                if self._looked_at > PODS_AT_ONCE_MAX:
                    self.stopped_early = True
                    return

    def _could_help(self, least_free_milli: int | None) -> bool:
        """Return True if moves could help any candidate, by bounds; None if evictions might help, too."""
        if least_free_milli is None:
            return True
        free_milli = self._attempts.context.placer.capacity.totals.free_gpu_milli
        sets, moves = self._allocator.cache.preemption.candidate_sets or {}, self._moves
        return free_milli >= least_free_milli and any(
            key is not None and moves.could_suffice(*members[0], key) for key, members in sets.items()
        )

    def _pods_looked_at(self, plan: PreemptionPlan) -> int:
        """Return the number of pods that the search for a plan examines, as a bound of its time."""
        if plan.kind is None:
            return 0
        going = len(plan.stopped) + len(plan.placements) + sum(len(places) for _, places, _ in plan.moved)
        return sum(map(len, self._cluster.pods_on)) + STOPPED_POD_COUNTS * going

    def _followers(self, served: Candidate) -> list[Candidate]:
        """Return the candidates after a workload with freed capacity.

        A service gets capacity for several replicas in one cycle: its victims stop at the same time.
        """
        followers = []
        if not served.again and served.index + 1 < len(served.queued.members):
            followers.append(Candidate(served.queued, served.index + 1))
        is_service = served.job.type is WorkloadType.INFERENCE
        grown = served.grown() if is_service else None
        if grown is not None and sum(grown.placed) - sum(served.job.placed) < REPLICAS_AT_ONCE_MAX:
            followers.append(grown.aged(self._allocator.now_s, self._policy.aging))
        return followers

    @property
    def _attempts(self) -> PreemptionAttempts:
        """Return the attempts of the cycle; they are made when needed, since they copy the capacity."""
        if self._known_attempts is None:
            context = PreemptionContext(self._allocator)
            self._known_attempts = PreemptionAttempts(
                self._allocator, context, self._moves, self._eligibility
            )
        return self._known_attempts

    def _plan_for(self, candidate: Candidate) -> PreemptionPlan | None:
        """Free capacity for a workload; None if no way succeeds."""
        job, context = candidate.job, self._attempts.context
        leaving, capacity = context.accounting.leaving, context.placer.capacity
        if leaving and job.is_running and any(pod in leaving for pod in job.running_pods()):
            return None  # a workload that this plan evicts or moves can't grow in it
        with self._allocator.placement.outages.withheld(capacity, job):
            refusal = self._checks.refusal(candidate, capacity)
            if refusal is not None and refusal.kind is RefusalKind.QUOTA:
                return None
            # Capacity can have grown since its allocation only in these cases
            if refusal is None and (self._cluster.releasing_on or leaving):
                placements = self._placed_after_releases(candidate)
                if placements is not None:
                    return self._attempts.cleared_or_kept(candidate, placements)
            if not job.can_preempt:
                return None
            under_limits = refusal is None or refusal.kind is not RefusalKind.LIMIT
            return self._attempts.first_success(self._allocator.rules_of(candidate), under_limits)

    def _placed_after_releases(self, candidate: Candidate) -> list[NodePlacement] | None:
        """Place a workload in the capacity after all releases; None if it doesn't fit."""
        context = self._attempts.context
        with context.transaction.trial() as trial:
            placements = self._allocator.placement.place(candidate, context.placer)
            if placements is not None:
                context.accounting.start(placements)
                context.accounting.expect((candidate.job.name,))
                trial.commit()
        return placements
