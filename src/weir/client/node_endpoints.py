"""Calls about nodes, of both clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir.client.calls import Call, RowPage, endpoint, form, row_list
from weir.client.path_parts import path_part

if TYPE_CHECKING:
    from weir.api import answers as model


class NodeEndpoints:
    """Calls about the nodes of a pool."""

    @row_list
    def nodes(self) -> Call[RowPage[model.NodeRow]]:
        """Return all nodes and their devices."""
        from weir.api.answers import NodePage

        return Call("GET", "/nodes", form(NodePage), {"limit": "1000"})

    @row_list
    def node_workloads(self, name: str) -> Call[RowPage[model.WorkloadRow]]:
        """Return the workloads that hold something on a node."""
        from weir.api.workload_list import WorkloadPage

        return Call("GET", f"/nodes/{path_part(name)}/workloads", form(WorkloadPage))

    @endpoint
    def drain(self, name: str, *, reason: str = "", keep_running: bool = False) -> Call[model.NodeRow]:
        """Start nothing on a node, and stop its workloads unless they may run on until they end."""
        from weir.api.answers import NodeRow

        body = {"reason": reason, "keep_running": keep_running}
        return Call("POST", f"/nodes/{path_part(name)}/drain", form(NodeRow), body=body)

    @endpoint
    def undrain(self, name: str) -> Call[model.NodeRow]:
        """Let workloads start on a node again."""
        from weir.api.answers import NodeRow

        return Call("POST", f"/nodes/{path_part(name)}/undrain", form(NodeRow), body={})

    @endpoint
    def drain_gpu(self, name: str, gpu: int, *, reason: str = "") -> Call[model.NodeRow]:
        """Start nothing on one GPU of a node; the work that it runs goes on."""
        from weir.api.answers import NodeRow

        path = f"/nodes/{path_part(name)}/gpus/{gpu}/drain"
        return Call("POST", path, form(NodeRow), body={"reason": reason})

    @endpoint
    def undrain_gpu(self, name: str, gpu: int) -> Call[model.NodeRow]:
        """Let workloads start on a drained GPU again."""
        from weir.api.answers import NodeRow

        return Call("POST", f"/nodes/{path_part(name)}/gpus/{gpu}/undrain", form(NodeRow), body={})
