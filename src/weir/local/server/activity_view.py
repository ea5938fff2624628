"""Activity and idle warnings of workloads in the view of the pool. On the control thread."""

from collections.abc import Mapping

from weir.control.activity import ActivityReading
from weir.control.idle_lifecycle import IDLE_WARNING, PROTECTION_LOST
from weir.engine.plan import Plan
from weir.local.server.pool_view import PoolView
from weir.state.events import Event, NoteAdded


class ActivityView:
    """Observer of control that keeps warnings, and takes readings in."""

    def __init__(self, view: PoolView) -> None:
        self._view = view

    def happened(self, event: Event) -> None:
        """Keep the last warning that a workload is idle."""
        if isinstance(event, NoteAdded) and event.kind in (IDLE_WARNING, PROTECTION_LOST):
            line = self._view.touch(event.workload)
            if line is not None:
                line.idle_warning = event.sentence

    def decided(self, plan: Plan, now_s: float, took_s: float) -> None:
        """Ignore plans."""

    def add(self, readings: Mapping[str, ActivityReading], at_s: float) -> None:
        """Take in the activity of workloads."""
        for name, reading in readings.items():
            line = self._view.workloads.get(name)
            if line is not None and line.pods and line.add_activity(reading, at_s):
                self._view.touch(name)
