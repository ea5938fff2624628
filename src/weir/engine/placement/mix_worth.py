"""Worth of nodes to the usual requests.

A node's worth has two equal parts, summed over the kinds of requests of the recent past. One is how much of
its free devices copies of a request could still use given its CPU and memory. The other is how much is free
for them at all (the fragment measure of Weng et al., ATC'23). Scarcer kinds count more. In addition, each
partly used device counts by the likely use of its rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from weir.engine.placement.capacity import Capacity
from weir.engine.placement.feasibility import pods_that_fit
from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import Bools, Floats, Ints
from weir.state.shapes import CPU_ROW, MEMORY_ROW, RequestShape

MAX_KINDS = 100
"""Number of request kinds in the mix, the most frequent first."""
CAPACITY_WEIGHT = 0.5
"""Weight of the copies of a kind that still fit; the capacity free for the kind has weight 1."""
REST_WEIGHT = 8.0
"""Weight of the likely use of the rest of a device, on the same scale."""
REST_DRAWS = 64
"""Number of requests that are expected while the rest of a device is unused."""
MIN_SCARCITY = 0.001
"""Lower bound of the packable capacity of a kind, as a part of the pool."""


@dataclass(slots=True)
class FreeCapacity:
    """Free capacity of nodes: class, processors, memory, and thousandths `share[node, device]`."""

    of_class: Ints
    cpu: Ints
    memory: Ints
    share: Ints


class DeviceUsage(NamedTuple):
    """Devices by node as the kinds of requests see them: likely use of the rest, and idle devices.

    For each size of a part it also has the number of parts that fit, and the free capacity of devices on
    which one fits.
    """

    rest: Floats
    full: Ints
    copies: Ints
    free: Ints

    def select(self, nodes: Ints) -> "DeviceUsage":
        """Return the rows of these nodes."""
        return DeviceUsage(self.rest[nodes], self.full[nodes], self.copies[nodes], self.free[nodes])

    def together(self) -> "DeviceUsage":
        """Return the sums over each node's devices."""
        return DeviceUsage(
            self.rest.sum(axis=1), self.full.sum(axis=1), self.copies.sum(axis=1), self.free.sum(axis=1)
        )

    def with_one(self, new: "DeviceUsage", old: "DeviceUsage") -> "DeviceUsage":
        """Return the usage with one device of each node changed from `old` to `new`."""
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

    def select(self, nodes: Ints) -> "HostFit":
        """Return the rows of these nodes."""
        return HostFit(self.may[nodes], self.most[nodes])


