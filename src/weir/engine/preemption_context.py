"""State that all preemptions of one cycle share."""

from collections.abc import Callable
from dataclasses import dataclass

from weir.engine.placer import Placer
from weir.engine.quota_checks import QuotaChecks
from weir.engine.topology_levels import TopologyLevel
from weir.engine.transaction import Accounting, Transaction
from weir.model.policy import AffinityPolicy, Policy
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
    affinity_of: Callable[[Job], tuple[AffinityPolicy, ...]]
    levels_of: Callable[[str], list[TopologyLevel]]
    now_s: float
    bounds: bool = True

    @property
    def accounting(self) -> Accounting:
        """Return the accounting of the cycle."""
        return self.transaction.accounting

    def running(self, job: Job) -> list[Pod]:
        """Return the pods of a job that the plan leaves running so far."""
        leaving, pods = self.transaction.accounting.leaving, job.running_pods()
        return [pod for pod in pods if pod not in leaving] if leaving else pods
