"""Calls about nodes, of both clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weir.client.calls import Call, LazyModule, RowPage, endpoint, form, nothing, row_list
from weir.client.path_parts import params, path_part, stated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir.api import answers as model
    from weir.api.maintenance import MaintenanceRow
    from weir.api.priorities import PriorityRow
else:
    model = LazyModule("weir.api.answers")


class NodeEndpoints:
    """Calls about the nodes of a pool."""

    @row_list
    def nodes(self) -> Call[RowPage[model.NodeRow]]:
        """Return all nodes and their devices."""
        return Call("GET", "/nodes", form(model.NodePage), {"limit": "1000"})

    @row_list
    def node_workloads(self, name: str, *, gpu: int | None = None) -> Call[RowPage[model.WorkloadRow]]:
        """Return the workloads that hold something on a node, or on one GPU of it."""
        from weir.api.workload_list import WorkloadPage

        return Call("GET", f"/nodes/{path_part(name)}/workloads", form(WorkloadPage), params(gpu=gpu))

    @endpoint
    def drain(
        self,
        name: str,
        *,
        reason: str = "",
        running: str | None = None,
        at_s: float | None = None,
        after: float | str | None = None,
        later_only: bool = False,
    ) -> Call[model.NodeRow]:
        """Drain a node, now, at a time or after one: nothing starts there.

        Its running work goes back to its queues (`running="evict"`, the default), runs on until it ends
        ("finish"), or is ended for good ("stop"). With `later_only`, a drain that would begin now by the
        clock of the pool is refused (status 409).
        """
        body = _drain_body(reason, running, at_s, after, later_only=later_only)
        return Call("POST", f"/nodes/{path_part(name)}/drain", form(model.NodeRow), body=body)

    @endpoint
    def undrain(self, name: str) -> Call[model.NodeRow]:
        """Let workloads start on a node again."""
        return Call("POST", f"/nodes/{path_part(name)}/undrain", form(model.NodeRow), body={})

    @endpoint
    def drain_gpu(
        self,
        name: str,
        gpu: int,
        *,
        reason: str = "",
        running: str | None = None,
        at_s: float | None = None,
        after: float | str | None = None,
        later_only: bool = False,
    ) -> Call[model.NodeRow]:
        """Drain a GPU of a node, now, at a time or after one; by default its workloads continue."""
        path = f"/nodes/{path_part(name)}/gpus/{gpu}/drain"
        body = _drain_body(reason, running, at_s, after, later_only=later_only)
        return Call("POST", path, form(model.NodeRow), body=body)

    @endpoint
    def undrain_gpu(self, name: str, gpu: int) -> Call[model.NodeRow]:
        """Let workloads start on a drained GPU again."""
        return Call("POST", f"/nodes/{path_part(name)}/gpus/{gpu}/undrain", form(model.NodeRow), body={})

    @row_list
    def priorities(self) -> Call[RowPage[PriorityRow]]:
        """Return the priority classes of the pool, lowest first."""
        from weir.api.priorities import PriorityPage

        return Call("GET", "/priorities", form(PriorityPage))

    @row_list
    def maintenance(self) -> Call[RowPage[MaintenanceRow]]:
        """Return the maintenance windows and drains at a time, soonest first."""
        from weir.api.maintenance import MaintenancePage

        return Call("GET", "/maintenance", form(MaintenancePage))

    @endpoint
    def add_maintenance(
        self,
        from_s: float,
        until_s: float,
        *,
        gpus: Sequence[int] | None = None,
        reason: str = "",
        running: str = "evict",
        name: str | None = None,
        later_only: bool = False,
    ) -> Call[MaintenanceRow]:
        """Announce a maintenance window of the node, or of some of its GPUs.

        With `later_only`, a window that would begin now by the clock of the pool is refused (status 409).
        """
        from weir.api.maintenance import MaintenanceRow

        words = stated(gpus=None if gpus is None else list(gpus), name=name, later_only=later_only or None)
        body = {"from_s": from_s, "until_s": until_s, "reason": reason, "running": running, **words}
        return Call("POST", "/maintenance", form(MaintenanceRow), body=body)

    @endpoint
    def delete_maintenance(self, name: str) -> Call[None]:
        """Withdraw a maintenance window, or end one that has begun."""
        return Call("DELETE", f"/maintenance/{path_part(name)}", nothing)


def _drain_body(
    reason: str,
    running: str | None,
    at_s: float | None,
    after: float | str | None,
    *,
    later_only: bool,
) -> dict[str, Any]:
    return stated(reason=reason, running=running, at_s=at_s, after=after, later_only=later_only or None)
