"""Results of preemption kept from one cycle to the next: eligible workloads and failed attempts."""

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from weir.engine.kept_eligibility import CandidateSets, ConsolidationKey, KeptEligibility, Member
from weir.engine.refusals import SearchEnd
from weir.state.capacity_columns import Bools
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Job

_CLASSES_KEPT = 64


class FailedConsolidation(NamedTuple):
    """Consolidation that can't succeed by bounds, with the cluster's state when it failed.

    Attributes:
        saves: checkpoints counted so far.
        log_position: length of the capacity's log.
        free_blocks: the two largest free blocks.
        over_quota: projects over quota, if only their workloads may be moved.
    """

    saves: int
    log_position: int
    free_blocks: tuple[int, int]
    over_quota: frozenset[int]


class FailedReclaim(NamedTuple):
    """Workloads that together don't free enough for a request on the nodes open to it.

    At `until_s` a workload that is excluded as a preemption cycle becomes eligible.
    """

    until_s: float
    jobs: frozenset[Job]
    open: Bools | None

    def covers(self, jobs: AbstractSet[Job], open_: Bools | None) -> bool:
        """Return True if the failure covers these workloads and nodes, too."""
        if self.open is None or open_ is None:
            return self.open is open_ and jobs <= self.jobs
        return jobs <= self.jobs and bool((self.open == open_).all())


class Sleeping(NamedTuple):
    """A request that no preemption can help by bounds, until a time or a checkpoint.

    Attributes:
        until_s: time at which it must be tried again.
        saves: checkpoints counted so far.
        eligible: by project, whether its workloads were counted as victims.
    """

    until_s: float
    saves: int
    eligible: Bools


class PreemptionCache:
    """Eligible and sleeping workloads, and attempts known to fail."""

    def __init__(self) -> None:
        self.failed_consolidations: dict[ConsolidationKey, FailedConsolidation] = {}
        self.eligibility: KeptEligibility | None = None
        # Valid until an event other than a checkpoint
        self.candidate_sets: CandidateSets | None = None
        self.sleeping: dict[Member, Sleeping] = {}
        self.ends_noted = 0  # number of times that a search ended differently
        self._search_ends: dict[Member, SearchEnd] = {}
        self._ends_of = -1  # value of `cluster.changes` for `_search_ends`
        self._failed_reclaims: dict[tuple[EquivalenceClass, int, bool], FailedReclaim] = {}
        self._changes = -1  # value of `cluster.changes` for `_failed_reclaims`

    def branch(self, start: int) -> "PreemptionCache":
        """Return a copy of the parts that stay valid, for a capacity whose log starts at a position."""
        copy = PreemptionCache()
        copy.failed_consolidations = {
            key: failed._replace(log_position=failed.log_position - start)
            for key, failed in self.failed_consolidations.items()
            if failed.log_position >= start
        }
        copy.eligibility = None if self.eligibility is None else self.eligibility.branch()
        return copy

    def failed_reclaims(self, cluster: Cluster) -> dict[tuple[EquivalenceClass, int, bool], FailedReclaim]:
        """Return the failed reclaims by class member and patience, since the last change.

        Reclaims that failed by price aren't kept: prices change by time alone.
        """
        if self._changes != cluster.changes:
            self._changes = cluster.changes
            self._failed_reclaims.clear()
        return self._failed_reclaims

    def note_end(self, cluster: Cluster, member: Member, end: SearchEnd) -> None:
        """Note the end of the searches for a workload in this state."""
        if self._ends_of != cluster.changes:
            self._ends_of = cluster.changes
            self._search_ends.clear()
        if self._search_ends.get(member) is not end:
            self._search_ends[member] = end
            self.ends_noted += 1

    def search_end(self, cluster: Cluster, member: Member) -> SearchEnd | None:
        """Return the end of the searches for a workload; None if none was worth it in this state."""
        return self._search_ends.get(member) if self._ends_of == cluster.changes else None

    def forget_reclaims(self) -> None:
        """Forget the failed reclaims."""
        self._failed_reclaims.clear()

    def wake(self, cluster: Cluster) -> None:
        """Drop results that are valid only until an event other than a checkpoint."""
        self.candidate_sets = None
        self.sleeping.clear()
        if len(self.failed_consolidations) > 2 * len(cluster.waiting) + _CLASSES_KEPT:
            self.failed_consolidations.clear()  # most of these requests are no longer pending
