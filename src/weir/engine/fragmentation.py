"""Fragmentation score: the usual requests' loss of capacity from placing a pod on a node.

What a node is worth to the usual work is its potential: over the kinds of requests of the recent past,
how much of its free devices copies of them could still use given its CPU and memory, in equal parts with
how much is free for them at all (the fragment measure of Weng et al., ATC'23), scarcer kinds counting
more; and for each device the use that what is left of it is likely to find. A pod goes where it lowers
the potential least.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weir.engine.capacity import Capacity
from weir.engine.feasibility import Bools, pods_that_fit
from weir.engine.node_states import NodeStateTable
from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import Ints
from weir.state.shapes import CPU_ROW, GPU_ROW, MEMORY_ROW, RequestShape

Floats = npt.NDArray[np.float64]

MAX_KINDS = 100
"""Kinds of requests that count, the most frequent first."""
CAPACITY_WEIGHT = 0.5
"""What copies that still fit count beside what is free for a kind at all."""
REST_WEIGHT = 8.0
"""What the likely use of the rest of a device counts beside the same."""
REST_DRAWS = 64
"""Requests that will come by while the rest of a device waits for its use."""
MIN_SCARCITY = 0.001
"""Least part of the pool that counts as packable capacity of a kind."""

TIE_BITS = 20
COST_BITS = 32
_TIE_MOST = (1 << TIE_BITS) - 1
_COST_MIDDLE = 1 << (COST_BITS - 1)
_COST_STEPS = 256.0  # a cost counts in steps of this part of a thousandth of a device, if it can
_CHUNK = 512
NO_DEVICE = -1


def tie_breakers(capacity: Capacity, shape: RequestShape, nodes: Ints, spread: bool) -> Ints:
    """Return the tie-breakers between nodes of equal cost: fuller first, with `spread` emptier first."""
    free = capacity.columns.free[GPU_ROW if shape.devices else CPU_ROW, nodes]
    tie: Ints = np.clip(free, 0, _TIE_MOST)
    return _TIE_MOST - tie if spread else tie


def tie_breaker(capacity: Capacity, shape: RequestShape, node: int) -> int:
    """Return the tie-breaker of one packed node."""
    free = capacity.columns.free.item(GPU_ROW if shape.devices else CPU_ROW, node)
    return min(max(free, 0), _TIE_MOST)


def plain_costs(capacity: Capacity, shape: RequestShape, nodes: Ints) -> Ints:
    """Return costs without a request mix: prefer shared devices that fit, and spare idle devices."""
    cost = np.zeros(len(nodes), np.int64)
    share = capacity.columns.share[nodes]
    if not shape.devices:
        cost += share[:, 0] > -WHOLE_MILLI * WHOLE_MILLI
        return cost
    if not shape.whole:
        milli = shape.share_milli or 1
        cost += ~((share >= milli) & (share < WHOLE_MILLI)).any(axis=1)
    return cost


def plain_cost(capacity: Capacity, shape: RequestShape, node: int) -> int:
    """Return the plain cost of one node."""
    if shape.whole:
        return 0
    share = capacity.columns.share[node].tolist()
    if not shape.devices:
        return int(share[0] > -WHOLE_MILLI * WHOLE_MILLI)
    milli = shape.share_milli or 1
    return int(all(left < milli or left >= WHOLE_MILLI for left in share))


@dataclass(slots=True)
class FreeCapacity:
    """Free capacity of nodes: class, processors, memory, and thousandths `share[node, device]`."""

    of_class: Ints
    cpu: Ints
    memory: Ints
    share: Ints


class DeviceUsage(NamedTuple):
    """Devices by node as the kinds of requests see them: likely use of the rest, and idle devices.

    By size of a part also the number of parts that fit, and the free capacity of devices that hold one.
    """

    rest: Floats
    full: Ints
    copies: Ints
    free: Ints

    def of(self, nodes: Ints) -> "DeviceUsage":
        """Select some of the nodes."""
        return DeviceUsage(self.rest[nodes], self.full[nodes], self.copies[nodes], self.free[nodes])

    def together(self) -> "DeviceUsage":
        """Sum the values of each node's devices."""
        return DeviceUsage(
            self.rest.sum(axis=1), self.full.sum(axis=1), self.copies.sum(axis=1), self.free.sum(axis=1)
        )

    def with_one(self, new: "DeviceUsage", old: "DeviceUsage") -> "DeviceUsage":
        """Replace one device of each node."""
        return DeviceUsage(
            self.rest + (new.rest - old.rest),
            self.full + new.full - old.full,
            self.copies + new.copies - old.copies,
            self.free + new.free - old.free,
        )


