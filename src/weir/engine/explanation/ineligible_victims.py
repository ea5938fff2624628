"""Running work that a pending workload may not evict, for its pending reason."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from weir.engine.allocation.allocate import Lacks
from weir.engine.placement.capacity import Capacity
from weir.engine.placement.feasibility import pods_that_fit
from weir.engine.protection.preemption_rules import PreemptionRules, cycle_ends_s, is_past_min_runtime
from weir.engine.protection.victim_protection import (
    DisruptionAllowances,
    VictimProtections,
    of_queue,
    protected_pods,
)
from weir.engine.refusals.holder_phrases import Protection
from weir.engine.refusals.refusals import QuotaShortfall, SearchEnd
from weir.engine.refusals.shortage_refusals import IneligibleVictims
from weir.model.policy import Policy
from weir.state.capacity_columns import Bools
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Pod
from weir.state.reducers.accounting import usage_on


class HeldPart(NamedTuple):
    """Amount of a resource that a workload holds, with its protection from every requester, if any."""

    protection: Protection | None
    units: int
    budgets: tuple[str, ...] = ()


@dataclass(slots=True)
class HeldAmounts:
    """Amounts of one resource by their protection, and those that budgets protect by budget."""

    units: Counter[Protection | None] = field(default_factory=Counter)
    budgets: Counter[str] = field(default_factory=Counter)

    def add(self, part: HeldPart) -> None:
        """Count a part under its protection."""
        self.units[part.protection] += part.units
        for name in part.budgets:
            self.budgets[name] += part.units


@dataclass(slots=True)
class ProjectHoldings:
    """Amounts that running work of a project holds: non-preemptible work, and the rest."""

    fixed: HeldAmounts = field(default_factory=HeldAmounts)
    preemptible: HeldAmounts = field(default_factory=HeldAmounts)


class RunningHoldings:
    """Holdings of all projects in one state, counted once for all requesters with the same feasible nodes.

    `nodes` masks the nodes that count; None: all nodes.
    """

    def __init__(self, cluster: Cluster, policy: Policy, now_s: float, nodes: Bools | None = None) -> None:
        self.cluster, self.policy, self.now_s = cluster, policy, now_s
        self._nodes = None if nodes is None else nodes.tolist()
        self._disruptions = DisruptionAllowances(cluster, policy, now_s)
        self.protections = VictimProtections(policy, now_s, self._disruptions)
        # False: preemptible work is evictable at any time
        self._any_protected = policy.min_runtime.any or self._disruptions.any
        self._by_row: dict[int, dict[int, ProjectHoldings]] = {}

    def by_project(self, row: int) -> Mapping[int, ProjectHoldings]:
        """Return the holdings of a resource by project."""
        holdings = self._by_row.get(row)
        if holdings is None:
            if self._nodes is None and not self._any_protected:
                holdings = self._charged(row)
            else:
                left = DisruptionAllowances(self.cluster, self.policy, self.now_s)
                running = self.cluster.running.items()
                holdings = {project: self._counted(jobs.values(), row, left) for project, jobs in running}
            self._by_row[row] = holdings
        return holdings

    def _counted(self, jobs: Iterable[Job], row: int, left: DisruptionAllowances) -> ProjectHoldings:
        """Count the holdings of workloads.

        Evictable work uses up what `left` allows, so that a budget protects the work beyond its allowance.
        """
        holdings = ProjectHoldings()
        for job in jobs:
            kept, is_evictable = holdings.preemptible if job.preemptible else holdings.fixed, job.preemptible
            for part in self.parts(job, row, left):
                kept.add(part)
                is_evictable = is_evictable and part.protection is None
            if is_evictable and left.allows(job.running_pods()):
                left.use(job.running_pods())
        return holdings

    def _charged(self, row: int) -> dict[int, ProjectHoldings]:
        """Return the holdings by the usage of quotas, without nominated capacity: its pods don't run yet."""
        holdings, cluster = {project: ProjectHoldings() for project in self.cluster.running}, self.cluster
        for project, held in holdings.items():
            fixed = held.fixed.units[Protection.FIXED] = cluster.ledger.fixed[project][row]
            held.preemptible.units[None] = cluster.ledger.allocated[project][row] - fixed
        for job in cluster.nominated.values():
            if job.project in holdings:
                kept = holdings[job.project].preemptible if job.preemptible else holdings[job.project].fixed
                for pod in (pod for group in job.pods for pod in group):
                    if pod.nomination is not None:
                        amounts = usage_on(cluster, pod.shape, pod.nomination[0])
                        kept.units[None if job.preemptible else Protection.FIXED] -= dict(amounts).get(row, 0)
        return holdings

    def parts(self, job: Job, row: int, left: DisruptionAllowances | None = None) -> Iterator[HeldPart]:
        """Yield the parts of a workload's amount, by their protection from every requester."""
        pods, disruptions = job.running_pods(), self._disruptions if left is None else left
        units, protection = self.units(pods, row), None if job.preemptible else Protection.FIXED
        protected: Sequence[Pod] = ()
        if self._any_protected and job.preemptible and not is_past_min_runtime(job, self.policy, self.now_s):
            protection = Protection.MIN_RUNTIME
        elif self._any_protected and (job.preemptible or job.spec.protected):
            protected = protected_pods(job, disruptions)
        kept = self.units(protected, row)
        if kept:
            names = tuple(disruptions.blocking(protected))
            yield HeldPart(Protection.BUDGETS if names else Protection.REFUSED, kept, names)
        if kept < units or not kept:
            yield HeldPart(protection, units - kept)

    def units(self, pods: Iterable[Pod], row: int) -> int:
        """Return the amount that pods hold on the nodes that count."""
        counted = pods if self._nodes is None else [pod for pod in pods if self._nodes[pod.node]]
        return sum([amount for pod in counted for pod_row, amount in pod.amounts if pod_row == row])


