"""Fragmentation score: the loss of usable capacity for usual requests when a pod is placed on a node.

A pod goes where it lowers the worth of the nodes to the usual requests least
(`weir.engine.placement.mix_worth`). Nodes in the same state share their scores: empty nodes of one make are
in the same state, and so are many others.
"""

import numpy as np

from weir.engine.placement.capacity import Capacity, NodeStateIds
from weir.engine.placement.feasibility import shares_for_memory
from weir.engine.placement.mix_worth import FreeCapacity, MixWorth
from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import Floats, Ints
from weir.state.shapes import CPU_ROW, GPU_ROW, MEMORY_ROW, RequestShape

_FEW = 8
"""Number of nodes up to which reading them one by one is fastest."""
_MOST_FIRST = 1 << 14
_MAX_PER_NODE = 4
TIE_BITS = 20
COST_BITS = 32
_TIE_MAX = (1 << TIE_BITS) - 1
_COST_MIDDLE = 1 << (COST_BITS - 1)
_COST_STEPS = 256.0  # costs are rounded to this fraction of a thousandth of a device, if possible
_CHUNK = 512
NO_DEVICE = -1


class NodeStateTable:
    """Free capacity and class of nodes by state number; devices in rising order.

    Args:
        class_of: class of each node; nodes of one class may be used by the same requests.
    """

    def __init__(self, class_of: Ints) -> None:
        self._class_of = class_of
        self._most = max(_MOST_FIRST, _MAX_PER_NODE * len(class_of))
        self.generation = 0  # state numbers of an earlier generation are invalid
        self._number: dict[tuple[int, ...], int] = {}
        self._rows: list[tuple[int, ...]] = []
        self._columns: Ints = np.zeros((0, 0), np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def state_ids(self, capacity: Capacity) -> Ints:
        """Return the current state number of every node."""
        kept = capacity.state_ids
        if kept is None or kept.table is not self or kept.generation != self.generation:
            kept = self._numbered(capacity)
        elif kept.log_position < len(capacity.log):
            changed = set(capacity.log[kept.log_position :])
            kept.log_position = len(capacity.log)
            if len(self._rows) + len(changed) > self._most:
                return self._numbered(capacity).ids
            if len(changed) <= _FEW:
                for node in changed:
                    kept.ids[node] = self._number_of(self._read_one(capacity, node))
            else:
                nodes = np.fromiter(changed, np.intp, len(changed))
                kept.ids[nodes] = [self._number_of(row) for row in self._read(capacity, nodes)]
        return kept.ids

    def columns(self, numbers: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Return class, free processors and memory, and free thousandths by device of these states."""
        have = len(self._columns)
        if have < len(self._rows):
            new = np.array(self._rows[have:], np.int64)
            self._columns = new if not have else np.concatenate([self._columns, new])
        rows = self._columns[numbers]
        return rows[:, 0], rows[:, 1], rows[:, 2], np.ascontiguousarray(rows[:, 3:])

    def _numbered(self, capacity: Capacity) -> NodeStateIds:
        """Assign a state number to all nodes of a capacity; a table that is too large is cleared first."""
        size = len(self._class_of)
        if len(self._rows) + size > self._most:
            self.generation += 1
            self._number.clear()
            self._rows.clear()
            self._columns = np.zeros((0, 0), np.int64)
        numbers = [self._number_of(row) for row in self._read(capacity, np.arange(size))]
        capacity.state_ids = NodeStateIds(
            self, self.generation, np.array(numbers, np.int64), len(capacity.log)
        )
        return capacity.state_ids

    def _number_of(self, row: tuple[int, ...]) -> int:
        number = self._number.get(row)
        if number is None:
            number = self._number[row] = len(self._rows)
            self._rows.append(row)
        return number

    def _read(self, capacity: Capacity, nodes: Ints) -> list[tuple[int, ...]]:
        columns = capacity.columns
        share = np.maximum(columns.share[nodes], 0)
        share.sort(axis=1)
        free = columns.free
        first = (self._class_of[nodes], free[CPU_ROW, nodes], free[MEMORY_ROW, nodes])
        return list(map(tuple, np.column_stack([*first, share]).tolist()))

    def _read_one(self, capacity: Capacity, node: int) -> tuple[int, ...]:
        columns = capacity.columns
        share = [max(0, left) for left in columns.share[node].tolist()]
        share.sort()
        free = columns.free
        return (int(self._class_of[node]), int(free[CPU_ROW, node]), int(free[MEMORY_ROW, node]), *share)


def tie_breakers(capacity: Capacity, shape: RequestShape, nodes: Ints, spread: bool) -> Ints:
    """Return the tie-breakers between nodes of equal cost: fuller first, with `spread` emptier first."""
    free = capacity.columns.free[GPU_ROW if shape.devices else CPU_ROW, nodes]
    tie: Ints = np.clip(free, 0, _TIE_MAX)
    return _TIE_MAX - tie if spread else tie


def tie_breaker(capacity: Capacity, shape: RequestShape, node: int) -> int:
    """Return the tie-breaker of one packed node."""
    free = capacity.columns.free.item(GPU_ROW if shape.devices else CPU_ROW, node)
    return min(max(free, 0), _TIE_MAX)


def plain_costs(capacity: Capacity, shape: RequestShape, nodes: Ints) -> Ints:
    """Return costs without a request mix: prefer shared devices that fit, and keep idle devices free."""
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


class ScoreTable:
    """Cost of placing a shape by node state (-1: unknown), and the free part of the device it shares."""

    __slots__ = ("cost", "left")

    def __init__(self) -> None:
        self.cost: Ints = np.zeros(0, np.int64)
        self.left: Ints = np.zeros(0, np.int64)

    def grow(self, size: int) -> None:
        """Make the table at least this long."""
        added = size - len(self.cost)
        self.cost = np.concatenate([self.cost, np.full(added, -1, np.int64)])
        self.left = np.concatenate([self.left, np.zeros(added, np.int64)])


class FragmentationScore:
    """Loss of worth to the request mix when a pod is placed.

    Args:
        worth: the worth of nodes to the mix.
        devices: most devices of a node.
        states: the states of the nodes, if they are numbered already.
    """

    def __init__(self, worth: MixWorth, devices: int, states: NodeStateTable | None = None) -> None:
        self._worth = worth
        self._devices = max(1, devices)
        self._steps = min(_COST_STEPS, (_COST_MIDDLE - 1) / (worth.most * WHOLE_MILLI * self._devices))
        self._states = NodeStateTable(worth.class_of) if states is None else states
        self._base = np.zeros(0)
        self._tables: dict[int, ScoreTable] = {}
        self._generation = self._states.generation

    def branch(self) -> "FragmentationScore":
        """Return a copy to which other shapes can be added.

        Its numbers of new shapes are not valid elsewhere.
        """
        copy = FragmentationScore(self._worth, self._devices, self._states)
        copy._base, copy._tables, copy._generation = self._base, self._tables.copy(), self._generation
        return copy

    def costs(self, capacity: Capacity, shape: RequestShape, nodes: Ints) -> tuple[Ints, Ints]:
        """Return the cost, in steps, of a pod of the shape on each of these nodes, and its device there.

        It fits all of them. The device is NO_DEVICE unless the pod shares a single one.
        """
        if not self._worth.kinds:
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
        if not self._worth.kinds:
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
        numbers = self._states.state_ids(capacity)
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
            falls, devices = self._worth.falls(free, base[part], shape, milli[part], open_)
            table.cost[some] = self._in_steps(falls)
            table.left[some] = np.take_along_axis(free.share, devices[:, None], axis=1)[:, 0]

    def _base_of(self, numbers: Ints) -> Floats:
        """Return the score of nodes in these states."""
        if len(self._base) < len(self._states):
            added = np.full(2 * len(self._states) - len(self._base), np.nan)
            self._base = np.concatenate([self._base, added])
        unknown = numbers[np.isnan(self._base[numbers])]
        for start in range(0, len(unknown), _CHUNK):
            some = unknown[start : start + _CHUNK]
            self._base[some] = self._worth.scores(FreeCapacity(*self._states.columns(some)))
        return self._base[numbers]

    def _on_nodes(self, capacity: Capacity, shape: RequestShape, nodes: Ints) -> tuple[Ints, Ints]:
        """Return the costs of a shape that requests device memory, which depend on each node's devices."""
        columns = capacity.columns
        numbers = self._numbers(capacity)[nodes]
        free = FreeCapacity(*self._states.columns(numbers))
        free.share = np.maximum(columns.share[nodes], 0)
        milli = shares_for_memory(shape, capacity.device_memory[nodes])
        open_ = (free.share >= milli[:, None]) & (columns.memory[nodes] >= shape.gpu_memory)
        falls, devices = self._worth.falls(free, self._base_of(numbers), shape, milli, open_)
        return self._in_steps(falls), devices if shape.devices == 1 else np.full(
            len(nodes), NO_DEVICE, np.int64
        )

    def loss(self, cost: int) -> float | None:
        """Return a cost as a loss of score, in devices; None without a request mix."""
        if not self._worth.kinds:
            return None
        return float((cost - _COST_MIDDLE) / self._steps / WHOLE_MILLI)

    def _in_steps(self, costs: Floats) -> Ints:
        steps = np.clip(np.rint(costs * self._steps) + _COST_MIDDLE, 0, (1 << COST_BITS) - 1)
        whole: Ints = steps.astype(np.int64)
        return whole
