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
from weir.engine.refusals.kept_refusals import KeptRefusal, KeptRefusals
from weir.engine.refusals.refusals import NodesRefusal, PendingRefusal, RefusalKind
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
            kept = table.of[of] = self._checked(of, 0, table.of.get(of))
            refusal = self._opened().refusal(kept)
            if refusal == kept.refusal:
                refusal = kept.refusal  # an equal refusal is kept, with its reason
            self._of_class[of] = kept.refusal = refusal
        return refusal

    def of_member(self, of: EquivalenceClass, at: int) -> PendingRefusal:
        """Return the refusal of one workload of a class."""
        return self._opened().refusal(self._checked(of, at)) if at else self.of_class(of)

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

    def _checked(self, of: EquivalenceClass, at: int, before: KeptRefusal | None = None) -> KeptRefusal:
        """Return the checks of a workload that don't ask for free capacity; those of before if they hold."""
        job, usage = of.members[at][2], self._usage_version(of.project)
        is_same = before is not None and before.candidate.job is job
        candidate = before.candidate if before is not None and is_same else Candidate(of, at)
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
