"""Refusals of all pending workloads of one state, kept while nothing that they depend on changes.

The checks are those of the decision: quotas, nodes, limits, free capacity and its owners. None is run again
for a class whose refusal still holds, and what classes have in common is computed once.
"""

from dataclasses import replace

from weir.engine.allocate import Allocator, new_allocator
from weir.engine.cache import EngineCache
from weir.engine.capacity_refusals import CapacityRefusals
from weir.engine.ineligible_victims import budgets_of
from weir.engine.infeasible_workloads import infeasible
from weir.engine.kept_refusals import KeptRefusal, KeptRefusals, Situation
from weir.engine.queue_order import Candidate
from weir.engine.quota_overlay import INFINITE
from weir.engine.reason_context import ReasonContext
from weir.engine.refusals import NodesRefusal, Refusal, RefusalKind, ShortageRefusal
from weir.model.policy import Policy
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass


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
        self._state = cluster.changes, now_s
        self._checks: CapacityRefusals | None = None
        self._touched: dict[int, int] = {}  # versions of the usage in this state, by project

    @property
    def is_current(self) -> bool:
        """Return True if the cluster hasn't changed since."""
        return self._state[0] == self._cluster.changes

    def of_class(self, of: EquivalenceClass) -> Refusal:
        """Return the refusal of the oldest workload of a class."""
        table = (self._checks or self._opened()).table
        kept, (changes, now_s) = table.of.get(of), self._state
        if kept is None or kept.changes != changes or now_s >= kept.refusal_until_s:
            if kept is None or kept.touched != self._version(of.project) or now_s >= kept.until_s:
                kept = table.of[of] = self._claims_of(of, 0, kept)
            kept.refusal_until_s = kept.until_s
            kept.refusal = kept.final or self._refusal(kept)
            kept.changes = changes
        assert kept.refusal is not None
        return kept.refusal

    def of_member(self, of: EquivalenceClass, at: int) -> Refusal:
        """Return the refusal of one workload of a class."""
        if not at:
            return self.of_class(of)
        kept = self._claims_of(of, at, None)
        return kept.final or self._refusal(kept)

    def _opened(self) -> CapacityRefusals:
        """Return the checks of this state; a plan that acts keeps no refusal: it may not be carried out."""
        if self._checks is None:
            assert self.is_current, "refusals are those of one state"
            allocator = self._allocator or new_allocator(self._cluster, self._policy, self.now_s, self._cache)
            table = KeptRefusals() if allocator.overlay.log else self._cache.refusals
            table.prune(len(self._cluster.waiting))
            self._checks = CapacityRefusals(ReasonContext(allocator), table)
        return self._checks

    # Whatever is free: quotas, nodes, and claims

    def _version(self, project: int) -> int:
        """Return how often the usage has changed that checks of the project's workloads read."""
        found, ledger = self._touched.get(project), self._cluster.ledger
        if found is None:
            path, bounded, limited = ledger.path[project], ledger.bounded, ledger.limited
            read = [queue for queue in path if queue == project or bounded[queue] or limited[queue]]
            found = self._touched[project] = sum([ledger.touched[queue] for queue in read])
        return found

    def _claims_of(self, of: EquivalenceClass, at: int, before: KeptRefusal | None) -> KeptRefusal:
        """Return refusals that don't depend on free capacity, and the quota checks of the rest.

        `before` is the refusal of the same class for the usage of before.
        """
        context, kept = self._opened().context, self._renewed(of, at, before)
        candidate = kept.candidate
        job, request = candidate.job, candidate.request
        refusal = context.checks.quota_refusal(job, request)
        if refusal is not None and refusal.kind is RefusalKind.QUOTA:
            kept.final = replace(refusal, budgets=budgets_of(job))
        elif kept.nodes is not None:
            kept.final = NodesRefusal(kept.nodes, over_quota=not context.overlay.covers(job.path, request))
        else:
            kept.final = refusal
        if job.spec.lapsed or job.spec.protected:
            kept.until_s = -INFINITE  # budgets come and go
        if kept.final is None:
            kept.situation = self._situation(kept, shared=not at)
        return kept

    def _renewed(self, of: EquivalenceClass, at: int, before: KeptRefusal | None) -> KeptRefusal:
        """Return a refusal with the parts that the request alone decides."""
        touched = self._version(of.project)
        if before is not None:
            same = before.candidate.job is of.first
            return KeptRefusal(
                before.candidate if same else Candidate(of, at), before.nodes, before.groups, touched
            )
        candidate = Candidate(of, at)
        groups = tuple([(name, lack) for name, _, lack in self._opened().context.lacking(candidate)])
        nodes = infeasible(self._opened().context.allocator, candidate)
        return KeptRefusal(candidate, nodes, groups, touched)

    def _situation(self, kept: KeptRefusal, *, shared: bool) -> Situation:
        """Return the situation of a candidate, with all that request the same."""
        context, candidate = self._opened().context, kept.candidate
        in_quota = context.checks.in_quota(candidate)
        any_model_shut = bool(context.checks.models_shut(candidate.job, candidate.request))
        new = Situation(kept.groups, in_quota, any_model_shut)
        if not shared:
            return new
        affinity = context.feasibility.affinity(candidate.job)
        alone = candidate.of if any(shape.pod_rules for shape in candidate.job.shapes) else None
        key = candidate.of.wants, affinity, kept.groups, in_quota, any_model_shut, alone
        return self._opened().table.situations.setdefault(key, new)

    # Free capacity

    def _refusal(self, kept: KeptRefusal) -> Refusal:
        """Return the refusal of a workload by free capacity."""
        situation, capacity = kept.situation, self._opened()
        assert situation is not None
        if situation.state != self._state:
            capacity.look(situation, kept.candidate)
            situation.state = self._state
        if situation.headroom is not None:
            kept.refusal_until_s = -INFINITE  # reservations come with time
            return situation.headroom
        if capacity.any_outage:
            kept.refusal_until_s = -INFINITE
            outage = capacity.outage(kept.candidate, fits=not situation.is_short)
            if outage is not None:
                return outage
        if not situation.is_short:
            kept.refusal_until_s = -INFINITE
            return capacity.withheld(kept.candidate, situation)
        if not self._claim_holds(kept):
            capacity.note_claim(kept)
            kept.basis = None
        kept.refusal_until_s = min(kept.refusal_until_s, kept.claim_until_s)
        is_same = kept.claimless is not None and kept.basis is situation.shortage
        if is_same and isinstance(kept.refusal, ShortageRefusal):
            return kept.refusal
        kept.basis = situation.shortage
        return capacity.short(kept, situation)

    def _claim_holds(self, kept: KeptRefusal) -> bool:
        """Return True if the claim is known, and neither time nor the fair share has changed it."""
        return self.now_s < kept.claim_until_s and (
            kept.share is None
            or kept.share == self._opened().context.overlay.share[kept.candidate.job.project]
        )
