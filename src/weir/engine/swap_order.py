"""Swap order: the pending workloads of one size, by predicted run time.

A swap changes the keys of two projects. The order of all others stays.
"""

from bisect import bisect_left, insort
from collections.abc import Mapping
from operator import itemgetter

from weir.engine.queue_order import RuntimeKeyOrder
from weir.state.jobs import EquivalenceClass

SwapEntry = tuple[RuntimeKeyOrder, EquivalenceClass, int]
"""A pending workload: its key, its class, and its position among the members."""
_key_of = itemgetter(0)


class SwapOrder:
    """Entries of all projects in rising order of their keys; no two keys are equal."""

    def __init__(self, by_project: Mapping[int, list[SwapEntry]]) -> None:
        self._by_project = dict(by_project)
        self.entries = [entry for entries in by_project.values() for entry in entries]
        self.entries.sort(key=_key_of)

    def replace(self, project: int, entries: list[SwapEntry]) -> None:
        """Replace the entries of one project."""
        for key, _, _ in self._by_project.get(project, ()):
            del self.entries[bisect_left(self.entries, key, key=_key_of)]
        self._by_project[project] = entries
        for entry in entries:
            insort(self.entries, entry, key=_key_of)
