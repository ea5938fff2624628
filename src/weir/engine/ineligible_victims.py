"""Running work that a pending workload may not evict, for its pending reason."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from weir.engine.budget_protection import (
    BudgetProtection,
    Protection,
    protection_of,
    units_of,
)
from weir.engine.disruption_allowances import DisruptionAllowances
from weir.engine.feasibility import Bools
from weir.engine.preemption_rules import PreemptionRules, is_past_min_runtime
from weir.engine.refusals import IneligibleVictims
from weir.model.policy import Policy
from weir.state.cluster import Cluster
from weir.state.jobs import Job
from weir.state.reducers.accounting import usage_on


@dataclass(slots=True)
class ProjectHoldings:
    """Amounts of one resource that running work of a project holds, by what keeps it from eviction.

    Amounts that disruption budgets protect aren't in `fixed`.
    """

    fixed: int = 0  # non-preemptible
    young: int = 0  # within its minimum run time
    others: int = 0
    protected_fixed: list[Protection] = field(default_factory=list)
    protected: list[Protection] = field(default_factory=list)


class RunningHoldings:
    """Holdings of all projects in one state, counted once for all requesters that may use the same nodes.

    `nodes` masks the nodes that count; None: all nodes.
    """

    def __init__(self, cluster: Cluster, policy: Policy, now_s: float, nodes: Bools | None = None) -> None:
        self._cluster = cluster
        self._policy = policy
        self._now_s = now_s
        self._nodes = None if nodes is None else nodes.tolist()
        self._disruptions = DisruptionAllowances(cluster, policy, now_s)
        self._by_row: dict[int, dict[int, ProjectHoldings]] = {}

    def of(self, row: int) -> Mapping[int, ProjectHoldings]:
        """Return the holdings of a resource by project."""
        found = self._by_row.get(row)
        if found is None:
            found = self._by_row[row] = {
                project: self._total(project, row) for project in self._cluster.running
            }
            if self._nodes is None:
                self._without_nominated(found, row)
            if self._policy.min_runtime.any or self._disruptions.any:
                left = DisruptionAllowances(self._cluster, self._policy, self._now_s)
                for project, running in self._cluster.running.items():
                    for job in running.values():
                        self._note(found[project], job, row, left)
        return found

    def _total(self, project: int, row: int) -> ProjectHoldings:
        if self._nodes is not None:
            found = ProjectHoldings()
            for job in self._cluster.running[project].values():
                if job.preemptible:
                    found.others += self.units(job, row)
                else:
                    found.fixed += self.units(job, row)
            return found
        ledger = self._cluster.ledger
        fixed = ledger.fixed[project][row]
        return ProjectHoldings(fixed, others=ledger.allocated[project][row] - fixed)

    def _without_nominated(self, found: Mapping[int, ProjectHoldings], row: int) -> None:
        """Take off the capacity that quotas count for pods that don't run yet."""
        for job in self._cluster.nominated.values():
            holdings = found.get(job.project)
            if holdings is None:
                continue
            units = sum(
                amount
                for group in job.pods
                for pod in group
                if pod.nomination is not None
                for at, amount in usage_on(self._cluster, pod.shape, pod.nomination[0])
                if at == row
            )
            if job.preemptible:
                holdings.others -= units
            else:
                holdings.fixed -= units

    def _note(self, found: ProjectHoldings, job: Job, row: int, left: DisruptionAllowances) -> None:
        """Tell work within its minimum run time, and what budgets protect, apart.

        Evictable work uses up what `left` allows, so that a budget protects what exceeds its allowance.
        """
        protection = protection_of(job, left, row, self._nodes) if left.any else None
        if not job.preemptible:
            if protection is not None:
                found.fixed -= protection.units
                found.protected_fixed.append(protection)
        elif not is_past_min_runtime(job, self._policy, self._now_s):
            units = self.units(job, row)
            found.young += units
            found.others -= units
        elif protection is not None:
            found.protected.append(protection)
        else:
            left.use(job.running_pods())

    def units(self, job: Job, row: int) -> int:
        """Return the amount that the running pods of a workload hold on the nodes that count."""
        return units_of(job.running_pods(), row, self._nodes)

    def protection(self, job: Job, row: int) -> Protection | None:
        """Return what budgets protect of a running workload; None if they protect nothing of it."""
        return protection_of(job, self._disruptions, row, self._nodes) if self._disruptions.any else None


class ProtectedHolders:
    """Holders of capacity from the view of one requester."""

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        rules: PreemptionRules,
        now_s: float,
        holdings: RunningHoldings,
    ) -> None:
        self._cluster = cluster
        self._policy = policy
        self._rules = rules
        self._job = rules.job
        self._now_s = now_s
        self._holdings = holdings

    def any_eligible(self) -> bool:
        """Return True if the requester may reclaim from any running project."""
        if not self._rules.any_reclaim or not self._job.can_preempt:
            return False
        return any(
            running
            and project != self._job.project
            and self._rules.may_ask(self._cluster.ledger.path[project])
            for project, running in self._cluster.running.items()
        )

    def of_preemption_cycle(self) -> dict[str, float]:
        """Return victims excluded because they stopped the requester, with the time the exclusion ends."""
        found: dict[str, float] = {}
        for name, at_s in self._job.stopped_for.items() if self._job.can_preempt else ():
            other, until_s = self._cluster.jobs.get(name), at_s + self._policy.reserve_after
            if (
                other is not None
                and until_s > self._now_s
                and other.running_pods()
                and other.preemptible
                and is_past_min_runtime(other, self._policy, self._now_s)
                and (other.project == self._job.project or self._rules.any_reclaim)
                and self._rules.rule_for(other) is not None
            ):
                found[name] = until_s
        return found

    def amounts(self, resource: str) -> IneligibleVictims | None:
        """Return the amounts of a resource that they hold, by cause; None if the requester can't reclaim."""
        row = self._cluster.rows.known(resource)
        if not self._rules.any_reclaim or row is None or not self._job.can_preempt:
            return None
        causes: Counter[str] = Counter()
        protected = BudgetProtection()
        for project, holdings in self._holdings.of(row).items():
            name = self._cluster.ledger.queues[project].name
            if project == self._job.project:
                self._add_own(project, row, causes, protected)
                continue
            causes[f"non-preemptible work of {name}"] += holdings.fixed
            protected.add(holdings.protected_fixed)
            if not self._rules.may_ask(self._cluster.ledger.path[project]):
                causes[f"{name}, which is not over what it may hold"] += holdings.young + holdings.others
            else:
                causes[f"work of {name} within its minimum run time"] += holdings.young
                protected.add(holdings.protected)
        amounts = (*protected.holders().items(), *causes.items())
        holders = {cause: units for cause, units in amounts if units}
        return IneligibleVictims(resource, holders, tuple(protected.names)) if holders else None

    def _add_own(self, project: int, row: int, causes: Counter[str], protected: BudgetProtection) -> None:
        """Add what its own project holds: work of lower priority is eligible."""
        name = self._cluster.ledger.queues[project].name
        for other in self._cluster.running[project].values():
            units = self._holdings.units(other, row)
            if not other.preemptible:
                causes[f"non-preemptible work of {name}"] += units
            elif other.priority >= self._job.priority:
                causes["its own project at no lower priority"] += units
            elif (protection := self._holdings.protection(other, row)) is not None:
                protected.add([protection])
