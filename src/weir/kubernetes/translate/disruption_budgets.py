"""PodDisruptionBudgets: the pods they select, and their meaning to the eviction API."""

import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice

from weir.kubernetes.api.budget_objects import PodDisruptionBudget
from weir.kubernetes.api.objects import LabelSelector
from weir.kubernetes.translate.selectors import CompiledSelector, selector

LOOKED_AT_MAX, FOUND_MAX = 256, 4
"""Limit of budgets of one namespace that are checked for a pod, and of those that are named."""
_PERCENT = re.compile(r"([0-9]{1,3})%", re.ASCII)


class BudgetCoverage:
    """The selectors of the budgets of one namespace.

    They are indexed by a label that they require, so that a pod checks few of them.
    """

    def __init__(self) -> None:
        self._selectors: dict[str, CompiledSelector] = {}
        self._by_label: dict[tuple[str, str], dict[str, None]] = {}
        self._others: dict[str, None] = {}  # budgets without a label that all their pods have

    def __bool__(self) -> bool:
        """Return True if there is any budget."""
        return bool(self._selectors)

    def add(self, key: str, written: LabelSelector | None) -> None:
        """Add a budget, or replace its selector.

        An empty selector selects every pod, a missing one no pod.
        """
        self.drop(key)
        compiled = selector(written, {})
        if compiled is None:
            return
        self._selectors[key] = compiled
        self._place(compiled).setdefault(key)

    def drop(self, key: str) -> None:
        """Remove a budget."""
        compiled = self._selectors.pop(key, None)
        if compiled is not None:
            self._place(compiled).pop(key, None)
            for label in _labels(compiled):
                if not self._by_label.get(label, True):
                    del self._by_label[label]

    def budgets_for(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the keys of the budgets that select a pod with these labels, up to a limit."""
        if not self._selectors:
            return ()
        places = [self._by_label.get(label, {}) for label in labels.items()]
        may = islice(chain(*places, self._others), LOOKED_AT_MAX)
        return tuple(sorted(islice((key for key in may if self._selectors[key].holds(labels)), FOUND_MAX)))

    def _place(self, compiled: CompiledSelector) -> dict[str, None]:
        label = next(_labels(compiled), None)
        return self._others if label is None else self._by_label.setdefault(label, {})


def _labels(compiled: CompiledSelector) -> Iterator[tuple[str, str]]:
    """Yield the labels that every pod selected by this selector has."""
    for term in compiled.terms:
        if term.operator == "In" and len(term.values) == 1:
            yield term.key, term.values[0]


def is_free(budget: PodDisruptionBudget, phase: str, *, ready: bool) -> bool:
    """Return True if the API evicts a pod without counting it: it hasn't started, or isn't healthy."""
    if phase == "Pending":
        return True
    if ready:
        return False
    if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
        return True
    status = budget.status
    return status.current_healthy >= status.desired_healthy > 0


def allowed_at_best(budget: PodDisruptionBudget, pods: int) -> int:
    """Return how many evictions a budget allows at once while at least `pods` of its pods are healthy."""
    expected = max(budget.status.expected_pods, pods)
    spec = budget.spec
    if spec.max_unavailable is not None:
        return min(expected, _scaled(spec.max_unavailable, expected))
    least = 1 if spec.min_available is None else _scaled(spec.min_available, expected)
    return max(0, expected - least)


def _scaled(written: int | str, total: int) -> int:
    """Return a number of pods, or a percentage of all of them, rounded up."""
    if isinstance(written, int):
        return max(0, written)
    match = _PERCENT.fullmatch(written)
    return 0 if match is None else -(-int(match[1]) * total // 100)
