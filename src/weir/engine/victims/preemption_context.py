"""State that all preemptions of one cycle share, and the plan of one: placements, and stops or moves."""

from dataclasses import dataclass, field

from weir.engine.allocation.allocate import Allocator
from weir.engine.placement.placer import Placer
from weir.engine.placement.pod_placer import NodePlacement
from weir.engine.protection.preemption_rules import PreemptionKind
from weir.engine.protection.victim_protection import VictimProtections
from weir.engine.transaction import Transaction
from weir.model.reasons import EvictionRule
from weir.state.jobs import Job, Pod


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """The second-best choice of victims: other workloads on the chosen node, or those of another node.

    `dearer` is the smallest amount by which it costs more, in device seconds. It is None if quota, fair share
    or priority decided, so prices weren't compared.
    """

    node: int
    dearer: float | None
    workloads: tuple[str, ...] = ()


@dataclass(slots=True)
class PreemptionPlan:
    """Capacity found for a workload: placements, pods to stop and pods to move.

    `runner_up` is the next choice of victims for a workload that lacks one pod; None for others.
    """

    kind: PreemptionKind | None  # None: no preemption, the workload fits into the capacity after releases
    placements: list[NodePlacement]
    stopped: list[tuple[Pod, EvictionRule]] = field(default_factory=list)
    moved: list[tuple[Job, list[NodePlacement], EvictionRule]] = field(default_factory=list)
    runner_up: RunnerUp | None = None


class PreemptionContext:
    """Cluster, accounting and the capacity after all releases. Without `bounds` no search is skipped."""

    def __init__(self, allocator: Allocator) -> None:
        self.cluster = allocator.cluster
        self.policy = allocator.policy
        self.now_s = allocator.now_s
        self.checks = allocator.checks
        self.placement = allocator.placement
        self.affinity_of = allocator.feasibility.affinity
        self.feasible_nodes = allocator.feasibility.feasible_nodes
        self.levels_of = allocator.feasibility.levels
        self.bounds = allocator.cache.bounds
        self.single_prices: dict[Pod, float] = {}  # of the only pods of workloads, filled on demand
        self._any_lapsed: bool | None = None
        self.accounting = allocator.transaction.accounting
        self.accounting.expect(self.cluster.nominated)
        self.protections = VictimProtections(self.policy, self.now_s, self.accounting.disruptions)
        capacity = allocator.capacity.after_releases(self.cluster)
        self.transaction = Transaction(capacity, self.accounting)
        self.placer = Placer(
            *(
                self.cluster,
                capacity,
                allocator.cache.scores.over(capacity).scores_of,
                self.policy.search_steps,
            ),
            *(allocator.feasibility.pod_rules(), allocator.domain_of),
        )

    def running(self, job: Job) -> list[Pod]:
        """Return the pods of a job that the plan leaves running so far."""
        leaving, pods = self.accounting.leaving, job.running_pods()
        return [pod for pod in pods if pod not in leaving] if leaving else pods

    @property
    def any_lapsed(self) -> bool:
        """Return True if budgets no longer protect any running workload."""
        if self._any_lapsed is None:
            running = self.cluster.running.values()
            self._any_lapsed = any(job.spec.lapsed for jobs in running for job in jobs.values())
        return self._any_lapsed