class MixWorth:
    """Value of free capacity for the request mix, and its decrease when a pod is placed.

    `kinds` is the number of kinds of requests that count; without any there is no worth. `class_of` is equal
    for nodes that the same kinds may use. `most` is the most that a thousandth of a device can be worth.

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
        self.kinds = len(kinds)
        self.class_of: Ints = np.zeros(0, np.int64)
        self.most = 1.0
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
        mask = np.array([allowed(shape) for shape, _ in kinds])  # allowed nodes by kind
        distinct, class_of = np.unique(mask, axis=1, return_inverse=True)
        self.class_of = class_of.astype(np.int64)
        self._allowed = distinct.T  # allowed kinds by class of nodes
        weight = count / np.sqrt(self._size / WHOLE_MILLI)
        weight /= weight.sum()
        packable = np.array(
            [
                float(pods_that_fit(capacity, shape)[may].sum())
                for (shape, _), may in zip(kinds, mask, strict=True)
            ]
        )
        weight *= total / np.maximum(packable * self._size, max(1.0, MIN_SCARCITY * total))
        self._capacity_worth, self._free_worth = CAPACITY_WEIGHT * weight * self._size, weight
        self.most = float((CAPACITY_WEIGHT + 1) * weight.sum() + REST_WEIGHT)
        self._rest = REST_WEIGHT * likely_use(count * self._devices, self._milli)
        parts, self._part = np.unique(self._milli[self._whole :], return_inverse=True)
        left = np.arange(WHOLE_MILLI + 1)[:, None]
        self._copies_in = left // np.maximum(parts, 1)  # copies of each part by free thousandths of a device
        self._free_in = np.where(left >= parts, left, 0)

    def scores(self, free: FreeCapacity) -> Floats:
        """Return the worth of nodes with this free capacity."""
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
        whole, shared = slice(0, self._whole), slice(self._whole, self.kinds)
        pods_that_fit[:, whole] = full // self._devices[whole]
        free[:, whole] = full * WHOLE_MILLI
        pods_that_fit[:, shared] = held.copies[:, self._part] // self._devices[shared]
        free[:, shared] = held.free[:, self._part]
        worth = np.minimum(pods_that_fit, enough.most) * self._capacity_worth + free * self._free_worth
        total: Floats = held.rest + np.where(enough.may & (pods_that_fit > 0), worth, 0.0).sum(axis=1)
        return total

    def falls(
        self, free: FreeCapacity, base: Floats, shape: RequestShape, milli: Ints, open_: Bools
    ) -> tuple[Floats, Ints]:
        """Return the loss of worth by a placement, and the device if the pod shares one."""
        needs = dict(shape.needs)
        share = free.share
        after = FreeCapacity(
            free.of_class, free.cpu - needs.get(CPU_ROW, 0), free.memory - needs.get(MEMORY_ROW, 0), share
        )
        devices = np.zeros(len(share), np.int64)
        if shape.devices != 1 or shape.whole:
            if shape.whole:
                full = share == WHOLE_MILLI
                after.share = np.where(full & (np.cumsum(full, axis=1) <= shape.devices), 0, share)
            elif shape.devices:
                after.share = _on_fullest(share, shape.devices, milli[:, None], open_)
            return base - self.scores(after), devices
        tried = open_.copy()  # of equal adjacent devices, one is enough
        tried[:, 1:] &= ~(open_[:, :-1] & (share[:, 1:] == share[:, :-1]))
        node, column = np.nonzero(tried)
        before = share[node, column]
        changed = (
            self._held(share).select(node).with_one(self._held(before - milli[node]), self._held(before))
        )
        falls = np.full(share.shape, np.inf)
        falls[node, column] = base[node] - self._worth(changed, self._enough(after).select(node))
        best = falls.min(axis=1)
        fullest = np.where(falls < best[:, None] + 1e-7, share, WHOLE_MILLI + 1).argmin(axis=1)
        return best, fullest


def _on_fullest(share: Ints, devices: int, milli: Ints, open_: Bools) -> Ints:
    """Return the fullest shared devices that fit, as `feasibility.devices_for` takes them."""
    order = np.argsort(np.where(open_, share, WHOLE_MILLI * 2), axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")
    after: Ints = np.where((rank < devices) & open_, share - milli, share)
    return after


def likely_use(count: Floats, milli: Ints) -> Floats:
    """Return for each number of free thousandths of a device how many of them are likely to be used.

    The best of the next requests is taken, and the same is repeated with the rest of the device: U[f] = E[max
    over REST_DRAWS draws of (m + U[f - m])]; a request that doesn't fit counts 0.
    """
    often = np.bincount(milli, count, WHOLE_MILLI + 1)
    sizes = np.flatnonzero(often)
    often = often[sizes] / often.sum()
    use = np.zeros(WHOLE_MILLI + 1)
    step = int(np.gcd.reduce(sizes))  # what lies between two multiples finds the use of the lower one
    for free in range(step, WHOLE_MILLI + 1, step):
        fitting = int(np.searchsorted(sizes, free, "right"))
        if fitting:
            value = sizes[:fitting] + use[free - sizes[:fitting]]
            order = np.argsort(-value, kind="stable")
            none = np.maximum(1 - np.concatenate([[0], np.cumsum(often[:fitting][order])]), 0) ** REST_DRAWS
            use[free : free + step] = (value[order] * (none[:-1] - none[1:])).sum()
    return use
