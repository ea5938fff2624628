"""State that all preemptions of one cycle share."""

from collections.abc import Callable
from dataclasses import dataclass

from weir.engine.allocate import Allocator
from weir.engine.node_scores import NodeScores
from weir.engine.outages import OutageRules
from weir.engine.placer import Placer
from weir.engine.quota_checks import QuotaChecks
from weir.engine.topology_levels import TopologyLevel
from weir.engine.transaction import Accounting, Transaction
from weir.model.policy import AffinityPolicy, Policy
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Pod
from weir.state.shapes import RequestShape


@dataclass(slots=True)
class PreemptionContext:
    """Cluster, accounting and the capacity after all releases. Without `bounds` no search is skipped."""

    cluster: Cluster
    policy: Policy
    transaction: Transaction
    placer: Placer
    checks: QuotaChecks
    affinity_of: Callable[[Job], tuple[AffinityPolicy, ...]]
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
    scores: dict[tuple[int, tuple[AffinityPolicy, ...]], NodeScores] = {}

    def scores_of(shape: RequestShape, affinity: tuple[AffinityPolicy, ...]) -> NodeScores:
        shape = shape.plain or shape
        found = scores.get((shape.id, affinity))
        if found is None:
            found = scores[(shape.id, affinity)] = cache.new_node_scores(capacity, shape, affinity)
        return found

    rules, steps_most = allocator.feasibility.pod_rules(), allocator.policy.search_steps
    return Placer(cluster, capacity, scores_of, steps_most, rules, allocator.domain_of)
