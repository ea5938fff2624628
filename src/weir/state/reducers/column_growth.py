"""The size of the columns: they only ever grow."""

from collections.abc import Sequence

import numpy as np

from weir.state.cluster import Cluster

_MARKS_FIRST = 8
"""Initial number of rows for label sets."""


def grow(cluster: Cluster, nodes: int, devices: int) -> None:
    """Extend the columns to every known resource, and to this many nodes and devices."""
    rows, marks = len(cluster.rows), len(cluster.marks)
    have_rows, have_nodes = cluster.free_capacity.free.shape
    if rows > have_rows:
        cluster.ledger.fit(cluster.rows)
    have_devices, have_marks = cluster.free_capacity.share.shape[1], cluster.free_capacity.marks.shape[0]
    if rows > have_rows or nodes > have_nodes or devices > have_devices or marks > have_marks:
        if marks > have_marks:
            # Doubled, because new columns discard all cached results
            marks = max(_MARKS_FIRST, 2 * have_marks, marks)
        space = nodes if nodes <= have_nodes else max(nodes, have_nodes + have_nodes // 2)
        cluster.free_capacity = cluster.free_capacity.grown(rows, space, devices, marks)
        cluster.releasing = cluster.releasing.grown(rows, space, devices, marks)
        capacity = np.zeros_like(cluster.free_capacity.free)
        capacity[:have_rows, :have_nodes] = cluster.capacity
        cluster.capacity = capacity
        cluster.static_version += 1


def grow_for(cluster: Cluster, devices: Sequence[int]) -> None:
    """Extend the columns to these devices, which may exceed those of all nodes."""
    grow(cluster, nodes=0, devices=max(devices, default=0) + 1)
