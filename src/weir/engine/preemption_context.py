"""State that all preemptions of one cycle share."""

from collections.abc import Callable
from dataclasses import dataclass

from weir.engine.allocate import Allocator
from weir.engine.outages import OutageRules
from weir.engine.placer import Placer
from weir.engine.quota_checks import QuotaChecks
from weir.engine.topology_levels import TopologyLevel
from weir.engine.transaction import Accounting, Transaction
from weir.model.policy import AffinityRules, Policy
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Pod


@dataclass(slots=True)
class PreemptionContext:
    """Cluster, accounting and the capacity after all releases. Without `bounds` no search is skipped."""

    cluster: Cluster
    policy: Policy
    transaction: Transaction
    placer: Placer
    checks: QuotaChecks
    affinity_of: Callable[[Job], AffinityRules]
    levels_of: Callable[[str], list[TopologyLevel]]
    now_s: float
    outages: OutageRules
    bounds: bool = True

    @property
    def accounting(self) -> Accounting:
        """Return the accounting of the cycle."""
        return self.transaction.accounting

    def running(self, job: Job) -> list[Pod]:
        """Return the pods of a job that the plan leaves running so far."""
        leaving, pods = self.transaction.accounting.leaving, job.running_pods()
        return [pod for pod in pods if pod not in leaving] if leaving else pods


def context_after_releases(allocator: Allocator) -> PreemptionContext:
    """Return the context of an allocator, over the capacity after all releases under way."""
    placer = _placer_after_releases(allocator)
    feasibility = allocator.feasibility
    return PreemptionContext(
        cluster=allocator.cluster,
        policy=allocator.policy,
        transaction=Transaction(placer.capacity, allocator.transaction.accounting),
        placer=placer,
        checks=allocator.checks,
        affinity_of=feasibility.affinity,
        levels_of=feasibility.levels,
        now_s=allocator.now_s,
        outages=allocator.placement.outages,
        bounds=allocator.cache.bounds,
    )


def _placer_after_releases(allocator: Allocator) -> Placer:
    cluster, cache = allocator.cluster, allocator.cache
    capacity = allocator.capacity.after_releases(cluster)
    rules, steps_most = allocator.feasibility.pod_rules(), allocator.policy.search_steps
    return Placer(cluster, capacity, cache.scores.over(capacity).of, steps_most, rules, allocator.domain_of)
