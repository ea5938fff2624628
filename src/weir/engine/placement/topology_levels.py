"""Topology domains: nodes with equal values of one or more labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weir.model.nodes import Node, Topology
from weir.model.workloads import TopologyRequest
from weir.state.capacity_columns import Bools, Ints
from weir.state.cluster import Cluster

HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class TopologyLevel:
    """Domains of one level: `domain_of[node]` is the domain's number, -1 without the label.

    `labels` are the node labels in which the nodes of a domain are equal, coarse to fine.
    """

    domain_of: Ints
    count: int
    labels: tuple[str, ...] = ()

    def sums(self, amounts: Ints) -> Ints:
        """Sum amounts by node to amounts by domain."""
        has_domain = self.domain_of >= 0
        return np.bincount(self.domain_of[has_domain], amounts[has_domain], self.count).astype(np.int64)

    def mask(self, domain: int) -> Bools:
        """Return the nodes of a domain."""
        nodes: Bools = self.domain_of == domain
        return nodes


def level_of(cluster: Cluster, labels: Sequence[str]) -> TopologyLevel:
    """Return the domains of nodes with equal values of all these labels."""
    domain_of = np.full(cluster.free_capacity.free.shape[1], -1, np.int64)
    numbers: dict[tuple[str, ...], int] = {}
    for index, node in enumerate(cluster.nodes):
        path = _path(node, labels)
        if path is not None:
            domain_of[index] = numbers.setdefault(path, len(numbers))
    return TopologyLevel(domain_of, len(numbers), tuple(labels))


def levels_of(cluster: Cluster, topology: Topology) -> list[TopologyLevel]:
    """Return the domains of a topology, level by level, each identified by its labels."""
    return [level_of(cluster, topology.levels[: depth + 1]) for depth in range(len(topology.levels))]


def missing_topology(topologies: Mapping[str, Topology], asked: TopologyRequest | None) -> str | None:
    """Return the requested topology or level that doesn't exist, as text; None if all exist."""
    if asked is None:
        return None
    topology = topologies.get(asked.name)
    if topology is None:
        return f"topology {asked.name}"
    for level in (asked.required, asked.preferred):
        if level is not None and level not in topology.levels:
            return f"level {level} of topology {asked.name}"
    return None


def _path(node: Node | None, labels: Sequence[str]) -> tuple[str, ...] | None:
    if node is None:
        return None
    values = [node.labels.get(label, node.name if label == HOSTNAME else None) for label in labels]
    return None if None in values else tuple(str(value) for value in values)
