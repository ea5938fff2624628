"""Topology placement: few and close domains for a gang, the fullest that fit."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from weir.engine.placement.feasibility import both, pods_that_fit
from weir.engine.placement.placer import Placer
from weir.engine.placement.pod_placer import NodePlacement, PlacementRequest
from weir.engine.placement.topology_levels import TopologyLevel
from weir.model.policy import AffinityRules
from weir.state.capacity_columns import Bools, Ints
from weir.state.jobs import Job, Phase, Pod
from weir.state.shapes import GPU_ROW

Pods = Mapping[int, Sequence[Pod]]
"""Pods to place by group."""


class TopologyPlacer:
    """Places one gang by its topology, near its running members unless the whole gang `moves`."""

    def __init__(
        self,
        placer: Placer,
        job: Job,
        affinity: AffinityRules,
        levels: list[TopologyLevel],
        within: Bools | None = None,
        moves: bool = False,
        placed_on: Sequence[int] = (),
    ) -> None:
        self._placer = placer
        self._job = job
        self._affinity = affinity
        self._levels = levels
        self._moves = moves
        self._placed_on = placed_on  # nodes of pods that this plan starts
        asked = job.topology
        assert asked is not None
        names = placer.cluster.topologies[asked.name].levels
        self._required = names.index(asked.required) if asked.required is not None else -1
        self._preferred = names.index(asked.preferred) if asked.preferred is not None else -1
        self._open = both(self._pinned(self._required), within)

    def place(self, pods: Pods, scattered: bool) -> list[NodePlacement] | None:
        """Return placements in one domain of its level, or if `scattered` in few domains."""
        for within in self._alternatives(pods, scattered):
            request = PlacementRequest(self._job, pods, self._affinity, within)
            placements = self._placer.place(request)
            if placements is not None:
                return placements
        return None

    def _alternatives(self, pods: Pods, scattered: bool) -> Iterator[Bools | None]:
        capacity_for = self._capacity_for(pods)
        prefers = self._preferred > self._required
        near = self._pinned(self._preferred) if prefers else None
        finest = max(self._required, self._preferred)
        yield from self._single(finest, pods, capacity_for, both(self._open, near))
        if prefers and scattered:
            yield from self._scattered(pods, capacity_for)

    def _single(
        self, depth: int, pods: Pods, capacity_for: Mapping[int, Ints], base: Bools | None
    ) -> Iterator[Bools | None]:
        """Yield single domains of a level that fit the gang, those with least free capacity first."""
        if depth < 0:
            yield base
            return
        level = self._levels[depth]
        enough = np.ones(level.count, np.bool_)
        for group, some in pods.items():
            enough &= level.sums(_on(base, capacity_for[group])) >= len(some)
        free = level.sums(np.maximum(self._placer.capacity.columns.free[GPU_ROW], 0))
        for domain in sorted(np.flatnonzero(enough).tolist(), key=lambda domain: (int(free[domain]), domain)):
            yield both(level.mask(domain), base)

    def _scattered(self, pods: Pods, capacity_for: Mapping[int, Ints]) -> Iterator[Bools | None]:
        """Yield unions of few domains of the preferred level within one coarser domain."""
        level = self._levels[self._preferred]
        wholes: list[Bools | None] = []
        for depth in range(self._preferred - 1, self._required - 1, -1):
            wholes += self._single(depth, pods, capacity_for, self._open)
        for whole in wholes:
            union = np.zeros(len(level.domain_of), np.bool_)
            counts = {group: level.sums(_on(whole, capacity_for[group])) for group in pods}
            total = np.sum(list(counts.values()), axis=0)
            for domain in sorted(range(level.count), key=lambda domain: (-int(total[domain]), domain)):
                union |= level.mask(domain)
                domains = np.unique(level.domain_of[union & (level.domain_of >= 0)])
                if all(int(counts[group][domains].sum()) >= len(some) for group, some in pods.items()):
                    yield both(union, whole)
                    break
        yield from self._single(self._required, pods, capacity_for, self._open)

    def domains_to_clear(self, pods: Pods) -> list[Bools]:
        """Return domains of its level, those that lack capacity for the fewest pods first."""
        capacity_for = self._capacity_for(pods)
        level = self._levels[max(self._required, self._preferred)]
        missing = np.zeros(level.count, np.int64)
        for group, some in pods.items():
            missing += np.maximum(0, len(some) - level.sums(_on(self._open, capacity_for[group])))
        domains = sorted(range(level.count), key=lambda domain: (int(missing[domain]), domain))
        masks = [level.mask(domain) for domain in domains]
        return masks if self._open is None else [mask & self._open for mask in masks]

    def _pinned(self, depth: int) -> Bools | None:
        """Return the nodes in the domain of its running or nominated members, if any."""
        if depth < 0 or self._moves:
            return None
        domain_of = self._levels[depth].domain_of
        nodes = [
            pod.nomination[0] if pod.nomination is not None else pod.node
            for group in self._job.pods
            for pod in group
            if pod.nomination is not None or pod.phase is Phase.RUNNING
        ]
        nodes += self._placed_on
        return np.isin(domain_of, np.unique(domain_of[nodes])) & (domain_of >= 0) if nodes else None

    def _capacity_for(self, pods: Pods) -> dict[int, Ints]:
        capacity = self._placer.capacity
        by_group = {}
        for group in pods:
            shape = self._job.shapes[group]
            count = pods_that_fit(capacity, shape)
            by_group[group] = _on(self._placer.ranking_of(shape, self._affinity).mask, count)
        return by_group


def _on(nodes: Bools | None, counts: Ints) -> Ints:
    """Return these counts, with 0 for nodes outside the mask."""
    return counts if nodes is None else np.where(nodes, counts, 0)
