"""Quota tree with the usage and the requests of each queue, by resource row."""

from collections.abc import Iterable, Sequence

from weir.model.queues import Queue
from weir.model.resources import UNLIMITED
from weir.state.shapes import RowIndex
from weir.state.versions import versions_of

Amounts = tuple[tuple[int, int], ...]
"""Pairs of a row and an amount: the charge of one pod to its queues."""


class QuotaUsage:
    """Queues by position: parents before children. Amounts are plain lists, queue by row.

    `allocated` is the usage of running, starting and nominated pods, `fixed` the non-preemptible part of it,
    and `asked` the requests of pending pods. Each counts in every queue on the path from the top.
    """

    def __init__(self, queues: Sequence[Queue], rows: RowIndex) -> None:
        for queue in queues:
            rows.see(queue.quota)
            rows.see(queue.limit)
        self.queues = tuple(queues)
        self.position = {queue.name: position for position, queue in enumerate(queues)}
        self.parent = [self.position[queue.parent] if queue.parent is not None else -1 for queue in queues]
        self.children: list[list[int]] = [[] for _ in queues]
        self.top: list[int] = []
        self.path: list[tuple[int, ...]] = []
        for position, parent in enumerate(self.parent):
            (self.children[parent] if parent >= 0 else self.top).append(position)
            self.path.append((*self.path[parent], position) if parent >= 0 else (position,))
        self.parents = [position for position, children in enumerate(self.children) if children]
        self.depth = max([len(path) for path in self.path], default=0)
        self.priority = [queue.priority for queue in queues]
        self.top_tiers = self._tiers(self.top)  # positions among siblings by priority, highest first
        self.tiers = [self._tiers(children) for children in self.children]
        self.age = [(queue.created_s, position) for position, queue in enumerate(queues)]
        self.allocated: list[list[int]] = [[] for _ in queues]
        self.fixed: list[list[int]] = [[] for _ in queues]
        self.asked: list[list[int]] = [[] for _ in queues]
        self.sharing = [0] * len(queues)  # pods, running or pending, that ask for parts of devices
        self.touched = versions_of(len(queues))  # number of changes of a queue's amounts
        # Queues whose rows still belong to the ledger that this one branched from
        self._shared: set[int] = set()
        self.quota: list[list[int]] = []
        self.limit: list[list[int]] = []
        self.weight: list[list[float]] = []
        self.weightless: list[bool] = []  # by row: whether the weight of any queue is 0
        self.fit(rows)

    def branch(self, rows: RowIndex) -> "QuotaUsage":
        """Return a copy with changeable amounts: the tree is shared, rows are copied at a change."""
        copy = QuotaUsage((), rows)
        copy.queues, copy.position, copy.parent = self.queues, self.position, self.parent
        copy.children, copy.parents, copy.top = self.children, self.parents, self.top
        copy.path, copy.depth = self.path, self.depth
        copy.priority, copy.top_tiers, copy.tiers, copy.age = (
            self.priority,
            self.top_tiers,
            self.tiers,
            self.age,
        )
        copy.allocated, copy.fixed, copy.asked = self.allocated.copy(), self.fixed.copy(), self.asked.copy()
        copy._shared = set(range(len(self.queues)))
        copy.sharing, copy.touched = self.sharing.copy(), self.touched[:]
        copy.quota, copy.limit, copy.weight = self.quota, self.limit, self.weight
        copy.weightless, copy.limited, copy.bounded = self.weightless, self.limited, self.bounded
        return copy

    def replace_amounts(self, queue: Queue, rows: RowIndex) -> None:
        """Replace quota and limit of a queue, which keeps its place in the tree."""
        position = self.position[queue.name]
        self.queues = (*self.queues[:position], queue, *self.queues[position + 1 :])
        rows.see(queue.quota)
        rows.see(queue.limit)
        self.fit(rows)
        for ancestor in self.path[position]:
            self.touched[ancestor] += 1

    def _tiers(self, siblings: Sequence[int]) -> list[list[int]]:
        priorities = sorted({self.priority[queue] for queue in siblings}, reverse=True)
        return [
            [index for index, queue in enumerate(siblings) if self.priority[queue] == priority]
            for priority in priorities
        ]

    def fit(self, rows: RowIndex) -> None:
        """Extend all tables to new resource rows."""
        self.quota = [rows.amounts(queue.quota, UNLIMITED) for queue in self.queues]
        self.limit = [rows.amounts(queue.limit, UNLIMITED) for queue in self.queues]
        self.weight = [[float(queue.weight.get(name, 1.0)) for name in rows.names] for queue in self.queues]
        self.weightless = [min(weights) <= 0 for weights in zip(*self.weight, strict=True)]
        for table in (self.allocated, self.fixed, self.asked):
            table[:] = [
                line + [0] * (len(rows) - len(line)) if len(line) < len(rows) else line for line in table
            ]
        self.limited = [
            [(row, most) for row, most in enumerate(limit) if most < UNLIMITED] for limit in self.limit
        ]
        self.bounded = [
            [(row, most) for row, most in enumerate(quota) if most < UNLIMITED] for quota in self.quota
        ]

    def add_allocated(self, path: Iterable[int], amounts: Amounts, fixed: bool, sign: int = 1) -> None:
        """Add a pod's amounts to the allocation (sign -1: subtract them)."""
        self._own(path)
        for queue in path:
            self.touched[queue] += 1
            line = self.allocated[queue]
            for row, amount in amounts:
                line[row] += sign * amount
            if fixed:
                line = self.fixed[queue]
                for row, amount in amounts:
                    line[row] += sign * amount

    def add_sharing(self, path: Iterable[int], pods: int) -> None:
        """Add pods that request parts of devices (negative: remove them)."""
        for queue in path:
            self.touched[queue] += 1
            self.sharing[queue] += pods

    def add_asked(self, path: Iterable[int], amounts: Amounts, pods: int) -> None:
        """Add `pods` pending pods with these amounts each (negative: remove them)."""
        self._own(path)
        for queue in path:
            self.touched[queue] += 1
            line = self.asked[queue]
            for row, amount in amounts:
                line[row] += amount * pods

    def _own(self, path: Iterable[int]) -> None:
        """Copy the rows of these queues that are shared with another object."""
        if self._shared:
            for queue in self._shared.intersection(path):
                self._shared.remove(queue)
                for table in (self.allocated, self.fixed, self.asked):
                    table[queue] = table[queue].copy()
