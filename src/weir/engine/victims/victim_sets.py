"""Victims on one node, and the cheapest sets of them that free capacity for a pod.

Disruption budgets may not allow all of them to be stopped at once. Then few victims are enumerated, so that a
set is found if one exists. Of many victims, a group that may be stopped together is chosen first, by tier and
price, and the usual search runs in this group.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from weir.engine.placement.capacity import Capacity
from weir.engine.placement.pod_affinity import ExcessPods
from weir.model.workloads import WHOLE_MILLI
from weir.state.jobs import Job, Pod
from weir.state.shapes import GPU_ROW, RequestShape

MAX_ENUMERATED = 10
"""Number of victims of a node up to which all minimal sets are tried (2^10); above, the cheapest one."""
_SUMS_MAX = 256
"""Limit of sums in the knapsack search; with more sums, or with shared devices, a greedy set is used."""

Tier = tuple[Any, ...]
"""Ranks of a victim set compared before its price: protection by quotas, then the policy."""
ANY_PROJECT = -1
"""Project of a tier that compares the victims of all projects alike."""
PRICE_DIGITS = 6
"""Decimal digits of a device second at which prices are compared."""


@dataclass(frozen=True, slots=True, eq=False)
class Victim:
    """Pods that are stopped or moved at once: one elastic pod, or the rest of a workload.

    `on_node` are its pods on the node. The rest of a workload is stopped only after its elastic pods on all
    nodes.

    A victim that only `moves` must get a new place in the same plan.
    """

    tier: Tier
    price: float
    job: Job
    pods: tuple[Pod, ...]
    on_node: tuple[Pod, ...]
    whole: bool
    moves: bool = False

    @property
    def younger(self) -> tuple[float, str]:
        """Sort key by age and name; the youngest comes first."""
        return -self.job.submitted_s, self.job.name

    @property
    def is_protected(self) -> bool:
        """Return True if its eviction would break a quota's protection."""
        return not self.moves and int(self.tier[0]) > 0


Permits = Callable[[Sequence[Victim]], bool]
"""Check that disruption budgets allow the eviction of all these victims at once."""


class NodeCapacity:
    """Capacity of one node as plain numbers, to test sets of victims for one pod of a shape.

    It also has the pods beyond the number that a pod rule allows.

    If the shape and the victims hold whole devices only, the missing amounts and the amount that each victim
    frees can be added up. With shares, or over-committed devices, each device is examined by itself.
    """

    __slots__ = ("_device_memory", "_gains", "_memory", "_shape", "_share", "_short")

    def __init__(
        self,
        capacity: Capacity,
        node: int,
        shape: RequestShape,
        victims: Sequence[Victim],
        excesses: Sequence[ExcessPods] = (),
    ) -> None:
        self._shape = shape
        self._device_memory = int(capacity.device_memory[node])
        self._share: list[int] = []
        self._memory: list[int] = []
        short = [(row, amount - int(capacity.columns.free[row, node])) for row, amount in shape.needs]
        rows = [(row, lack) for row, lack in short if lack > 0]
        self._short = [lack for _, lack in rows]
        whole = not shape.devices or (
            shape.whole
            and all(pod.shape.whole or not pod.shape.devices for victim in victims for pod in victim.on_node)
            and not capacity.is_overcommitted(node)
        )
        if not whole:
            self._share, self._memory = (
                capacity.columns.share[node].tolist(),
                capacity.columns.memory[node].tolist(),
            )
        elif shape.devices > capacity.whole[node]:
            rows.append((GPU_ROW, 0))
            self._short.append(shape.devices - int(capacity.whole[node]))
        self._gains = {victim: [_gain(victim, row) for row, _ in rows] for victim in victims}
        for excess in excesses:
            self._short.append(excess.pods)
            for victim, gains in self._gains.items():
                matching = [pod for pod in victim.pods if excess.mark in pod.shape.marks]
                gains.append(sum([bool(excess.nodes[pod.node]) for pod in matching]))

    def fits_without(self, victims: Sequence[Victim]) -> bool:
        """Return True if a pod of the shape fits without these victims."""
        gains = self._gains
        for index, short in enumerate(self._short):
            if sum([gains[victim][index] for victim in victims]) < short:
                return False
        return not self._share or self._has_devices(victims)

    def knapsack(
        self, victims: Sequence[Victim], gone: Sequence[Victim]
    ) -> tuple[int, dict[Victim, int]] | None:
        """Return the missing amount and each victim's part of it, if only one resource is missing.

        None if more than one is short, or devices are shared.
        """
        if self._share or len(self._short) != 1:
            return None
        need = self._short[0] - sum(self._gains[victim][0] for victim in gone)
        return need, {victim: self._gains[victim][0] for victim in victims}

    def alike(self, one: Victim, other: Victim) -> bool:
        """Return True if two victims free the same at the same price."""
        return not self._share and one.price == other.price and self._gains[one] == self._gains[other]

    def _has_devices(self, victims: Sequence[Victim]) -> bool:
        share, memory, shape = self._share.copy(), self._memory.copy(), self._shape
        for victim in victims:
            for pod in victim.on_node:
                if pod.devices:
                    milli = pod.shape.share_on(self._device_memory)
                    pod_memory = pod.shape.memory_on(self._device_memory)
                    for device in pod.devices:
                        share[device] += milli
                        memory[device] += pod_memory
        if shape.whole:
            return share.count(WHOLE_MILLI) >= shape.devices
        milli, pod_memory = shape.share_on(self._device_memory), shape.gpu_memory
        count = sum(left >= milli and memory[device] >= pod_memory for device, left in enumerate(share))
        return count >= shape.devices


