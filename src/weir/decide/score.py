"""Where a pod costs the usual work the least room.

What a node is worth to the usual work is its potential: over the kinds of requests of the recent past,
how much of its free devices copies of them could still use given its CPU and memory, in equal parts with
how much is free for them at all (the fragment measure of Weng et al., ATC'23), scarcer kinds counting
more; and for each device the use that what is left of it is likely to find. A pod goes where it lowers
the potential least.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from weir.cluster.columns import Ints
from weir.cluster.shapes import CPU_ROW, GPU_ROW, MEMORY_ROW, Shape
from weir.decide.fit import Bools
from weir.decide.room import Room
from weir.model.workloads import WHOLE_MILLI

Floats = npt.NDArray[np.float64]

KINDS_MOST = 100
"""Kinds of requests that count, the most frequent first."""
ROOM_PART = 0.5
"""What copies that still fit count beside what is free for a kind at all."""
REST_PART = 8.0
"""What the likely use of the rest of a device counts beside the same."""
REST_DRAWS = 64
"""Requests that will come by while the rest of a device waits for its use."""
SCARCE_LEAST = 0.001
"""A kind whose packable room is less than this part of the pool isn't scarcer still."""

TIE_BITS = 20
COST_BITS = 32
_TIE_MOST = (1 << TIE_BITS) - 1
_COST_MIDDLE = 1 << (COST_BITS - 1)
_COST_STEPS = 256.0  # a cost counts in steps of this part of a thousandth of a device
_CHUNK = 512
NO_DEVICE = -1


def ties(room: Room, shape: Shape, nodes: Ints, spread: bool) -> Ints:
    """What decides between nodes of equal cost: fuller first, with `spread` emptier first."""
    free = room.columns.free[GPU_ROW if shape.devices else CPU_ROW, nodes]
    tie: Ints = np.clip(free, 0, _TIE_MOST)
    return _TIE_MOST - tie if spread else tie


def tie_of(room: Room, shape: Shape, node: int) -> int:
    """`ties` of one node that is packed."""
    free = int(room.columns.free[GPU_ROW if shape.devices else CPU_ROW, node])
    return min(max(free, 0), _TIE_MOST)


def plain_costs(room: Room, shape: Shape, nodes: Ints) -> Ints:
    """Costs while too little was asked for: a shared device that fits before a fresh one, devices spared."""
    cost = np.zeros(len(nodes), np.int64)
    share = room.columns.share[nodes]
    if not shape.devices:
        cost += share[:, 0] > -WHOLE_MILLI * WHOLE_MILLI
        return cost
    if not shape.whole:
        milli = shape.share_milli or 1
        cost += ~((share >= milli) & (share < WHOLE_MILLI)).any(axis=1)
    return cost


