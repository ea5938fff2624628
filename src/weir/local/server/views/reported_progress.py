"""Progress that jobs report."""

from collections.abc import Mapping
from dataclasses import dataclass

from weir.api.reported_values import merged_values, progress_of
from weir.api.workload_list import WorkloadRow


@dataclass(slots=True)
class ReportedProgress:
    """Progress that a workload's pods reported last."""

    uid: int
    step: int | None = None
    values: Mapping[str, float] | None = None

    @property
    def progress(self) -> float | None:
        """Return the part of the work that is done: the value called `progress`, if it is a part of 1."""
        return progress_of(self.values or {})

    def update(self, step: int | None, values: Mapping[str, float]) -> None:
        """Take over a report; the latest values are kept."""
        if step is not None:
            self.step = step
        if values:
            self.values = merged_values(self.values or {}, values)


Reported = Mapping[str, ReportedProgress]
NOTHING_REPORTED: Reported = {}


def with_progress(row: WorkloadRow, reported: ReportedProgress | None) -> WorkloadRow:
    """Return the row with the progress of its own workload, if that reported any."""
    if reported is None or reported.uid != row.uid or reported.progress is None:
        return row
    return row.model_copy(update={"progress": reported.progress})
