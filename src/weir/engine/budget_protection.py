"""Capacity that disruption budgets protect from a workload, for its pending reason."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from weir.engine.disruption_allowances import DisruptionAllowances
from weir.engine.holder_phrases import PROTECTED, REFUSED, budgets_phrase
from weir.state.jobs import Job, Pod


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
            found[f"{PROTECTED} {budgets_phrase(self.names)} {self._verb}"] = self._units
        return found

    @property
    def _verb(self) -> str:
        return "protects" if len(self._by_name) == 1 else "protect"


def _protected(job: Job, disruptions: DisruptionAllowances) -> Sequence[Pod]:
    """Return the running pods of a workload that may not be stopped; all, if it can't do without any."""
    pods = job.running_pods()
    if disruptions.allows(pods):
        return ()
    if not any(have > need for have, need in zip(job.placed, job.needed, strict=True)):
        return pods
    alone = [pod for pod in pods if not disruptions.allows((pod,))]
    return alone or pods


def budgets_of(job: Job) -> tuple[str, ...]:
    """Return the budgets because of which a workload counts as non-preemptible."""
    if not job.spec.protected:
        return ()
    return tuple(sorted({budget.name for pods in job.pods for pod in pods for budget in pod.budgets}))
