"""Results of preemption kept from one cycle to the next: options of pending workloads, and failed searches.

Options are kept by project, and checked again after changes only.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from weir.engine.refusals.refusals import SearchEnd
from weir.model.workloads import TopologyRequest
from weir.state.capacity_columns import Floats, Ints
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Wants
from weir.state.versions import Versions, changed_since, versions_of

_UNKNOWN = -1
_NEVER_S = float("inf")
Member = tuple[EquivalenceClass, int]
"""A pending workload: its class and its position among the members."""


class ConsolidationKey(NamedTuple):
    """Key of the consolidation bound: equal for workloads that the same moves could help."""

    wants: Wants
    topology: TopologyRequest | None
    may_scatter: bool
    is_running: bool
    protect_in_quota: bool


CandidateSets = dict[ConsolidationKey | None, list[Member]]
"""Pending workloads by the way to free capacity: evictions (key None), or moves of one kind."""


class Eligibility(NamedTuple):
    """Options of a project's pending workloads, valid while the project's usage doesn't change.

    Attributes:
        until_s: time at which waiting alone gives a workload more options.
        preemptors: workloads that may evict others.
        movers: workloads that only moves could help, with the free thousandths of devices that they need.
    """

    until_s: float
    preemptors: list[Member]
    movers: list[tuple[EquivalenceClass, int, ConsolidationKey, int]]


class KeptEligibility:
    """Eligibility of each project, and the version of usage for which it was computed."""

    def __init__(self, queues: int) -> None:
        self._by_project: dict[int, Eligibility] = {}  # by project with pending workloads
        self._touched = versions_of(queues, _UNKNOWN)
        self._until_s: Floats = np.full(queues, _NEVER_S)

    def branch(self) -> "KeptEligibility":
        """Return a copy."""
        copy = KeptEligibility(0)
        copy._by_project, copy._touched, copy._until_s = (
            self._by_project.copy(),
            self._touched[:],
            self._until_s.copy(),
        )
        return copy

    def outdated(self, touched: Versions, now_s: float) -> list[int]:
        """Return the projects with changed usage, or with new options by time."""
        late = np.flatnonzero(self._until_s <= now_s).tolist()
        return sorted({*changed_since(touched, self._touched), *late})

    def keep(self, project: int, version: int, eligibility: Eligibility | None) -> None:
        """Keep the options of a project for a version of its usage; None without pending workloads."""
        self._touched[project] = version
        if eligibility is None:
            self._by_project.pop(project, None)
            self._until_s[project] = _NEVER_S
        else:
            self._by_project[project] = eligibility
            self._until_s[project] = eligibility.until_s

    def sets(self, projects: Iterable[int], free_milli: int) -> CandidateSets:
        """Return the workloads of these projects with options, given this much free capacity."""
        sets: CandidateSets = {}
        anyone: list[Member] = []
        for project in projects:
            eligible = self._by_project.get(project)
            if eligible is not None:
                anyone += eligible.preemptors
                for queued, index, key, milli in eligible.movers:
                    if milli <= free_milli:
                        sets.setdefault(key, []).append((queued, index))
        if anyone:
            sets[None] = anyone
        return sets

    def forget(self, projects: Iterable[int]) -> None:
        """Mark these projects as changed."""
        for project in projects:
            self._touched[project] = _UNKNOWN


class PreemptionCache:
    """Eligible workloads, and the ends of their searches for the reasons."""

    def __init__(self) -> None:
        self.eligibility: KeptEligibility | None = None
        # Valid until an event other than a checkpoint
        self.candidate_sets: CandidateSets | None = None
        # Workloads for which all possible victims together are too few, until others may be moved, with the
        # fewest whole devices that a pod of each needs
        self.hopeless: dict[Member, int] = {}
        self._since_s: Floats | None = None  # last checkpoint or start by row of running pods, for `hopeless`
        self._search_ends: dict[Member, SearchEnd] = {}
        self._ends_of = -1  # value of `cluster.changes` for `_search_ends`

    def branch(self) -> "PreemptionCache":
        """Return a copy of the parts that stay valid."""
        copy = PreemptionCache()
        copy.eligibility = None if self.eligibility is None else self.eligibility.branch()
        return copy

    def forget(self) -> None:
        """Forget the results that are valid until an event other than a checkpoint."""
        self.candidate_sets = self._since_s = None
        self.hopeless.clear()

    def newly_saved(self, since_s: Floats, rows: Ints) -> Ints:
        """Return those of these rows whose job has checkpointed since the last call."""
        before, self._since_s = self._since_s, since_s.copy()
        return rows if before is None else rows[since_s[rows] != before[rows]]

    def note_end(self, cluster: Cluster, member: Member, end: SearchEnd) -> None:
        """Note the end of the searches for a workload in this state."""
        if self._ends_of != cluster.changes:
            self._ends_of = cluster.changes
            self._search_ends.clear()
        self._search_ends[member] = end

    def search_end(self, cluster: Cluster, member: Member) -> SearchEnd | None:
        """Return the end of the searches for a workload; None without a search in this state."""
        return self._search_ends.get(member) if self._ends_of == cluster.changes else None
