"""Where a pod costs the usual work the least room."""

import numpy as np

from weir.cluster.columns import Ints
from weir.cluster.shapes import CPU_ROW, GPU_ROW, Shape
from weir.decide.room import Room
from weir.model.workloads import WHOLE_MILLI

TIE_BITS = 28
COST_BITS = 24
_TIE_MOST = (1 << TIE_BITS) - 1


def ranks(room: Room, shape: Shape, nodes: Ints, spread: bool) -> Ints:
    """The rank of each of these nodes for a pod of the shape, lower first: cost, then fuller first."""
    free = room.columns.free[GPU_ROW if shape.devices else CPU_ROW, nodes]
    tie = np.clip(free, 0, _TIE_MOST)
    if spread:
        tie = _TIE_MOST - tie
    cost = np.zeros(len(nodes), np.int64)
    if shape.devices and not shape.whole and not spread:
        share = room.columns.share[nodes]
        begun = ((share >= shape.share_milli) & (share < WHOLE_MILLI)).any(axis=1)
        cost += ~begun
    if not shape.devices:
        cost += room.columns.share[nodes, 0] > -WHOLE_MILLI * 1000
    result: Ints = (cost << TIE_BITS) | tie
    return result
