"""The disruption budgets of a scenario while it is played: they allow less while their pods don't run."""

from collections.abc import Iterator

from weir.model.budgets import DisruptionBudget
from weir.model.scenario import Scenario
from weir.state.cluster import Cluster
from weir.state.events import BudgetSet, PodKey, PodProtected
from weir.state.jobs import Phase


def budget_facts(scenario: Scenario) -> Iterator[BudgetSet | PodProtected]:
    """Yield the budgets of a scenario, and the pods that they protect."""
    for budget in scenario.budgets:
        yield BudgetSet(budget)
    for workload in scenario.workloads:
        for position, group in enumerate(workload.groups):
            names = scenario.protected.get((workload.name, position), ())
            for index in range(group.count if names else 0):
                yield PodProtected(PodKey(workload.name, position, index), names)


class SimulatedBudgets:
    """Counts the pods of each budget that were stopped and don't run again yet."""

    def __init__(self, scenario: Scenario) -> None:
        self._stated = {budget.name: budget.allowed for budget in scenario.budgets}
        self._stopped: set[PodKey] = set()

    def stopped(self, pod: PodKey) -> None:
        """Count a pod as disrupted until it runs again."""
        if self._stated:
            self._stopped.add(pod)

    def facts(self, cluster: Cluster) -> Iterator[BudgetSet]:
        """Yield the budgets that allow another number of stops now."""
        if not self._stated:
            return
        left = dict(self._stated)
        for key in sorted(self._stopped):
            pod = cluster.jobs[key.workload].pods[key.group][key.index]
            if pod.phase is Phase.RUNNING:
                self._stopped.discard(key)
                continue
            for budget in pod.budgets:
                left[budget.name] -= 1
        for name, allowed in left.items():
            if cluster.budgets[name].allowed != allowed:
                yield BudgetSet(DisruptionBudget(name, allowed))
