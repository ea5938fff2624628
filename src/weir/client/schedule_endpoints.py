"""Calls about schedules and the indices of arrays, of both clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weir.client.calls import Call, RowPage, endpoint, form, nothing, row_iterator, row_list
from weir.client.path_parts import path_part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weir.api.schedules import Concurrency, ScheduleRow
    from weir.api.submissions import Submission
    from weir.api.workload_list import ArrayIndexRow


class ScheduleEndpoints:
    """Calls about the schedules and arrays of a pool."""

    @row_iterator
    def indices(self, name: str) -> Call[RowPage[ArrayIndexRow]]:
        """Iterate over the indices of an array, in ascending order."""
        from weir.api.workload_list import ArrayIndexPage

        path = f"/workloads/{path_part(name)}/indices"
        return Call("GET", path, form(ArrayIndexPage), {"limit": "500"})

    @row_list
    def schedules(self) -> Call[RowPage[ScheduleRow]]:
        """Return the schedules of one's projects."""
        from weir.api.schedules import SchedulePage

        return Call("GET", "/schedules", form(SchedulePage))

    @endpoint
    def schedule(self, name: str) -> Call[ScheduleRow]:
        """Return a schedule."""
        return _schedule("GET", name)

    @endpoint
    def set_schedule(
        self,
        name: str,
        cron: str,
        workload: Submission | Mapping[str, Any],
        *,
        zone: str = "UTC",
        concurrency: Concurrency = "allow",
        suspended: bool = False,
    ) -> Call[ScheduleRow]:
        """Create or change a schedule: `pool.set_schedule("nightly", "0 2 * * *", {...})`."""
        from weir.client.submissions import written

        body = {"cron": cron, "zone": zone, "concurrency": concurrency, "suspended": suspended}
        return _schedule("PUT", name, body={**body, "workload": written(workload, {})})

    @endpoint
    def suspend_schedule(self, name: str) -> Call[ScheduleRow]:
        """Queue nothing of a schedule until it is resumed."""
        return _schedule("POST", name, "/suspend")

    @endpoint
    def resume_schedule(self, name: str) -> Call[ScheduleRow]:
        """Let a schedule go on with its next time."""
        return _schedule("POST", name, "/resume")

    @endpoint
    def run_schedule(self, name: str) -> Call[ScheduleRow]:
        """Queue a run of a schedule now; `last` is its workload."""
        return _schedule("POST", name, "/run")

    @endpoint
    def delete_schedule(self, name: str) -> Call[None]:
        """Delete a schedule; its workloads stay."""
        return Call("DELETE", f"/schedules/{path_part(name)}", nothing)


def _schedule(method: str, name: str, action: str = "", body: object = None) -> Call[ScheduleRow]:
    from weir.api.schedules import ScheduleRow

    return Call(method, f"/schedules/{path_part(name)}{action}", form(ScheduleRow), body=body)
