"""Running work that a pending workload may not evict, for its pending reason."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from weir.engine.disruption_allowances import DisruptionAllowances
from weir.engine.holder_phrases import PROTECTED, REFUSED, budgets_protect
from weir.engine.preemption_rules import PreemptionRules, is_past_min_runtime
from weir.engine.refusals import IneligibleVictims
from weir.model.policy import Policy
from weir.state.capacity_columns import Bools
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Pod
from weir.state.reducers.accounting import usage_on


class Protection(NamedTuple):
    """Amount of a resource that budgets protect of one workload; without names, its stop was just refused."""

    units: int
    names: tuple[str, ...]


@dataclass(slots=True)
class ProjectHoldings:
    """Amounts of one resource that running work of a project holds, by the cause of its protection.

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
        self.cluster, self.policy, self.now_s = cluster, policy, now_s
        self._nodes = None if nodes is None else nodes.tolist()
        self._disruptions = DisruptionAllowances(cluster, policy, now_s)
        self._by_row: dict[int, dict[int, ProjectHoldings]] = {}

    def of(self, row: int) -> Mapping[int, ProjectHoldings]:
        """Return the holdings of a resource by project."""
        found = self._by_row.get(row)
        if found is None:
            running = self.cluster.running
            found = self._by_row[row] = {project: self._total(project, row) for project in running}
            if self._nodes is None:
                self._without_nominated(found, row)
            if self.policy.min_runtime.any or self._disruptions.any:
                left = DisruptionAllowances(self.cluster, self.policy, self.now_s)
                for project, jobs in running.items():
                    for job in jobs.values():
                        self._note(found[project], job, row, left)
        return found

    def _total(self, project: int, row: int) -> ProjectHoldings:
        if self._nodes is not None:
            jobs = self.cluster.running[project].values()
            fixed = sum([self.units(job.running_pods(), row) for job in jobs if not job.preemptible])
            others = sum([self.units(job.running_pods(), row) for job in jobs if job.preemptible])
            return ProjectHoldings(fixed, others=others)
        fixed = self.cluster.ledger.fixed[project][row]
        return ProjectHoldings(fixed, others=self.cluster.ledger.allocated[project][row] - fixed)

    def _without_nominated(self, found: Mapping[int, ProjectHoldings], row: int) -> None:
        """Take off the capacity that quotas count for pods that don't run yet."""
        for job in self.cluster.nominated.values():
            holdings = found.get(job.project)
            if holdings is None:
                continue
            units = sum(
                amount
                for group in job.pods
                for pod in group
                if pod.nomination is not None
                for at, amount in usage_on(self.cluster, pod.shape, pod.nomination[0])
                if at == row
            )
            if job.preemptible:
                holdings.others -= units
            else:
                holdings.fixed -= units

    def _note(self, found: ProjectHoldings, job: Job, row: int, left: DisruptionAllowances) -> None:
        """Tell work within its minimum run time, and work that budgets protect, apart.

        Evictable work uses up what `left` allows, so that a budget protects what exceeds its allowance.
        """
        protection = self.protection(job, row, left)
        if not job.preemptible:
            if protection is not None:
                found.fixed -= protection.units
                found.protected_fixed.append(protection)
        elif not is_past_min_runtime(job, self.policy, self.now_s):
            units = self.units(job.running_pods(), row)
            found.young += units
            found.others -= units
        elif protection is not None:
            found.protected.append(protection)
        else:
            left.use(job.running_pods())

    def units(self, pods: Iterable[Pod], row: int) -> int:
        """Return the amount that pods hold on the nodes that count."""
        here = pods if self._nodes is None else [pod for pod in pods if self._nodes[pod.node]]
        return sum([amount for pod in here for at, amount in pod.amounts if at == row])

    def protection(self, job: Job, row: int, left: DisruptionAllowances | None = None) -> Protection | None:
        """Return the amount of a running workload that budgets protect; None without any."""
        disruptions = self._disruptions if left is None else left
        pods = _protected_pods(job, disruptions) if disruptions.any else ()
        units = self.units(pods, row)
        if not pods or (self._nodes is not None and not units):
            return None
        return Protection(units, tuple(disruptions.blocking(pods)))


