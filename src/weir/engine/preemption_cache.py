"""Results of preemption kept from one cycle to the next: options of pending workloads, and ends of searches.

Options are kept by project, and checked again after changes only.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from weir.engine.refusals.refusals import SearchEnd
from weir.model.policy import Policy
from weir.model.workloads import TopologyRequest
from weir.state.capacity_columns import Floats
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
"""Pending workloads by the means that could free capacity for them: evictions (None), or moves of one
kind."""


class Eligibility(NamedTuple):
    """Options of a project's pending workloads, valid while the project's usage doesn't change.

    Attributes:
        since_s: oldest wait among workloads that have no claim yet; patience gives them one.
        gang_since_s: oldest wait among gangs that wait for one domain.
        preemptors: workloads that may evict others.
        movers: workloads that only moves could help, with the free thousandths of devices that takes.
        least_milli: the least of these.
    """

    since_s: float
    gang_since_s: float
    preemptors: list[Member]
    movers: list[tuple[EquivalenceClass, int, ConsolidationKey, int]]
    least_milli: int


class KeptEligibility:
    """Eligibility of each project, and the versions of usage that it was found for."""

    def __init__(self, queues: int) -> None:
        self._of: dict[int, Eligibility] = {}  # by project with pending workloads
        self._touched = versions_of(queues, _UNKNOWN)
        self._since_s: Floats = np.full(queues, _NEVER_S)
        self._gang_since_s: Floats = np.full(queues, _NEVER_S)

    def branch(self) -> "KeptEligibility":
        """Return a copy."""
        copy = KeptEligibility(0)
        copy._of, copy._touched = self._of.copy(), self._touched[:]
        copy._since_s, copy._gang_since_s = self._since_s.copy(), self._gang_since_s.copy()
        return copy

    def outdated(self, touched: Versions, policy: Policy, now_s: float) -> list[int]:
        """Return the projects with changed usage, or with new options by time."""
        late = now_s - self._since_s >= policy.reclaim_share_after
        late |= now_s - self._gang_since_s >= policy.topology.patience
        return sorted({*changed_since(touched, self._touched), *np.flatnonzero(late).tolist()})

    def keep(self, project: int, version: int, eligibility: Eligibility | None) -> None:
        """Keep the options of a project for a version of its usage; None without pending workloads."""
        self._touched[project] = version
        if eligibility is None:
            self._of.pop(project, None)
            self._since_s[project] = self._gang_since_s[project] = _NEVER_S
        else:
            self._of[project] = eligibility
            self._since_s[project], self._gang_since_s[project] = eligibility[:2]

    def sets(self, projects: Iterable[int], free_milli: int) -> CandidateSets:
        """Return the workloads of these projects with options, given this much free capacity."""
        sets: CandidateSets = {}
        anyone: list[Member] = []
        for project in projects:
            eligible = self._of.get(project)
            if eligible is not None:
                anyone += eligible.preemptors
                if eligible.least_milli <= free_milli:
                    for of, at, key, milli in eligible.movers:
                        if milli <= free_milli:
                            sets.setdefault(key, []).append((of, at))
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
        self._search_ends: dict[Member, SearchEnd] = {}
        self._ends_of = -1  # value of `cluster.changes` for `_search_ends`

    def branch(self) -> "PreemptionCache":
        """Return a copy of the parts that stay valid."""
        copy = PreemptionCache()
        copy.eligibility = None if self.eligibility is None else self.eligibility.branch()
        return copy

    def note_end(self, cluster: Cluster, member: Member, end: SearchEnd) -> None:
        """Note the end of the searches for a workload in this state."""
        if self._ends_of != cluster.changes:
            self._ends_of = cluster.changes
            self._search_ends.clear()
        self._search_ends[member] = end

    def search_end(self, cluster: Cluster, member: Member) -> SearchEnd | None:
        """Return the end of the searches for a workload; None if none was worth it in this state."""
        return self._search_ends.get(member) if self._ends_of == cluster.changes else None
