"""Progress that jobs report."""

from collections.abc import Mapping
from dataclasses import dataclass

from weir.api.workload_list import WorkloadRow

REPORTED_MOST = 64
"""Number of reported values kept for a workload: the latest ones."""


@dataclass(slots=True)
class ReportedProgress:
    """Progress that a workload's pods reported last."""

    uid: int
    step: int | None = None
    values: Mapping[str, float] | None = None

    @property
    def progress(self) -> float | None:
        """Return the part of the work that is done: the value called `progress`, if it is a part of 1."""
        part = (self.values or {}).get("progress")
        return part if part is not None and 0.0 <= part <= 1.0 else None

    def update(self, step: int | None, values: Mapping[str, float]) -> None:
        """Take over a report; the latest values are kept."""
        if step is not None:
            self.step = step
        if values:
            merged = {**(self.values or {}), **values}
            self.values = dict(list(merged.items())[-REPORTED_MOST:])


Reported = Mapping[str, ReportedProgress]
NOTHING_REPORTED: Reported = {}


def with_progress(row: WorkloadRow, reported: ReportedProgress | None) -> WorkloadRow:
    """Return the row with the progress of its own workload, if that reported any."""
    if reported is None or reported.uid != row.uid or reported.progress is None:
        return row
    return row.model_copy(update={"progress": reported.progress})
