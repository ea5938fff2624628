"""Inventory of a pool: the nodes, topologies and queues that requests may name."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weir.local.server.http.path_names import NAME_RULE
from weir.local.server.http.problem_details import FieldErrors
from weir.model.nodes import Node, Topology
from weir.model.queues import Queue
from weir.model.resources import CPU, GPU, GPU_MODEL_PREFIX, MEMORY, PODS

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class PoolInventory:
    """Inventory of the pool: its nodes, topologies and quota tree."""

    nodes: Sequence[Node]
    topologies: Mapping[str, Topology]
    queues: tuple[Queue, ...]
    queues_by_name: Mapping[str, Queue] = field(default_factory=dict)

    @property
    def projects(self) -> list[str]:
        """Return the names of the projects."""
        return [queue.name for queue in self.queues if queue.is_project]

    def resources(self) -> set[str]:
        """Return the resources that any node has."""
        resources = {GPU, CPU, MEMORY, PODS}
        for node in self.nodes:
            resources.update(node.capacity)
            if node.gpu_model is not None:
                resources.add(GPU_MODEL_PREFIX + node.gpu_model)
        return resources


def pool_inventory(
    nodes: Sequence[Node], topologies: Mapping[str, Topology], queues: tuple[Queue, ...]
) -> PoolInventory:
    """Return the inventory of these nodes, topologies and queues."""
    return PoolInventory(nodes, topologies, queues, {queue.name: queue for queue in queues})


def check_name(name: str | None, fields: FieldErrors) -> None:
    """Report a name that can't be used here."""
    if name is not None and _NAME.fullmatch(name) is None:
        fields.add(("name",), f"name: {name[:80]!r} can't be a name here; {NAME_RULE}")
