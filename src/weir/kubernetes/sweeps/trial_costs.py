"""Stated costs of stopping running trials, as the state of the cluster gets them. Belongs to the event loop.

They aren't annotations, because with those people could make their own work too expensive to be stopped.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weir.kubernetes.api.changes import Change, ObjectRemoved, ObjectSet

RESOURCE = "trialcosts"


class TrialCosts:
    """Costs by sweep and workload. `deliver` processes changes, `base_s` is the policy's own cost."""

    def __init__(self, deliver: Callable[[Sequence[Change[Any]]], None], base_s: Callable[[], float]) -> None:
        self.base_s = base_s
        self._deliver = deliver
        self._told: dict[str, Mapping[str, float]] = {}

    def tell(self, sweep: str, costs_s: Mapping[str, float]) -> None:
        """Deliver the costs of all running trials of a sweep."""
        before = self._told.pop(sweep, {})
        if costs_s:
            self._told[sweep] = dict(costs_s)
        changes: list[Change[Any]] = [
            ObjectSet(name, cost_s) for name, cost_s in costs_s.items() if before.get(name) != cost_s
        ]
        changes += [ObjectRemoved(name, "") for name in before if name not in costs_s]
        if changes:
            self._deliver(changes)
