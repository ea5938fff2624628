"""Progress that jobs report."""

from collections.abc import Mapping
from dataclasses import dataclass

REPORTED_MOST = 64
"""Number of reported values kept for a workload: the latest ones."""


@dataclass(slots=True)
class ReportedProgress:
    """Progress that a workload's pods reported last."""

    uid: int
    step: int | None = None
    values: Mapping[str, float] | None = None

    def update(self, step: int | None, values: Mapping[str, float]) -> None:
        """Take over a report; the latest values are kept."""
        if step is not None:
            self.step = step
        if values:
            merged = {**(self.values or {}), **values}
            self.values = dict(list(merged.items())[-REPORTED_MOST:])
