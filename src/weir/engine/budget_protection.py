"""Capacity that disruption budgets protect from a workload, for its pending reason."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from weir.engine.disruption_allowances import DisruptionAllowances
from weir.model.reasons import Reason
from weir.state.jobs import Job, Pod

MAX_BUDGETS = 16
"""Budgets in the numbers of a reason."""
_NAMED_MOST = 4
PROTECTED = "workloads that"
"""Start of the words for what budgets protect."""
REFUSED = "workloads whose eviction was refused a moment ago"


class Protection(NamedTuple):
    """Amount of a resource that budgets protect of one workload; without names, its stop was just refused."""

    units: int
    names: tuple[str, ...]


def units_of(pods: Iterable[Pod], row: int, nodes: Sequence[bool] | None) -> int:
    """Return the amount of a resource that pods hold on the nodes that count, which are all with None."""
    return sum(
        [
            amount
            for pod in pods
            if nodes is None or nodes[pod.node]
            for at, amount in pod.amounts
            if at == row
        ]
    )


def protection_of(
    job: Job, disruptions: DisruptionAllowances, row: int, nodes: Sequence[bool] | None
) -> Protection | None:
    """Return what budgets protect of a workload's resource on these nodes; None if that is nothing."""
    pods = _protected(job, disruptions)
    units = units_of(pods, row, nodes)
    if not pods or (nodes is not None and not units):
        return None
    return Protection(units, tuple(disruptions.blocking(pods)))


class BudgetProtection:
    """Amounts of one resource that budgets protect from one requester, and the names of those budgets."""

    def __init__(self) -> None:
        self.refused = 0
        self._units = 0
        self._by_name: Counter[str] = Counter()

    def add(self, protections: Iterable[Protection]) -> None:
        """Add what may not be stopped."""
        for units, names in protections:
            if not names:
                self.refused += units
                continue
            self._units += units
            for name in names:
                self._by_name[name] += units

    @property
    def names(self) -> list[str]:
        """Return the budgets, those that protect most first."""
        return sorted(self._by_name, key=lambda name: (-self._by_name[name], name))

    def holders(self) -> dict[str, int]:
        """Return what is protected, by words that say by what."""
        found = {REFUSED: self.refused} if self.refused else {}
        if self._units:
            found[f"{PROTECTED} {_named(self.names)} {self._verb}"] = self._units
        return found

    @property
    def _verb(self) -> str:
        return "protects" if len(self._by_name) == 1 else "protect"


def with_budgets(job: Job, reason: Reason) -> Reason:
    """Add the budgets to the reason of a workload that counts as non-preemptible because of them."""
    names = sorted({budget.name for pods in job.pods for pod in pods for budget in pod.budgets})
    if not names or not job.spec.protected:
        return reason
    verb = "protects" if len(names) == 1 else "protect"
    sentence = f"{reason.sentence}; {_named(names)} {verb} it from eviction, so it may not go over quota"
    return replace(reason, sentence=sentence, numbers={**reason.numbers, "budgets": names[:MAX_BUDGETS]})


def _protected(job: Job, disruptions: DisruptionAllowances) -> Sequence[Pod]:
    """Return the running pods of a workload that may not be stopped; all, if it can't do without any."""
    pods = job.running_pods()
    if disruptions.allows(pods):
        return ()
    if not any(have > need for have, need in zip(job.placed, job.needed, strict=True)):
        return pods
    alone = [pod for pod in pods if not disruptions.allows((pod,))]
    return alone or pods


def _named(names: Sequence[str]) -> str:
    kind = "PodDisruptionBudget" if len(names) == 1 else "PodDisruptionBudgets"
    more = len(names) - _NAMED_MOST
    return f"{kind} {', '.join(names[:_NAMED_MOST])}" + (f" and {more} more" if more > 0 else "")