def _gain(victim: Victim, row: int) -> int:
    """Return the amount of a resource that a victim frees on the node; exclusive devices for GPUs."""
    if row == GPU_ROW:
        return sum(len(pod.devices) for pod in victim.on_node)
    return sum(amount for pod in victim.on_node for pod_row, amount in pod.shape.needs if pod_row == row)


def minimal_victim_sets(
    space: NodeCapacity, victims: Sequence[Victim]
) -> Iterator[tuple[tuple[Tier, Tier, Tier], list[Victim]]]:
    """Yield minimal sets of victims that free the node's capacity for one pod, best first.

    Lower tiers go before higher ones. Of the highest tier that is needed, as little as possible is chosen,
    assuming that all lower tiers are gone: by price, fewer workloads, younger, name. Then the tier below is
    reduced in the same way, and so on. Each set has a key, by which nodes are compared.
    """
    tiers: list[list[Victim]] = []
    for _, group in groupby(sorted(victims, key=lambda victim: victim.tier), key=lambda victim: victim.tier):
        tiers.append(list(group))
        if space.fits_without([victim for tier in tiers for victim in tier]):
            break
    else:
        return
    below = [victim for tier in tiers[:-1] for victim in tier]
    highest = tiers[-1]
    sets = [(set_key(chosen), index, chosen) for index, chosen in enumerate(_minimal(space, highest, below))]
    sets.sort(key=lambda entry: entry[:2])
    for key, _, chosen in sets:
        whole = list(chosen)
        for depth in range(len(tiers) - 2, -1, -1):
            rest = [victim for tier in tiers[:depth] for victim in tier]
            forced = {victim.job for victim in whole if victim.whole}
            must = [victim for victim in tiers[depth] if victim.job in forced]
            may = [victim for victim in tiers[depth] if victim.job not in forced]
            options = _minimal(space, may, [*rest, *whole, *must])
            whole += must + min(options, key=set_key)
        yield (highest[0].tier, key, set_key(whole)), whole


def set_key(victims: Sequence[Victim]) -> Tier:
    """Return the sort key of a set: price, number of workloads, age, name."""
    return (
        round(sum(victim.price for victim in victims), PRICE_DIGITS),
        len({victim.job for victim in victims}),
        sorted(victim.younger for victim in victims),
    )


def _minimal(space: NodeCapacity, victims: Sequence[Victim], gone: Sequence[Victim]) -> list[list[Victim]]:
    """Return minimal sets of these victims, with other victims already chosen."""
    if len(victims) > MAX_ENUMERATED:
        least = _least(space, victims, gone)
        return [_greedy(space, victims, gone) if least is None else least]
    ordered = sorted(victims, key=lambda victim: (-_size(victim), victim.price, victim.younger))
    sets: list[list[Victim]] = []
    _grow(space, ordered, gone, 0, [], sets)
    return sets


def _grow(
    space: NodeCapacity,
    ordered: Sequence[Victim],
    gone: Sequence[Victim],
    start: int,
    chosen: list[Victim],
    sets: list[list[Victim]],
) -> None:
    """Find minimal sets with the chosen victims and any from `start` on."""
    if space.fits_without([*gone, *chosen]):
        if all(not space.fits_without([*gone, *chosen[:k], *chosen[k + 1 :]]) for k in range(len(chosen))):
            sets.append(chosen)
    elif start < len(ordered) and space.fits_without([*gone, *chosen, *ordered[start:]]):
        _grow(space, ordered, gone, start + 1, [*chosen, ordered[start]], sets)
        rest = start + 1
        while rest < len(ordered) and space.alike(ordered[start], ordered[rest]):
            rest += 1  # without this victim, an equal one isn't needed either
        _grow(space, ordered, gone, rest, chosen, sets)


def _size(victim: Victim) -> int:
    return sum(len(pod.devices) * (pod.shape.share_milli or 1) for pod in victim.on_node)


