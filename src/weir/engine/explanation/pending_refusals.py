"""Refusals of all pending workloads of one state.

The checks are those of the decision: quotas, nodes, limits, free capacity and its owners. Their results are
kept while nothing that they depend on changes, and what classes have in common is computed once.
"""

from dataclasses import replace

from weir.engine.allocation.allocate import Allocator, new_allocator
from weir.engine.cache import EngineCache
from weir.engine.explanation.capacity_refusals import CapacityRefusals
from weir.engine.explanation.ineligible_victims import budgets_of
from weir.engine.explanation.infeasible_workloads import infeasible
from weir.engine.order.queue_order import Candidate
from weir.engine.refusals.kept_refusals import KeptRefusal, KeptRefusals, QuotaAnswer
from weir.engine.refusals.refusals import NodesRefusal, PendingRefusal, RefusalKind
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

    def of_class(self, of: EquivalenceClass) -> PendingRefusal:
        """Return the refusal of the oldest workload of a class."""
        refusal = self._of_class.get(of)
        if refusal is None:
            table = self._opened().table
            kept = table.of[of] = self._renewed(of, table.of.get(of))
            refusal = self._opened().refusal(kept)
            if refusal == kept.refusal:
                refusal = kept.refusal  # an equal refusal is kept, with its reason
            self._of_class[of] = kept.refusal = refusal
        return refusal

    def of_member(self, of: EquivalenceClass, at: int) -> PendingRefusal:
        """Return the refusal of one workload of a class."""
        return self._opened().refusal(self._new(Candidate(of, at))) if at else self.of_class(of)

    def _opened(self) -> CapacityRefusals:
        """Return the checks of this state. Refusals of a plan with actions aren't kept: it may fail."""
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
            read = [at for at in path if at == project or ledger.bounded[at] or ledger.limited[at]]
            version = self._usage[project] = sum([ledger.touched[at] for at in read])
        return version

    def _new(self, candidate: Candidate) -> KeptRefusal:
        """Return the parts of a refusal that free capacity can't change."""
        groups = tuple([(name, lack) for name, _, lack in candidate.lacking()])
        nodes = infeasible(self._opened().allocator, candidate)
        return KeptRefusal(candidate, nodes, groups, self._quota(candidate, nodes))

    def _renewed(self, of: EquivalenceClass, kept: KeptRefusal | None) -> KeptRefusal:
        """Return these parts for the oldest workload of a class; kept ones as far as they are valid."""
        if kept is None:
            return self._new(Candidate(of, 0))
        job = of.first
        if (
            kept.quota.usage == self._usage_version(of.project)
            and kept.candidate.job is job
            and not (job.spec.lapsed or job.spec.protected)  # disruption budgets change the quota check
        ):
            return kept
        candidate = kept.candidate if kept.candidate.job is job else Candidate(of, 0)
        quota = self._quota(candidate, kept.nodes)
        return KeptRefusal(candidate, kept.nodes, kept.groups, quota, refusal=kept.refusal)

    def _quota(self, candidate: Candidate, nodes: Reason | None) -> QuotaAnswer:
        """Return refusals that don't depend on free capacity, and the quota checks of the rest."""
        allocator, job, request = self._opened().allocator, candidate.job, candidate.request
        usage = self._usage_version(job.project)
        refused = allocator.refused.get((candidate.of, candidate.at))
        # No step requested, or the quota checks passed
        if refused is None or refused.kind is RefusalKind.HEADROOM:
            refused = allocator.checks.quota_refusal(job, request)
        final: PendingRefusal | None = refused
        if refused is not None and refused.kind is RefusalKind.QUOTA:
            final = replace(refused, budgets=budgets_of(job))
        elif nodes is not None:
            final = NodesRefusal(nodes, over_quota=not allocator.overlay.covers(job.path, request))
        if final is not None:
            return QuotaAnswer(usage, final, in_quota=False, any_model_shut=False)
        any_model_shut = bool(allocator.checks.models_shut(job, request))
        return QuotaAnswer(usage, None, allocator.checks.in_quota(candidate), any_model_shut)
