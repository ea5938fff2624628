"""Capacity columns: free resources and devices by node, and pods by label set.

Free amounts may be negative: capacity is nominated while it is still being freed, or a node shrank below the
usage of its pods. Negative capacity fits nothing.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from weir.model.workloads import WHOLE_MILLI
from weir.state.shapes import GPU_ROW, RequestShape

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
NO_DEVICE = -(1 << 30)
"""Free share of a device that a node doesn't have: too little for any request."""


class CapacityColumns:
    """Free capacity: `free[resource, node]`, `share[node, device]` in thousandths, `memory[node, device]`.

    `marks[label_set, node]` is the number of pods that are allocated there and have the label set.
    """

    __slots__ = ("free", "marks", "memory", "share")

    def __init__(self, free: Ints, share: Ints, memory: Ints, marks: Ints) -> None:
        self.free = free
        self.share = share
        self.memory = memory
        self.marks = marks

    @classmethod
    def empty(cls, rows: int) -> "CapacityColumns":
        """Return columns for no nodes."""
        return cls(
            np.zeros((rows, 0), np.int64),
            np.full((0, 1), NO_DEVICE, np.int64),
            np.zeros((0, 1), np.int64),
            np.zeros((0, 0), np.int64),
        )

    def copy(self) -> "CapacityColumns":
        """Return a copy for trials."""
        return CapacityColumns(self.free.copy(), self.share.copy(), self.memory.copy(), self.marks.copy())

    def copy_nodes(self, source: "CapacityColumns", nodes: Ints) -> None:
        """Copy the capacity of some nodes."""
        self.free[:, nodes], self.share[nodes] = source.free[:, nodes], source.share[nodes]
        self.memory[nodes], self.marks[:, nodes] = source.memory[nodes], source.marks[:, nodes]

    def hold(
        self, node: int, shape: RequestShape, devices: Sequence[int], device_memory: int, pods: int = 1
    ) -> None:
        """Allocate `pods` pods on these devices (negative: release them)."""
        free = self.free
        for row, amount in shape.needs:
            free[row, node] = free.item(row, node) - amount * pods
        for mark in shape.marks:
            self.marks[mark, node] += pods
        if devices:
            milli = shape.share_on(device_memory) * pods
            pod_memory = shape.memory_on(device_memory) * pods
            share, memory = self.share[node], self.memory[node]
            for device in devices:
                share[device] = share.item(device) - milli
                memory[device] = memory.item(device) - pod_memory
            free[GPU_ROW, node] = free.item(GPU_ROW, node) - milli * len(devices)

    def grown(self, rows: int, nodes: int, devices: int, marks: int = 0) -> "CapacityColumns":
        """Return the same capacity in columns of at least this size."""
        free = np.zeros((max(rows, self.free.shape[0]), max(nodes, self.free.shape[1])), np.int64)
        free[: self.free.shape[0], : self.free.shape[1]] = self.free
        size = (max(nodes, self.share.shape[0]), max(devices, self.share.shape[1]))
        share, memory = np.full(size, NO_DEVICE, np.int64), np.zeros(size, np.int64)
        share[: self.share.shape[0], : self.share.shape[1]] = self.share
        memory[: self.memory.shape[0], : self.memory.shape[1]] = self.memory
        borne = np.zeros((max(marks, self.marks.shape[0]), max(nodes, self.marks.shape[1])), np.int64)
        borne[: self.marks.shape[0], : self.marks.shape[1]] = self.marks
        return CapacityColumns(free, share, memory, borne)


def idle_devices(share: Ints) -> Ints:
    """Return the number of idle devices of each node (last axis: devices)."""
    count: Ints = np.count_nonzero(share == WHOLE_MILLI, axis=-1).astype(np.int64)
    return count
