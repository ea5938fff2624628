"""Growth of the engine's tables, and the time at which control restarts with fresh ones.

Nodes, pod selectors and requests are rows and numbers that are only ever added, so that what was worked out
about them holds. A cluster that replaces its nodes, or gives each Job a selector of its own, adds thousands a
day. A control that begins with the whole state has only those that are in use.
"""

from weir.state.cluster import Cluster

LOOK_EVERY_S = 60.0
NODES_SPARE, SHAPES_SPARE = 1000, 20_000
"""Rows of nodes and numbers of requests that may be out of use, beside as many again as are in use."""
CELLS_SPARE = 1 << 21
"""Counts of pods by selector and node that may be out of use, 8 bytes each and several copies."""


def is_outgrown(cluster: Cluster, selectors: int) -> bool:
    """Return True if most rows of the state are unused; `selectors` is the number of used selectors."""
    nodes = sum(node is not None for node in cluster.nodes)
    groups = sum(len(job.shapes) for job in cluster.jobs.values())
    selectors_spare = max(256, CELLS_SPARE // max(1, nodes))
    return (
        len(cluster.nodes) > NODES_SPARE + 2 * nodes
        or len(cluster.shapes.all) > SHAPES_SPARE + 4 * groups
        or len(cluster.marks) > selectors_spare + 4 * selectors
    )