def _protected_pods(job: Job, disruptions: DisruptionAllowances) -> Sequence[Pod]:
    """Return the running pods of a workload that may not be stopped; all, if it can't do without any."""
    pods = job.running_pods()
    if disruptions.allows(pods):
        return ()
    if not any(have > need for have, need in zip(job.placed, job.needed, strict=True)):
        return pods
    return [pod for pod in pods if not disruptions.allows((pod,))] or pods


def any_eligible(holdings: RunningHoldings, rules: PreemptionRules) -> bool:
    """Return True if the requester may reclaim from any running project."""
    if not rules.any_reclaim or not rules.job.can_preempt:
        return False
    return any(
        running and project != rules.job.project and rules.may_ask(holdings.cluster.ledger.path[project])
        for project, running in holdings.cluster.running.items()
    )


def preemption_cycle(holdings: RunningHoldings, rules: PreemptionRules) -> dict[str, float]:
    """Return victims excluded because they stopped the requester, with the time the exclusion ends."""
    found: dict[str, float] = {}
    job, now_s = rules.job, holdings.now_s
    for name, at_s in job.stopped_for.items() if job.can_preempt else ():
        other, until_s = holdings.cluster.jobs.get(name), at_s + holdings.policy.reserve_after
        if (
            other is not None
            and until_s > now_s
            and other.running_pods()
            and other.preemptible
            and is_past_min_runtime(other, holdings.policy, now_s)
            and (other.project == job.project or rules.any_reclaim)
            and rules.rule_for(other) is not None
        ):
            found[name] = until_s
    return found


def ineligible_victims(
    holdings: RunningHoldings, rules: PreemptionRules, resource: str
) -> IneligibleVictims | None:
    """Return the amounts of a resource that others hold, by cause; None if the requester can't reclaim."""
    cluster, job = holdings.cluster, rules.job
    row = cluster.rows.known(resource)
    if not rules.any_reclaim or row is None or not job.can_preempt:
        return None
    causes: Counter[str] = Counter()
    protected: list[Protection] = []
    for project, held in holdings.of(row).items():
        name = cluster.ledger.queues[project].name
        if project == job.project:  # work of lower priority is eligible
            for other in cluster.running[project].values():
                units = holdings.units(other.running_pods(), row)
                if not other.preemptible:
                    causes[f"non-preemptible work of {name}"] += units
                elif other.priority >= job.priority:
                    causes["its own project at no lower priority"] += units
                elif (protection := holdings.protection(other, row)) is not None:
                    protected.append(protection)
            continue
        causes[f"non-preemptible work of {name}"] += held.fixed
        protected += held.protected_fixed
        if not rules.may_ask(cluster.ledger.path[project]):
            causes[f"{name}, which is not over its share"] += held.young + held.others
        else:
            causes[f"work of {name} within its minimum run time"] += held.young
            protected += held.protected
    by_budgets, budgets = _held_under_budgets(protected)
    holders = {cause: units for cause, units in (*by_budgets.items(), *causes.items()) if units}
    return IneligibleVictims(resource, holders, budgets) if holders else None


def _held_under_budgets(protections: Iterable[Protection]) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return protected amounts by the words for their budgets, and the budgets that protect most first."""
    by_name: Counter[str] = Counter()
    refused = total = 0
    for units, names in protections:
        if names:
            total += units
        else:
            refused += units
        for name in names:
            by_name[name] += units
    budgets = tuple(sorted(by_name, key=lambda name: (-by_name[name], name)))
    found = {REFUSED: refused}
    if total:
        found[f"{PROTECTED} {budgets_protect(budgets)}"] = total
    return found, budgets


def budgets_of(job: Job) -> tuple[str, ...]:
    """Return the budgets because of which a workload counts as non-preemptible."""
    if not job.spec.protected:
        return ()
    return tuple(sorted({budget.name for pods in job.pods for pod in pods for budget in pod.budgets}))
