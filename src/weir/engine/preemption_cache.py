"""Results of preemption kept from one cycle to the next: eligible workloads, and those that sleep."""

from typing import NamedTuple

from weir.engine.kept_eligibility import CandidateSets, KeptEligibility, Member
from weir.engine.refusals.refusals import SearchEnd
from weir.state.capacity_columns import Bools
from weir.state.cluster import Cluster


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
    """Eligible and sleeping workloads, and the ends of their searches for the reasons."""

    def __init__(self) -> None:
        self.eligibility: KeptEligibility | None = None
        # Valid until an event other than a checkpoint
        self.candidate_sets: CandidateSets | None = None
        self.sleeping: dict[Member, Sleeping] = {}
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

    def wake(self) -> None:
        """Drop results that are valid only until an event other than a checkpoint."""
        self.candidate_sets = None
        self.sleeping.clear()