def preemption_cycle(
    holdings: RunningHoldings, rules: PreemptionRules, row: int, capacity: Capacity, lacks: Lacks
) -> dict[str, float]:
    """Return victims excluded because they stopped the requester, with the time the exclusion ends.

    The answer is None if the missing pods would not fit even without these and all eligible victims.
    """
    excluded: dict[str, float] = {}
    if not rules.job.can_preempt:
        return excluded
    jobs, protections = holdings.cluster.jobs, holdings.protections
    for name in rules.job.stopped_for:
        other, ends_s = jobs.get(name), cycle_ends_s(rules, name)
        if (
            other is not None
            and ends_s is not None
            and holdings.units(other.running_pods(), row)
            and protections.protection_of(other, rules) is Protection.CYCLE
        ):
            excluded[name] = ends_s
    if excluded:
        columns, memory = capacity.columns.copy(), capacity.device_memory
        for running in holdings.cluster.running.values():
            for job in running.values():
                if job.name in excluded or protections.protection_of(job, rules) is None:
                    for pod in job.running_pods():
                        columns.hold(pod.node, pod.shape, pod.devices, int(memory[pod.node]), -1)
        freed = Capacity(columns, memory)
        if any(int(pods_that_fit(freed, shape)[open_].sum()) < lack for shape, open_, lack in lacks):
            excluded.clear()
    return excluded


def ineligible_victims(
    holdings: RunningHoldings,
    rules: PreemptionRules,
    resource: str,
    shortfall: QuotaShortfall | None,
    end: SearchEnd | None,
) -> IneligibleVictims | None:
    """Return the amounts of a resource that others hold, by their protection; None if there are none."""
    cluster = holdings.cluster
    row = cluster.rows.get(resource)
    if row is None:
        return None
    holders: dict[tuple[Protection, int], int] = {}
    budgets: Counter[str] = Counter()
    eligible = 0
    for project, held in holdings.by_project(row).items():
        amounts = _of_project(holdings, rules, row, project, held)
        budgets.update(amounts.budgets)
        for protection, units in amounts.units.items():
            if protection is None:
                eligible += units
            elif units:
                holders[protection, project] = units
    if not holders and not eligible:
        return None
    most_first = tuple(sorted(budgets, key=lambda name: (-budgets[name], name)))
    return IneligibleVictims(resource, eligible, holders, most_first, shortfall, end if eligible else None)


def _of_project(
    holdings: RunningHoldings, rules: PreemptionRules, row: int, project: int, held: ProjectHoldings
) -> HeldAmounts:
    """Return the amounts of a project by their protection from a requester, without its own."""
    cluster, requester = holdings.cluster, rules.job
    running, amounts = cluster.running[project], HeldAmounts()
    if project == requester.project:
        for job in running.values():
            if job is not requester:
                _add(amounts, holdings, rules, row, job)
        return amounts
    amounts.units.update(held.fixed.units)
    amounts.budgets.update(held.fixed.budgets)
    protection = of_queue(rules, cluster.ledger.path[project])
    if protection is not None:
        amounts.units[protection] += sum(held.preemptible.units.values())
        for job in cluster.unprotected.values():
            if job.project == project:  # idle work, which every requester may evict
                amounts.units[protection] -= holdings.units(job.running_pods(), row)
                _add(amounts, holdings, rules, row, job)
        return amounts
    amounts.units.update(held.preemptible.units)
    amounts.budgets.update(held.preemptible.budgets)
    for name in requester.stopped_for:
        if name in running and cycle_ends_s(rules, name) is not None:
            for part in holdings.parts(running[name], row):
                if part.protection is None:
                    amounts.units[None] -= part.units
                    amounts.units[Protection.CYCLE] += part.units
    return amounts


def _add(amounts: HeldAmounts, holdings: RunningHoldings, rules: PreemptionRules, row: int, job: Job) -> None:
    """Add the amounts of a workload by their protection from a requester."""
    if job.preemptible and rules.rule_for(job) is None:
        amounts.units[of_queue(rules, job.path)] += holdings.units(job.running_pods(), row)
        return
    in_cycle = cycle_ends_s(rules, job.name) is not None
    for part in holdings.parts(job, row):
        amounts.add(
            part._replace(protection=Protection.CYCLE) if in_cycle and part.protection is None else part
        )


def budgets_of(job: Job) -> tuple[str, ...]:
    """Return the budgets because of which a workload counts as non-preemptible."""
    if not job.spec.protected:
        return ()
    return tuple(sorted({budget.name for pods in job.pods for pod in pods for budget in pod.budgets}))
