"""Input and output of the history of a cluster as plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weir.api.answers import EventRow
from weir.api.workload_list import WorkloadRow

PENDING = "pending"
"""Kind of the event that has a new reason of a pending workload."""
GAP = "history_gap"
"""Kind of the event that names a gap of the history."""


@dataclass(frozen=True, slots=True)
class ClusterHistoryEntry:
    """A workload as the API server states it, or stated it last.

    `is_live`: it isn't over. `seen_s`: time of that state. `stated` has the values that answers need besides
    the row; it must be JSON.
    """

    row: WorkloadRow
    namespace: str
    name: str
    owner: str
    department: str | None
    is_live: bool
    seen_s: float
    stated: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """An event for people. `source` tells it from all others: the uid of its object."""

    source: str
    namespace: str
    row: EventRow


@dataclass(frozen=True, slots=True)
class ClusterWorkloadFilter:
    """Filter of workloads that are over; an empty value selects all. `named`: by name, or that of the owner.

    `since_s`: the earliest time of submission. `present` are the numbers of workloads that the API server
    still has: others answer for those.
    """

    namespace: str = ""
    projects: Sequence[str] = ()
    users: Sequence[str] = ()
    statuses: Sequence[str] = ()
    types: Sequence[str] = ()
    text: str = ""
    named: str = ""
    present: Sequence[int] = ()
    since_s: float = 0.0


@dataclass(frozen=True, slots=True)
class StoredHistoryEntry:
    """A stored workload: its row, and further values that were stated."""

    row: WorkloadRow
    stated: Mapping[str, Any]
