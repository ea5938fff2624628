"""Totals over all nodes of a capacity, kept up to date node by node."""

import numpy as np

from weir.state.capacity_columns import Ints


class CapacityTotals:
    """Free devices in thousandths, idle devices, and the number of nodes by their idle devices."""

    __slots__ = ("_free_on", "_nodes_with", "free_gpu_milli", "idle_devices")

    def __init__(self, free_gpu: Ints, idle: Ints) -> None:
        self._free_on: list[int] = np.maximum(free_gpu, 0).tolist()  # more may be held than there is
        self._nodes_with: list[int] = np.bincount(idle, minlength=1).tolist()
        self.free_gpu_milli: int = sum(self._free_on)
        self.idle_devices: int = int(idle.sum())

    def update(self, node: int, free_gpu: int, idle_before: int, idle: int) -> None:
        """Count what is free on a node now."""
        free = max(free_gpu, 0)
        self.free_gpu_milli += free - self._free_on[node]
        self._free_on[node] = free
        if idle != idle_before:
            self.idle_devices += idle - idle_before
            nodes_with = self._nodes_with
            nodes_with.extend([0] * (idle + 1 - len(nodes_with)))
            nodes_with[idle_before] -= 1
            nodes_with[idle] += 1

    def largest_free_blocks(self) -> tuple[int, int]:
        """Return the largest free block of one node, and the next largest of another; 0 without one."""
        largest = -1
        for idle in range(len(self._nodes_with) - 1, -1, -1):
            nodes = self._nodes_with[idle]
            if nodes and largest >= 0:
                return largest, idle
            if nodes > 1:
                return idle, idle
            if nodes:
                largest = idle
        return max(largest, 0), 0