class HostFit(NamedTuple):
    """Fit by node and kind, apart from devices: whether one pod fits, and how many would."""

    may: Bools
    most: Floats

    def of(self, nodes: Ints) -> "HostFit":
        """Select some of the nodes."""
        return HostFit(self.may[nodes], self.most[nodes])


class ScoreTable:
    """Cost of placing a shape by node state (-1: unknown), and the free part of the device it shares."""

    __slots__ = ("cost", "left")

    def __init__(self) -> None:
        self.cost: Ints = np.zeros(0, np.int64)
        self.left: Ints = np.zeros(0, np.int64)

    def grow(self, size: int) -> None:
        """Make the table at least this long."""
        more = size - len(self.cost)
        self.cost = np.concatenate([self.cost, np.full(more, -1, np.int64)])
        self.left = np.concatenate([self.left, np.zeros(more, np.int64)])


class FragmentationScore:
    """Worth of nodes to the request mix. `costs` is its loss when a pod is placed.

    Args:
        mix: shapes and how often they were asked for.
        allowed: the nodes a shape may use.
        capacity: the capacity by which kinds are scarce.
        total: thousandths of devices of the pool.
    """

    def __init__(
        self,
        mix: Sequence[tuple[RequestShape, int]],
        allowed: Callable[[RequestShape], Bools],
        capacity: Capacity,
        total: int,
    ) -> None:
        kinds = [(shape, count) for shape, count in mix if shape.devices][:MAX_KINDS]
        self._kinds = len(kinds)
        if not kinds:
            return
        kinds.sort(key=lambda kind: (kind[0].share_milli or WHOLE_MILLI // 2) < WHOLE_MILLI)
        needs = [dict(shape.needs) for shape, _ in kinds]
        count = np.array([count for _, count in kinds], np.float64)
        self._cpu = np.array([need.get(CPU_ROW, 0) for need in needs], np.float64)
        self._memory = np.array([need.get(MEMORY_ROW, 0) for need in needs], np.float64)
        self._devices = np.array([shape.devices for shape, _ in kinds], np.int64)
        self._milli = np.array([shape.share_milli or WHOLE_MILLI // 2 for shape, _ in kinds], np.int64)
        self._size = self._devices * self._milli
        self._whole = int((self._milli == WHOLE_MILLI).sum())  # kinds of whole devices come first
        mask = np.array([allowed(shape) for shape, _ in kinds])  # kind by node
        distinct, class_of = np.unique(mask, axis=1, return_inverse=True)
        self._allowed = distinct.T  # class of nodes by kind
        weight = count / np.sqrt(self._size / WHOLE_MILLI)
        weight /= weight.sum()
        packable = np.array(
            [
                float(
                    pods_that_fit(capacity.columns, capacity.whole, capacity.device_memory, shape)[may].sum()
                )
                for (shape, _), may in zip(kinds, mask, strict=True)
            ]
        )
        weight *= total / np.maximum(packable * self._size, max(1.0, MIN_SCARCITY * total))
        self._capacity_worth, self._free_worth = CAPACITY_WEIGHT * weight * self._size, weight
        most = (CAPACITY_WEIGHT + 1) * weight.sum() + REST_WEIGHT  # a thousandth of a device can be worth
        self._steps = min(
            _COST_STEPS, (_COST_MIDDLE - 1) / (most * WHOLE_MILLI * capacity.columns.share.shape[1])
        )
        self._rest = REST_WEIGHT * likely_use(count * self._devices, self._milli)
        parts, self._part = np.unique(self._milli[self._whole :], return_inverse=True)
        left = np.arange(WHOLE_MILLI + 1)[:, None]
        self._copies_in = left // np.maximum(parts, 1)  # by thousandths free on a device, by size of a part
        self._free_in = np.where(left >= parts, left, 0)
        self._states = NodeStateTable(class_of.astype(np.int64))
        self._base = np.zeros(0)
        self._tables: dict[int, ScoreTable] = {}
        self._generation = self._states.generation

    def costs(self, capacity: Capacity, shape: RequestShape, nodes: Ints) -> tuple[Ints, Ints]:
        """Return the cost, in steps, of a pod of the shape on each of these nodes, and its device there.

        It fits all of them. The device is NO_DEVICE unless the pod shares a single one.
        """
        if not self._kinds:
            return plain_costs(capacity, shape, nodes), np.full(len(nodes), NO_DEVICE, np.int64)
        if shape.gpu_memory:
            return self._on_nodes(capacity, shape, nodes)
        numbers = self._numbers(capacity)[nodes]
        table = self._table(shape)
        unknown = numbers[table.cost[numbers] < 0]
        if len(unknown):
            self._work_out(table, shape, np.unique(unknown))
        if shape.devices != 1 or shape.whole:
            return table.cost[numbers], np.full(len(nodes), NO_DEVICE, np.int64)
        device = (capacity.columns.share[nodes] == table.left[numbers][:, None]).argmax(axis=1)
        return table.cost[numbers], device

    def cost_on(self, capacity: Capacity, shape: RequestShape, node: int) -> tuple[int, int]:
        """Return the cost and the device on one node."""
        if not self._kinds:
            return plain_cost(capacity, shape, node), NO_DEVICE
        if shape.gpu_memory:
            costs, devices = self.costs(capacity, shape, np.array([node]))
            return int(costs[0]), int(devices[0])
        number = int(self._numbers(capacity)[node])
        table = self._table(shape)
        cost = int(table.cost[number])
        if cost < 0:
            self._work_out(table, shape, np.array([number]))
            cost = int(table.cost[number])
        if shape.devices != 1 or shape.whole:
            return cost, NO_DEVICE
        return cost, capacity.columns.share[node].tolist().index(int(table.left[number]))

    def _numbers(self, capacity: Capacity) -> Ints:
        """Return the states of all nodes; tables of an earlier generation are cleared."""
        numbers = self._states.of(capacity)
        if self._generation != self._states.generation:
            self._generation = self._states.generation
            self._tables.clear()
            self._base = np.zeros(0)
        return numbers

    def _table(self, shape: RequestShape) -> ScoreTable:
        """Return the table of a shape, long enough for every known state."""
        table = self._tables.get(shape.id)
        if table is None:
            table = self._tables[shape.id] = ScoreTable()
        if len(table.cost) < len(self._states):
            table.grow(2 * len(self._states))
        return table

    def _work_out(self, table: ScoreTable, shape: RequestShape, numbers: Ints) -> None:
        base = self._base_of(numbers)
        milli = np.full(len(numbers), shape.share_milli)
        for start in range(0, len(numbers), _CHUNK):
            some = numbers[start : start + _CHUNK]
            part = slice(start, start + len(some))
            free = FreeCapacity(*self._states.columns(some))
            open_ = free.share >= shape.share_milli
            falls, at = self._falls(free, base[part], shape, milli[part], open_)
            table.cost[some] = self._in_steps(falls)
            table.left[some] = np.take_along_axis(free.share, at[:, None], axis=1)[:, 0]

    def _base_of(self, numbers: Ints) -> Floats:
        """Return the score of nodes in these states."""
        if len(self._base) < len(self._states):
            more = np.full(2 * len(self._states) - len(self._base), np.nan)
            self._base = np.concatenate([self._base, more])
        unknown = numbers[np.isnan(self._base[numbers])]
        for start in range(0, len(unknown), _CHUNK):
            some = unknown[start : start + _CHUNK]
            self._base[some] = self.of(FreeCapacity(*self._states.columns(some)))
        return self._base[numbers]

    def _on_nodes(self, capacity: Capacity, shape: RequestShape, nodes: Ints) -> tuple[Ints, Ints]:
        """Return the costs of a shape that requests device memory, which depend on each node's devices."""
        columns = capacity.columns
        numbers = self._numbers(capacity)[nodes]
        free = FreeCapacity(*self._states.columns(numbers))
        free.share = np.maximum(columns.share[nodes], 0)
        milli = np.maximum(1, shape.gpu_memory * WHOLE_MILLI // np.maximum(capacity.device_memory[nodes], 1))
        open_ = (free.share >= milli[:, None]) & (columns.memory[nodes] >= shape.gpu_memory)
        falls, at = self._falls(free, self._base_of(numbers), shape, milli, open_)
        return self._in_steps(falls), at if shape.devices == 1 else np.full(len(nodes), NO_DEVICE, np.int64)

    def _falls(
        self, free: FreeCapacity, base: Floats, shape: RequestShape, milli: Ints, open_: Bools
    ) -> tuple[Floats, Ints]:
        """Return the loss of score, and the device if the pod shares one."""
        needs = dict(shape.needs)
        share = free.share
        after = FreeCapacity(
            free.of_class, free.cpu - needs.get(CPU_ROW, 0), free.memory - needs.get(MEMORY_ROW, 0), share
        )
        at = np.zeros(len(share), np.int64)
        if shape.devices != 1 or shape.whole:
            if shape.whole:
                full = share == WHOLE_MILLI
                after.share = np.where(full & (np.cumsum(full, axis=1) <= shape.devices), 0, share)
            elif shape.devices:
                after.share = _on_fullest(share, shape.devices, milli[:, None], open_)
            return base - self.of(after), at
        tried = open_.copy()  # of equal devices side by side one will do
        tried[:, 1:] &= ~(open_[:, :-1] & (share[:, 1:] == share[:, :-1]))
        node, column = np.nonzero(tried)
        before = share[node, column]
        changed = self._held(share).of(node).with_one(self._held(before - milli[node]), self._held(before))
        falls = np.full(share.shape, np.inf)
        falls[node, column] = base[node] - self._worth(changed, self._enough(after).of(node))
        best = falls.min(axis=1)
        fullest = np.where(falls < best[:, None] + 1e-7, share, WHOLE_MILLI + 1).argmin(axis=1)
        return best, fullest

    def loss(self, cost: int) -> float | None:
        """Return a cost as a loss of score, in devices; None without a request mix."""
        if not self._kinds:
            return None
        return float((cost - _COST_MIDDLE) / self._steps / WHOLE_MILLI)

    def _in_steps(self, costs: Floats) -> Ints:
        steps = np.clip(np.rint(costs * self._steps) + _COST_MIDDLE, 0, (1 << COST_BITS) - 1)
        whole: Ints = steps.astype(np.int64)
        return whole

    def of(self, free: FreeCapacity) -> Floats:
        """Return the score of nodes with this free capacity."""
        return self._worth(self._held(free.share), self._enough(free))

    def _held(self, share: Ints) -> DeviceUsage:
        """Return the usage of devices, or of all devices of each node, as the kinds see it."""
        held = DeviceUsage(
            self._rest[share],
            (share == WHOLE_MILLI).astype(np.int64),
            self._copies_in[share],
            self._free_in[share],
        )
        return held if share.ndim == 1 else held.together()

    def _enough(self, free: FreeCapacity) -> HostFit:
        cpu, memory = free.cpu[:, None], free.memory[:, None]
        may = self._allowed[free.of_class] & (self._cpu <= cpu) & (self._memory <= memory)
        most = np.minimum(cpu / np.maximum(self._cpu, 1e-9), memory / np.maximum(self._memory, 1e-9))
        return HostFit(may, most)

    def _worth(self, held: DeviceUsage, enough: HostFit) -> Floats:
        pods_that_fit = np.empty(enough.most.shape, np.int64)
        free = np.empty_like(pods_that_fit)
        full = held.full[:, None]
        whole, shared = slice(0, self._whole), slice(self._whole, self._kinds)
        pods_that_fit[:, whole] = full // self._devices[whole]
        free[:, whole] = full * WHOLE_MILLI
        pods_that_fit[:, shared] = held.copies[:, self._part] // self._devices[shared]
        free[:, shared] = held.free[:, self._part]
        worth = np.minimum(pods_that_fit, enough.most) * self._capacity_worth + free * self._free_worth
        total: Floats = held.rest + np.where(enough.may & (pods_that_fit > 0), worth, 0.0).sum(axis=1)
        return total


def _on_fullest(share: Ints, devices: int, milli: Ints, open_: Bools) -> Ints:
    """Several shared devices: the fullest that fit, as `weir.engine.feasibility.devices_for` takes them."""
    order = np.argsort(np.where(open_, share, WHOLE_MILLI * 2), axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")
    after: Ints = np.where((rank < devices) & open_, share - milli, share)
    return after


def likely_use(count: Floats, milli: Ints) -> Floats:
    """By thousandths free on a device: how many of them will find a use.

    The best that can be made of it by taking one of the next requests, and so on with what that leaves:
    U[f] = E[max over REST_DRAWS draws of (m + U[f - m])]; a request that doesn't fit counts 0.
    """
    often = np.bincount(milli, count, WHOLE_MILLI + 1)
    sizes = np.flatnonzero(often)
    often = often[sizes] / often.sum()
    use = np.zeros(WHOLE_MILLI + 1)
    for free in range(1, WHOLE_MILLI + 1):
        fitting = int(np.searchsorted(sizes, free, "right"))
        if fitting:
            value = sizes[:fitting] + use[free - sizes[:fitting]]
            order = np.argsort(-value, kind="stable")
            none = np.maximum(1 - np.concatenate([[0], np.cumsum(often[:fitting][order])]), 0) ** REST_DRAWS
            use[free] = (value[order] * (none[:-1] - none[1:])).sum()
    return use
