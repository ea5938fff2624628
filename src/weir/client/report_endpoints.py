"""Calls about the past of a pool, of both clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from weir.client.calls import Call, endpoint, form
from weir.client.path_parts import params

if TYPE_CHECKING:
    from weir.api import answers as model
    from weir.api.history import HistoryReport

By = Literal["project", "department", "user", "type", "node", "gpu_model"]


class ReportEndpoints:
    """Calls about sums over a time. `project` names one project, or several between commas."""

    @endpoint
    def usage(
        self,
        *,
        since_s: float | None = None,
        until_s: float | None = None,
        by: By = "project",
        project: str | None = None,
    ) -> Call[model.UsageReport]:
        """Return the usage between two times (seconds since the epoch)."""
        from weir.api.answers import UsageReport

        period = params(since=since_s, until=until_s, by=by, project=project)
        return Call("GET", "/usage", form(UsageReport), period)

    @endpoint
    def history(
        self,
        *,
        since_s: float | None = None,
        until_s: float | None = None,
        by: By = "project",
        project: str | None = None,
    ) -> Call[HistoryReport]:
        """Return usage, waits, time to quota, evictions and cost between two times."""
        from weir.api.history import HistoryReport

        period = params(since=since_s, until=until_s, by=by, project=project)
        return Call("GET", "/history", form(HistoryReport), period)

    @endpoint
    def trace(self, *, since_s: float | None = None, until_s: float | None = None) -> Call[str]:
        """Return the pool's ended workloads as a trace for `weir simulate`, in CSV."""
        return Call("GET", "/history/trace", bytes.decode, params(since=since_s, until=until_s))
