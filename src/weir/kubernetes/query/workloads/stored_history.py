"""Workloads that exist only in the history's database, if an installation has one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.api.answers import EventRow, WhyAnswer, WorkloadDetail
from weir.api.workload_list import WorkloadRow
from weir.kubernetes.query.workloads.index import WorkloadIndexEntry

RECENT_ALONE = (
    "A cluster without a database has a history of the last 6 hours, and workloads until they are deleted."
)


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A workload whose object was deleted: its row, the metadata of its object, and its details."""

    row: WorkloadRow
    metadata: Mapping[str, Any]
    detail: Mapping[str, Any]

    def as_detail(self, events: Sequence[EventRow]) -> WorkloadDetail:
        """Return its details."""
        return WorkloadDetail(**self.row.model_dump(), **self.detail, events=list(events))

    def why(self) -> WhyAnswer:
        """Return how it ended."""
        row = self.row
        return WhyAnswer(name=row.name, status=row.status, reason=row.reason, evicted=row.evicted)


Listed = WorkloadIndexEntry | StoredRow
