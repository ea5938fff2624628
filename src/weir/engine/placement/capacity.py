"""Free capacity of nodes: the engine's own copy, for placements and trials.

It follows the changes of the cluster. A trial copies each node before its first change, and a rollback
restores the copies.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import numpy as np

from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import NO_DEVICE, CapacityColumns, Ints, idle_devices
from weir.state.cluster import Cluster
from weir.state.shapes import GPU_ROW, RequestShape

WITHHELD_MILLI = 1 << 20
"""Thousandths subtracted from a withheld device: more than its pods can release."""
_FEW = 8
"""Number of nodes up to which copying them one by one is fastest."""
_Kept = tuple[Ints, Ints, Ints, Ints | None]


class NodeStateIds:
    """State number of every node of a capacity, as of a position in its log of changes.

    The numbers belong to one table of node states, `weir.engine.placement.fragmentation`, and to one
    generation of it.

    The class is plain because the compiler can't compile a dataclass with a field of any type.
    """

    __slots__ = ("generation", "ids", "log_position", "table")

    def __init__(self, table: object, generation: int, ids: Ints, log_position: int) -> None:
        self.table = table
        self.generation = generation
        self.ids = ids
        self.log_position = log_position

    def moved_to(self, log_position: int) -> "NodeStateIds":
        """Return a copy at another position in the log."""
        return NodeStateIds(self.table, self.generation, self.ids.copy(), log_position)


class CapacityTotals:
    """Free devices in thousandths, idle devices, and the number of nodes by their idle devices."""

    __slots__ = ("_free_on", "_nodes_with", "free_gpu_milli", "idle_devices")

    def __init__(self, free_gpu: Ints, idle: Ints) -> None:
        # Negative if more is allocated than the node has
        self._free_on: list[int] = np.maximum(free_gpu, 0).tolist()
        self._nodes_with: list[int] = np.bincount(idle, minlength=1).tolist()
        self.free_gpu_milli: int = sum(self._free_on)
        self.idle_devices: int = int(idle.sum())

    def update(self, node: int, free_gpu: int, idle_before: int, idle: int) -> None:
        """Count the free devices of a node now."""
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


class CapacityTrial:
    """Trial of a capacity: `with capacity.trial() as trial`; it rolls back unless committed."""

    __slots__ = ("_capacity", "_open")

    def __init__(self, capacity: "Capacity") -> None:
        self._capacity = capacity
        self._open = False

    def __enter__(self) -> Self:
        self._capacity.begin()
        self._open = True
        return self

    def commit(self) -> None:
        """Keep all changes since the trial began."""
        assert self._open, "a trial ends once"
        self._open = False
        self._capacity.commit()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open:
            self._open = False
            self._capacity.rollback()


class Capacity:
    """Columns of free capacity. `whole[node]` counts idle devices; `log` lists changed nodes."""

    def __init__(self, columns: CapacityColumns, device_memory: Ints) -> None:
        self.columns = columns
        self.device_memory = device_memory
        self.whole = idle_devices(columns.share)
        self.log: list[int] = []
        self.state_ids: NodeStateIds | None = None
        self._trials: list[dict[int, _Kept]] = []
        self._totals: CapacityTotals | None = None

    @classmethod
    def of(cls, cluster: Cluster) -> "Capacity":
        """Copy the cluster's free capacity."""
        return cls(cluster.free_capacity.copy(), np.array(cluster.device_memory, np.int64))

    def branch(self, start: int) -> "Capacity":
        """Return a copy that follows another cluster, with the log from a position on."""
        copy = Capacity(self.columns.copy(), self.device_memory)
        copy.log = self.log[start:]
        if (ids := self.state_ids) is not None:
            copy.state_ids = ids.moved_to(ids.log_position - start)
        return copy

    def after_releases(self, cluster: Cluster) -> "Capacity":
        """Return the capacity once every stopping pod is gone."""
        columns = self.columns.copy()
        if cluster.releasing_on:
            nodes = np.fromiter(cluster.releasing_on, np.intp, len(cluster.releasing_on))
            columns.free[:, nodes] += cluster.releasing.free[:, nodes]
            columns.share[nodes] += cluster.releasing.share[nodes]
            columns.memory[nodes] += cluster.releasing.memory[nodes]
            columns.marks[:, nodes] += cluster.releasing.marks[:, nodes]
        after = Capacity(columns, self.device_memory)
        if (ids := self.state_ids) is not None:  # only nodes with stopping pods differ from this capacity
            after.log += [*self.log[ids.log_position :], *cluster.releasing_on]
            after.state_ids = ids.moved_to(0)
        return after

    def refresh(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Copy the cluster's capacity of these nodes."""
        if len(nodes) <= _FEW:
            for node in nodes:
                self._refresh_one(cluster, node)
            return
        indices = np.array(nodes, np.int64)
        self.columns.copy_nodes(cluster.free_capacity, indices)
        idle = idle_devices(self.columns.share[indices])
        if self._totals is not None:
            for node, whole in zip(nodes, idle.tolist(), strict=True):
                self._totals.update(node, self.columns.free.item(GPU_ROW, node), self.whole.item(node), whole)
        self.whole[indices] = idle
        self.log.extend(nodes)

    def _refresh_one(self, cluster: Cluster, node: int) -> None:
        """Copy one node without fancy indexing: the usual case."""
        columns, new = self.columns, cluster.free_capacity
        columns.free[:, node] = new.free[:, node]
        columns.share[node] = new.share[node]
        columns.memory[node] = new.memory[node]
        if len(columns.marks):
            columns.marks[:, node] = new.marks[:, node]
        self._note_changed(node)

    def allocate(self, node: int, shape: RequestShape, devices: Sequence[int], pods: int = 1) -> None:
        """Allocate devices of a node to a pod of this shape (pods -1: release them)."""
        if self._trials:
            self._keep(node)
        self.columns.hold(node, shape, devices, int(self.device_memory[node]), pods)
        if devices:
            self._note_changed(node)
        else:
            self.log.append(node)

    def _note_changed(self, node: int) -> None:
        """Update the values derived from a node's devices, and log the node."""
        idle = self.columns.share[node].tolist().count(WHOLE_MILLI)
        if self._totals is not None:
            self._totals.update(node, self.columns.free.item(GPU_ROW, node), self.whole.item(node), idle)
        self.whole[node] = idle
        self.log.append(node)

    def _keep(self, node: int) -> None:
        """Copy a node before its first change in the innermost trial."""
        kept = self._trials[-1]
        if node not in kept:
            columns = self.columns
            kept[node] = (
                columns.free[:, node].copy(),
                columns.share[node].copy(),
                columns.memory[node].copy(),
                columns.marks[:, node].copy() if len(columns.marks) else None,
            )

    def withhold(self, node: int, devices: Sequence[int], sign: int = 1) -> None:
        """Withhold these devices of a node, even if all their pods leave (sign -1: undo that)."""
        if self._trials:
            self._keep(node)
        self.columns.share[node, list(devices)] -= sign * WITHHELD_MILLI
        self._note_changed(node)

    def release(self, node: int, shape: RequestShape, devices: Sequence[int]) -> None:
        """Release the capacity of a pod of this shape."""
        self.allocate(node, shape, devices, -1)

    def trial(self) -> CapacityTrial:
        """Return a trial; trials nest."""
        return CapacityTrial(self)

    def begin(self) -> None:
        """Begin a trial. Only trials do."""
        self._trials.append({})

    def commit(self) -> None:
        """Commit the innermost trial."""
        done = self._trials.pop()
        if self._trials:
            outer = self._trials[-1]
            for node, kept in done.items():
                outer.setdefault(node, kept)

    def rollback(self) -> None:
        """Roll back the innermost trial."""
        for node, (free, share, memory, marks) in self._trials.pop().items():
            self.columns.free[:, node] = free
            self.columns.share[node] = share
            self.columns.memory[node] = memory
            if marks is not None:
                self.columns.marks[:, node] = marks
            self._note_changed(node)

    @property
    def totals(self) -> CapacityTotals:
        """Return the totals over all nodes; they are counted at their first use and follow every change."""
        if self._totals is None:
            self._totals = CapacityTotals(self.columns.free[GPU_ROW], self.whole)
        return self._totals

    def is_overcommitted(self, node: int) -> bool:
        """Return True if a device has more allocated than it has, or pods hold a vanished device."""
        return any(left < 0 and left != NO_DEVICE for left in self.columns.share[node].tolist())

    def partly_free(self) -> Ints:
        """Return, by node, the thousandths that are free of devices in partial use."""
        share = self.columns.share
        parts: Ints = np.where((share > 0) & (share < WHOLE_MILLI), share, 0).sum(axis=1)
        return parts
