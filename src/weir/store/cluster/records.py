"""Workloads, events and filters of a cluster's history, as passed between its writer and its readers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weir.api.answers import EventRow
from weir.api.workload_list import WorkloadRow

PENDING = "pending"
"""Kind of an event with a new reason of a pending workload."""
GAP = "history_gap"
"""Kind of an event about a period that the history lacks."""


@dataclass(frozen=True, slots=True)
class ClusterHistoryEntry:
    """State of a workload in the API server, or its last state there.

    `is_live`: the workload isn't over. `seen_s`: time of the state, in seconds since 1970. `stated`: further
    values for answers, as JSON.
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
    """An event for people. `source`: the uid of its object, different for each event."""

    source: str
    namespace: str
    row: EventRow


@dataclass(frozen=True, slots=True)
class ClusterWorkloadFilter:
    """Filter of workloads that are over; an empty value selects all.

    `named`: name of the workload or of its owner. `since_s`: the earliest time of submission. `present`:
    numbers of workloads that the API server still has, which the filter leaves out.
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