def _least(space: NodeCapacity, victims: Sequence[Victim], gone: Sequence[Victim]) -> list[Victim] | None:
    """Return the cheapest minimal set if one resource is missing; None if that is unknown.

    A knapsack over victims, larger ones first. If a set falls short without its last victim, the set is
    minimal, because the last victim is the smallest.
    """
    told = space.knapsack(victims, gone)
    if told is None:
        return None
    need, gains = told
    best: dict[int, list[Victim]] = {0: []}  # best set by the amount it frees, up to the need
    for victim in sorted(victims, key=lambda victim: (-gains[victim], victim.price, victim.younger)):
        for given, chosen in list(best.items()):
            if gains[victim] and given < need:
                total, grown = min(need, given + gains[victim]), [*chosen, victim]
                if total not in best or set_key(grown) < set_key(best[total]):
                    best[total] = grown
        if len(best) > _SUMS_MAX:
            return None
    return best.get(max(need, 0))


def _greedy(space: NodeCapacity, victims: Sequence[Victim], gone: Sequence[Victim]) -> list[Victim]:
    """Return a minimal set: all victims less those that aren't needed, the most expensive dropped first."""
    chosen = list(victims)
    for victim in sorted(victims, key=lambda victim: (-victim.price, victim.younger)):
        without = [other for other in chosen if other is not victim]
        if space.fits_without([*gone, *without]):
            chosen = without
    return chosen


Allowances = Callable[[Sequence[Victim]], int]
"""Function that returns the number of disruption allowances that victims use up."""


def permitted_victim_sets(
    space_of: Callable[[Sequence[Victim]], NodeCapacity],
    victims: Sequence[Victim],
    permits: Permits,
    allowances: Allowances,
) -> Iterator[tuple[tuple[Tier, Tier, Tier], list[Victim]]]:
    """Yield minimal permitted sets that free the node's capacity for one pod, best first.

    Sets that use up fewer disruption allowances come first. Among equals the order and the keys are those of
    `minimal_victim_sets`.
    """
    if len(victims) > MAX_ENUMERATED:
        together = _together(victims, permits, allowances)
        yield from minimal_victim_sets(space_of(together), together)
        return
    space = space_of(victims)
    mates: dict[Job, list[Victim]] = {}
    for victim in victims:
        mates.setdefault(victim.job, []).append(victim)
    sets: list[list[Victim]] = []
    _grow_permitted(space, sorted(victims, key=lambda victim: victim.tier), mates, permits, 0, [], sets)
    keyed = [(allowances(chosen), _key(chosen), index, chosen) for index, chosen in enumerate(sets)]
    keyed.sort(key=lambda entry: entry[:3])
    for _, key, _, chosen in keyed:
        yield key, chosen


def _together(victims: Sequence[Victim], permits: Permits, allowances: Allowances) -> list[Victim]:
    """Return victims that may be stopped together, chosen by allowances and tier, the cheapest first."""
    kept: list[Victim] = []
    for victim in sorted(
        victims,
        key=lambda victim: (
            *(victim.whole, allowances([victim])),
            *(victim.tier, victim.price, victim.younger),
        ),
    ):
        mates = (
            []
            if not victim.whole
            else [mate for mate in victims if mate.job is victim.job and not mate.whole]
        )
        if all(mate in kept for mate in mates) and permits([*kept, victim]):
            kept.append(victim)
    return kept


def _grow_permitted(
    space: NodeCapacity,
    ordered: Sequence[Victim],
    mates: dict[Job, list[Victim]],
    permits: Permits,
    position: int,
    chosen: list[Victim],
    sets: list[list[Victim]],
) -> None:
    """Find the permitted sets that free capacity, with the chosen victims and any from `position` on."""
    if chosen and not permits(chosen):
        return
    if space.fits_without(chosen) and _is_closed(chosen, mates):
        if not _has_spare(space, chosen):
            sets.append(chosen)
        return
    if position < len(ordered) and space.fits_without([*chosen, *ordered[position:]]):
        _grow_permitted(space, ordered, mates, permits, position + 1, [*chosen, ordered[position]], sets)
        _grow_permitted(space, ordered, mates, permits, position + 1, chosen, sets)


def _is_closed(chosen: Sequence[Victim], mates: dict[Job, list[Victim]]) -> bool:
    """Return True if the elastic pods of each wholly stopped workload are victims, too."""
    return all(mate in chosen for victim in chosen if victim.whole for mate in mates[victim.job])


def _has_spare(space: NodeCapacity, chosen: Sequence[Victim]) -> bool:
    """Return True if one of the victims isn't needed."""
    forced = {victim.job for victim in chosen if victim.whole}
    for victim in chosen:
        if victim.job in forced and not victim.whole:
            continue
        left = [other for other in chosen if other is not victim]
        if space.fits_without(left):
            return True
    return False


def _key(chosen: Sequence[Victim]) -> tuple[Tier, Tier, Tier]:
    """Return the highest tier of the victims, the set key of the victims in it, and that of all victims."""
    highest = max((victim.tier for victim in chosen), default=())
    return highest, set_key([victim for victim in chosen if victim.tier == highest]), set_key(chosen)