class Potential:
    """The worth of nodes to the mix. `costs` are what it falls by when a pod is placed.

    Args:
        mix: shapes and how often they were asked for.
        allowed: the nodes a shape may use.
        capacity: of the pool, by resource and node.
        whole: devices of each node.
    """

    def __init__(
        self,
        mix: Sequence[tuple[Shape, int]],
        allowed: Callable[[Shape], Bools],
        capacity: Ints,
        whole: Ints,
    ) -> None:
        kinds = [(shape, count) for shape, count in mix if shape.devices][:KINDS_MOST]
        self._kinds = len(kinds)
        if not kinds:
            return
        needs = [dict(shape.needs) for shape, _ in kinds]
        count = np.array([count for _, count in kinds], np.float64)
        self._cpu = np.array([need.get(CPU_ROW, 0) for need in needs], np.float64)
        self._memory = np.array([need.get(MEMORY_ROW, 0) for need in needs], np.float64)
        self._devices = np.array([shape.devices for shape, _ in kinds], np.int64)
        self._milli = np.array([shape.share_milli or WHOLE_MILLI // 2 for shape, _ in kinds], np.int64)
        self._size = self._devices * self._milli
        self._shared = np.flatnonzero(self._milli < WHOLE_MILLI)
        mask = np.array([allowed(shape) for shape, _ in kinds])  # kind by node
        distinct, self._class = np.unique(mask, axis=1, return_inverse=True)
        self._allowed = distinct.T  # class of nodes by kind
        weight = count / np.sqrt(self._size / WHOLE_MILLI)
        weight /= weight.sum()
        total = float(max(1, capacity[GPU_ROW].sum()))
        weight *= total / np.maximum(self._packable(capacity, whole, mask), SCARCE_LEAST * total)
        self._room_weight, self._free_weight = ROOM_PART * weight, weight
        self._rest = REST_PART * likely_use(count * self._devices, self._milli)
        self._known: dict[tuple[object, ...], tuple[int, int]] = {}

    def _packable(self, capacity: Ints, whole: Ints, mask: Bools) -> Floats:
        """Thousandths of devices that copies of each kind could use of the empty pool."""
        found = np.zeros(self._kinds)
        for kind in range(self._kinds):
            copies = (
                whole // self._devices[kind]
                if self._milli[kind] == WHOLE_MILLI
                else whole * (WHOLE_MILLI // self._milli[kind])
            )
            for row, amount in ((CPU_ROW, self._cpu[kind]), (MEMORY_ROW, self._memory[kind])):
                if amount:
                    copies = np.minimum(copies, capacity[row] // amount)
            found[kind] = float((copies * mask[kind]).sum() * self._size[kind])
        return found

    def costs(self, room: Room, shape: Shape, nodes: Ints) -> tuple[Ints, Ints]:
        """What placing a pod of the shape costs on each of these nodes, in steps, and on which device.

        All of them have room for it. The device is NO_DEVICE unless the pod shares a single one.
        """
        if not self._kinds:
            return plain_costs(room, shape, nodes), np.full(len(nodes), NO_DEVICE, np.int64)
        return self._computed(room, shape, nodes)

    def cost_on(self, room: Room, shape: Shape, node: int) -> tuple[int, int]:
        """`costs` on one node. Nodes in equal states cost the same: it is worked out once for each state."""
        if not self._kinds:
            return int(plain_costs(room, shape, np.array([node]))[0]), NO_DEVICE
        key = self._state(room, shape, node)
        known = self._known.get(key)
        if known is None:
            costs, devices = self._computed(room, shape, np.array([node]))
            device = int(devices[0])
            left = NO_DEVICE if device < 0 else int(room.columns.share[node, device])
            self._known[key] = int(costs[0]), left
            return int(costs[0]), device
        cost, left = known
        return cost, NO_DEVICE if left < 0 else room.columns.share[node].tolist().index(left)

    def _state(self, room: Room, shape: Shape, node: int) -> tuple[object, ...]:
        """All that the cost on a node depends on."""
        columns = room.columns
        return (
            shape.id,
            int(self._class[node]),
            int(columns.free[CPU_ROW, node]),
            int(columns.free[MEMORY_ROW, node]),
            tuple(sorted(columns.share[node].tolist())),
        )

    def _computed(self, room: Room, shape: Shape, nodes: Ints) -> tuple[Ints, Ints]:
        costs = np.empty(len(nodes), np.float64)
        devices = np.full(len(nodes), NO_DEVICE, np.int64)
        for start in range(0, len(nodes), _CHUNK):
            part = slice(start, start + _CHUNK)
            costs[part], devices[part] = self._falls(room, shape, nodes[part])
        steps = np.clip(np.rint(costs * _COST_STEPS) + _COST_MIDDLE, 0, (1 << COST_BITS) - 1)
        return steps.astype(np.int64), devices

    def _falls(self, room: Room, shape: Shape, nodes: Ints) -> tuple[Floats, Ints]:
        columns = room.columns
        of_class = self._class[nodes]
        cpu, memory = columns.free[CPU_ROW, nodes], columns.free[MEMORY_ROW, nodes]
        share = np.maximum(columns.share[nodes], 0)
        before = self.of(cpu, memory, share, of_class)
        needs = dict(shape.needs)
        cpu, memory = cpu - needs.get(CPU_ROW, 0), memory - needs.get(MEMORY_ROW, 0)
        device = np.full(len(nodes), NO_DEVICE, np.int64)
        if shape.devices != 1 or shape.whole:
            after = share.copy()
            if shape.whole:
                full = share == WHOLE_MILLI
                after[full & (np.cumsum(full, axis=1) <= shape.devices)] = 0
            elif shape.devices:
                after = self._on_fullest(room, shape, nodes, after)
            return before - self.of(cpu, memory, after, of_class), device
        best = np.full(len(nodes), np.inf)
        left = np.full(len(nodes), WHOLE_MILLI + 1)
        milli = self._milli_on(room, shape, nodes)
        open_ = (share >= milli[:, None]) & (columns.memory[nodes] >= shape.gpu_memory)
        for at in range(share.shape[1]):
            new = open_[:, at]
            for earlier in range(at):  # equal devices of a node are looked at once
                new = new & (share[:, earlier] != share[:, at])
            some = np.flatnonzero(new)
            if not len(some):
                continue
            after = share[some].copy()
            after[:, at] -= milli[some]
            fall = before[some] - self.of(cpu[some], memory[some], after, of_class[some])
            now = share[some, at]
            better = (fall < best[some] - 1e-7) | ((fall < best[some] + 1e-7) & (now < left[some]))
            chosen = some[better]
            best[chosen], left[chosen], device[chosen] = fall[better], now[better], at
        return best, device

    def _milli_on(self, room: Room, shape: Shape, nodes: Ints) -> Ints:
        if not shape.gpu_memory:
            return np.full(len(nodes), shape.share_milli, np.int64)
        memory = np.maximum(room.device_memory[nodes], 1)
        milli: Ints = np.maximum(1, shape.gpu_memory * WHOLE_MILLI // memory)
        return milli

    def _on_fullest(self, room: Room, shape: Shape, nodes: Ints, share: Ints) -> Ints:
        """Several shared devices: the fullest that fit, as `weir.decide.fit.devices_for` takes them."""
        milli = self._milli_on(room, shape, nodes)[:, None]
        order = np.argsort(np.where(share >= milli, share, WHOLE_MILLI * 2), axis=1, kind="stable")
        rank = np.argsort(order, axis=1, kind="stable")
        return np.where((rank < shape.devices) & (share >= milli), share - milli, share)

    def of(self, cpu: Ints, memory: Ints, share: Ints, of_class: Ints) -> Floats:
        """The potential of nodes with so much free: `share[node, device]` in thousandths, class by node."""
        rest: Floats = self._rest[share].sum(axis=1)
        ok = self._allowed[of_class] & (self._cpu <= cpu[:, None]) & (self._memory <= memory[:, None])
        full = (share == WHOLE_MILLI).sum(axis=1)[:, None]
        copies = full // self._devices
        free = full * WHOLE_MILLI * (copies > 0)
        if len(self._shared):
            each = share[:, :, None] // self._milli[self._shared]
            copies[:, self._shared] = each.sum(axis=1) // self._devices[self._shared]
            free[:, self._shared] = (share[:, :, None] * (each > 0)).sum(axis=1)
        ok &= copies > 0
        held = np.minimum(copies, cpu[:, None] / np.maximum(self._cpu, 1e-9))
        held = np.minimum(held, memory[:, None] / np.maximum(self._memory, 1e-9))
        worth = held * (self._size * self._room_weight) + free * self._free_weight
        total: Floats = rest + np.where(ok, worth, 0.0).sum(axis=1)
        return total


def likely_use(count: Floats, milli: Ints) -> Floats:
    """By thousandths free on a device: how many of them will find a use.

    The best that can be made of it by taking one of the next requests, and so on with what that leaves:
    U[f] = E[max over so many draws of (m + U[f - m])], a request that doesn't fit counting nothing.
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
