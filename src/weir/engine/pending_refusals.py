"""Refusals of all pending workloads of one state, kept while their inputs are unchanged.

The checks are those of the decision: quotas, nodes, limits, free capacity and its owners. None is run again
for a class whose refusal still holds, and what classes have in common is computed once.
"""

from dataclasses import replace

from weir.engine.allocate import Allocator, new_allocator
from weir.engine.cache import EngineCache
from weir.engine.capacity_refusals import CapacityRefusals
from weir.engine.ineligible_victims import budgets_of
from weir.engine.infeasible_workloads import infeasible
from weir.engine.kept_refusals import KeptRefusal, KeptRefusals, QuotaAnswer, StateVersions
from weir.engine.queue_order import Candidate
from weir.engine.quota_overlay import INFINITE
from weir.engine.reason_context import ReasonContext
from weir.engine.refusals import NodesRefusal, Refusal, RefusalKind
from weir.model.policy import Policy
from weir.model.reasons import Reason
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
        self._changes = cluster.changes
        self._shares = 0  # version of all fair shares, if they change with time
        self._capacity: CapacityRefusals | None = None
        self._versions: dict[int, StateVersions] = {}  # by project

    @property
    def is_current(self) -> bool:
        """Return True if the cluster hasn't changed since."""
        return self._changes == self._cluster.changes

    def of_class(self, of: EquivalenceClass) -> Refusal:
        """Return the refusal of the oldest workload of a class."""
        table = (self._capacity or self._opened()).table
        kept, versions = table.of.get(of), self._versions.get(of.project) or self._read(of.project)
        if kept is None or kept.versions != versions or self.now_s >= kept.until_s:
            kept = table.of[of] = self._asked(of, 0, versions, kept)
        assert kept.refusal is not None
        return kept.refusal

    def of_member(self, of: EquivalenceClass, at: int) -> Refusal:
        """Return the refusal of one workload of a class."""
        if not at:
            return self.of_class(of)
        refusal = self._asked(of, at, self._read(of.project), None).refusal
        assert refusal is not None
        return refusal

    def _opened(self) -> CapacityRefusals:
        """Return the checks of this state. Refusals of a plan with actions aren't kept: it may fail."""
        if self._capacity is None:
            assert self.is_current, "refusals are those of one state"
            allocator = self._allocator or new_allocator(self._cluster, self._policy, self.now_s, self._cache)
            table = KeptRefusals() if allocator.overlay.log else self._cache.refusals
            table.prune(len(self._cluster.waiting))
            self._capacity = CapacityRefusals(ReasonContext(allocator), table)
            if self._policy.usage.k:
                self._shares = sum(allocator.overlay.share_versions())
        return self._capacity

    def _read(self, project: int) -> StateVersions:
        """Return the versions that refusals of a project's classes depend on."""
        ledger = self._cluster.ledger
        read = [
            at for at in ledger.path[project] if at == project or ledger.bounded[at] or ledger.limited[at]
        ]
        usage = sum([ledger.touched[at] for at in read])
        found = self._versions[project] = StateVersions(
            self._changes, self._shares, self._cache.preemption.ends_noted, usage
        )
        return found

    def _asked(
        self, of: EquivalenceClass, at: int, versions: StateVersions, kept: KeptRefusal | None
    ) -> KeptRefusal:
        """Return the refusal of a workload; `kept` is that of the same class in an earlier state."""
        capacity = self._opened()
        if kept is None or not self._quota_holds(kept, of, versions):
            kept = self._renewed(of, at, versions, kept)
        refusal, until_s = kept.quota.final, INFINITE
        if refusal is None:
            refusal, until_s = capacity.refusal(kept)
        if refusal != kept.refusal:
            kept.refusal = refusal  # an equal refusal is kept, with its reason
        kept.versions, kept.until_s = versions, until_s
        return kept

    def _quota_holds(self, kept: KeptRefusal, of: EquivalenceClass, versions: StateVersions) -> bool:
        """Return True if the kept quota checks of a class are still valid."""
        job = of.first
        return (
            kept.versions.usage == versions.usage
            and kept.candidate.job is job
            and not (job.spec.lapsed or job.spec.protected)  # disruption budgets change the quota check
        )

    def _renewed(
        self, of: EquivalenceClass, at: int, versions: StateVersions, before: KeptRefusal | None
    ) -> KeptRefusal:
        """Return a refusal with new quota checks, and the parts that the request alone decides."""
        context = self._opened().context
        if before is None:
            candidate = Candidate(of, at)
            groups = tuple([(name, lack) for name, _, lack in context.lacking(candidate)])
            nodes = infeasible(context.allocator, candidate)
        else:
            candidate, groups, nodes = before.candidate, before.groups, before.nodes
            if candidate.job is not of.first:
                candidate = Candidate(of, at)
        kept = KeptRefusal(candidate, nodes, groups, self._quota(candidate, nodes), versions)
        if before is not None:
            kept.refusal = before.refusal
        return kept

    def _quota(self, candidate: Candidate, nodes: Reason | None) -> QuotaAnswer:
        """Return refusals that don't depend on free capacity, and the quota checks of the rest."""
        context, job, request = self._opened().context, candidate.job, candidate.request
        refused = context.allocator.refused.get((candidate.of, candidate.at))
        # No step requested, or the quota checks passed
        if refused is None or refused.kind is RefusalKind.HEADROOM:
            refused = context.checks.quota_refusal(job, request)
        final: Refusal | None = refused
        if refused is not None and refused.kind is RefusalKind.QUOTA:
            final = replace(refused, budgets=budgets_of(job))
        elif nodes is not None:
            final = NodesRefusal(nodes, over_quota=not context.overlay.covers(job.path, request))
        if final is not None:
            return QuotaAnswer(final, in_quota=False, any_model_shut=False)
        any_model_shut = bool(context.checks.models_shut(job, request))
        return QuotaAnswer(None, context.checks.in_quota(candidate), any_model_shut)
