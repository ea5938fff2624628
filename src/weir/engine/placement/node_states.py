"""Node states by number: nodes in the same state share their scores.

Empty nodes of one make are in the same state, and so are many others. A score is computed once for a state,
however many nodes have it and however often they return to it.
"""

import numpy as np

from weir.engine.placement.capacity import Capacity, NodeStateIds
from weir.state.capacity_columns import Ints
from weir.state.shapes import CPU_ROW, MEMORY_ROW

_FEW = 8
"""Number of nodes up to which they are read one by one."""
_MOST_FIRST = 1 << 14
_MOST_PER_NODE = 4


class NodeStateTable:
    """Free capacity and class of nodes by state number; devices in rising order.

    Args:
        class_of: class of each node; nodes of one class may be used by the same requests.
    """

    def __init__(self, class_of: Ints) -> None:
        self._class_of = class_of
        self._most = max(_MOST_FIRST, _MOST_PER_NODE * len(class_of))
        self.generation = 0  # state numbers of an earlier generation are invalid
        self._number: dict[tuple[int, ...], int] = {}
        self._rows: list[tuple[int, ...]] = []
        self._columns: Ints = np.zeros((0, 0), np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def of(self, capacity: Capacity) -> Ints:
        """Return the current state number of every node."""
        kept = capacity.state_ids
        if kept is None or kept.table is not self or kept.generation != self.generation:
            kept = self._numbered(capacity)
        elif kept.log_position < len(capacity.log):
            changed = set(capacity.log[kept.log_position :])
            kept.log_position = len(capacity.log)
            if len(self._rows) + len(changed) > self._most:
                return self._numbered(capacity).of
            if len(changed) <= _FEW:
                for node in changed:
                    kept.of[node] = self._number_of(self._read_one(capacity, node))
            else:
                nodes = np.fromiter(changed, np.intp, len(changed))
                kept.of[nodes] = [self._number_of(row) for row in self._read(capacity, nodes)]
        return kept.of

    def columns(self, numbers: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Return class, free processors and memory, and free thousandths by device of these states."""
        have = len(self._columns)
        if have < len(self._rows):
            new = np.array(self._rows[have:], np.int64)
            self._columns = new if not have else np.concatenate([self._columns, new])
        rows = self._columns[numbers]
        return rows[:, 0], rows[:, 1], rows[:, 2], np.ascontiguousarray(rows[:, 3:])

    def _numbered(self, capacity: Capacity) -> NodeStateIds:
        """Assign a number to all nodes of a capacity; clear the table first if it is too large."""
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
