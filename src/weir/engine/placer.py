"""Placing the pods of a workload: all of them in one trial, or none."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np

from weir.engine.capacity import Capacity
from weir.engine.feasibility import Bools, devices_for, pods_that_fit
from weir.engine.node_scores import INFEASIBLE, NodeScores
from weir.engine.pod_affinity import PodAffinityRules
from weir.model.policy import AffinityPolicy
from weir.state.capacity_columns import Ints
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Pod
from weir.state.shapes import GPU_ROW, RequestShape


class NodePlacement(NamedTuple):
    """A pod on a node with its devices, by objects and indices."""

    pod: Pod
    node: int
    devices: tuple[int, ...]


ScoresOf = Callable[[RequestShape, tuple[AffinityPolicy, ...]], NodeScores]


class Placer:
    """Places pods in one capacity. `ranking_of` returns the node scores of a shape."""

    def __init__(
        self,
        cluster: Cluster,
        capacity: Capacity,
        ranking_of: ScoresOf,
        steps_most: int,
        rules: PodAffinityRules,
        domain_of: Ints | None = None,
    ) -> None:
        self.cluster = cluster
        self.capacity = capacity
        self.ranking_of = ranking_of
        self.rules = rules
        self._steps_most = steps_most
        self._domain_of = domain_of  # by node, where small work should keep domains whole

    def ranks(self, shape: RequestShape, affinity: tuple[AffinityPolicy, ...]) -> Ints:
        """Return the rank of every node for a shape, pod affinity included."""
        rank = self.plain_ranks(shape, affinity)
        return self.rules.ranked(self.capacity.columns, shape, rank) if shape.pod_rules else rank

    def plain_ranks(self, shape: RequestShape, affinity: tuple[AffinityPolicy, ...]) -> Ints:
        """Return the rank of every node for a shape without its pod affinity."""
        return self._followed(shape, affinity).rank

    def _followed(self, shape: RequestShape, affinity: tuple[AffinityPolicy, ...]) -> NodeScores:
        ranking = self.ranking_of(shape, affinity)
        ranking.follow(self.capacity)
        return ranking

    def has_capacity(self, shape: RequestShape, affinity: tuple[AffinityPolicy, ...]) -> bool:
        """Return True if a pod of a shape fits any node, without its pod affinity."""
        return self._followed(shape, affinity).best() >= 0

    def capacity_for(
        self, shape: RequestShape, affinity: tuple[AffinityPolicy, ...], within: Bools | None = None
    ) -> int:
        """Return the number of pods of a shape that fit; a bound with affinity or several shares."""
        rank = self.plain_ranks(shape, affinity)
        open_ = rank != INFEASIBLE if within is None else (rank != INFEASIBLE) & within
        count = pods_that_fit(self.capacity.columns, self.capacity.whole, self.capacity.device_memory, shape)
        return int(count[open_].sum())

    def best_node(
        self, shape: RequestShape, affinity: tuple[AffinityPolicy, ...], within: Bools | None = None
    ) -> int:
        """Return the best node for one pod, the first of equal ones; -1 if none fits."""
        ranking = self._followed(shape, affinity)
        best, rank = ranking.best(), ranking.rank
        if best < 0:
            return -1
        if shape.pod_rules or within is not None:
            if shape.pod_rules:
                rank = self.rules.ranked(self.capacity.columns, shape, rank)
            if within is not None:
                rank = np.where(within, rank, INFEASIBLE)
            best = int(rank.argmin())
            if rank[best] == INFEASIBLE:
                return -1
        return best if self._domain_of is None else self._in_most_broken(rank, best, self._domain_of)

    def _in_most_broken(self, rank: Ints, best: int, domain_of: Ints) -> int:
        """Return the first of the equally good nodes in the domain with least free capacity."""
        equal = np.flatnonzero(rank == rank[best])
        if len(equal) == 1:
            return best
        known = domain_of >= 0
        free = np.bincount(domain_of[known], np.maximum(self.capacity.columns.free[GPU_ROW, known], 0))
        left = np.where(domain_of[equal] >= 0, free[domain_of[equal]], -1.0)
        return int(equal[left.argmin()])

    def put(self, pod: Pod, node: int, affinity: tuple[AffinityPolicy, ...] = ()) -> NodePlacement:
        """Place a pod on a node that it fits."""
        known = self.cluster.nodes[node]
        shape = pod.shape
        device = -1
        if shape.devices == 1 and not shape.whole:
            ranking = self.ranking_of(shape, affinity)
            ranking.follow(self.capacity)
            device = int(ranking.device[node])
        devices = (
            (device,)
            if device >= 0
            else devices_for(self.capacity, shape, node, known.links if known is not None else ())
        )
        assert len(devices) == shape.devices, (
            f"{pod.job.name}: {len(devices)} devices free on {known}, not {shape.devices}"
        )
        self.capacity.allocate(node, shape, devices)
        return NodePlacement(pod, node, devices)

    def fill(self, shape: RequestShape, affinity: tuple[AffinityPolicy, ...], pods: int) -> int:
        """Allocate up to this many pods of a shape and return the number that fit."""
        for placed in range(pods):
            node = self.best_node(shape, affinity)
            if node < 0:
                return placed
            known = self.cluster.nodes[node]
            links = known.links if known is not None else ()
            self.capacity.allocate(node, shape, devices_for(self.capacity, shape, node, links))
        return pods

    def give_back(self, placements: Sequence[NodePlacement]) -> None:
        """Release these placements."""
        for placement in placements:
            self.capacity.release(placement.node, placement.pod.shape, placement.devices)

    def place(
        self,
        job: Job,
        pods: Mapping[int, Sequence[Pod]],
        affinity: tuple[AffinityPolicy, ...] = (),
        within: Bools | None = None,
    ) -> list[NodePlacement] | None:
        """Return placements for these pods of each group; None with the capacity unchanged."""
        if len(pods) == 1:
            ((group, some),) = pods.items()
            if len(some) == 1:
                node = self.best_node(job.shapes[group], affinity, within)
                return None if node < 0 else [self.put(some[0], node, affinity)]
        groups = sorted(pods, key=lambda group: (-job.spec.groups[group].order, group))
        capacity_for = {group: self.capacity_for(job.shapes[group], affinity, within) for group in groups}
        if any(capacity_for[group] < len(pods[group]) for group in groups):
            return None
        for turn in _turns(groups, {group: capacity_for[group] / len(pods[group]) for group in groups}):
            self.capacity.begin()
            placements = self._in_turn(job, turn, pods, affinity, within)
            if placements is not None:
                self.capacity.commit()
                return placements
            self.capacity.rollback()
        ruled = any(job.shapes[group].pod_rules for group in groups)
        if ruled:
            placements = self._beside(job, groups, pods, affinity, within)
            if placements is not None:
                return placements
        if len(groups) < 2 and not ruled:
            return None
        return BacktrackingSearch(self, job, pods, affinity, within, self._steps_most).run()

    def _beside(
        self,
        job: Job,
        groups: Sequence[int],
        pods: Mapping[int, Sequence[Pod]],
        affinity: tuple[AffinityPolicy, ...],
        within: Bools | None,
    ) -> list[NodePlacement] | None:
        """Place in one domain after another where the first pod would decide on the domain."""
        for group in groups:
            for domain in self.rules.beginnings(self.capacity.columns, job.shapes[group]):
                both = domain if within is None else domain & within
                if self.capacity_for(job.shapes[group], affinity, both) >= len(pods[group]):
                    self.capacity.begin()
                    placements = self._in_turn(job, groups, pods, affinity, both)
                    if placements is not None:
                        self.capacity.commit()
                        return placements
                    self.capacity.rollback()
        return None

    def _in_turn(
        self,
        job: Job,
        turn: Sequence[int],
        pods: Mapping[int, Sequence[Pod]],
        affinity: tuple[AffinityPolicy, ...],
        within: Bools | None,
    ) -> list[NodePlacement] | None:
        placements = []
        for group in turn:
            shape = job.shapes[group]
            for pod in pods[group]:
                node = self.best_node(shape, affinity, within)
                if node < 0:
                    return None
                placements.append(self.put(pod, node, affinity))
        return placements


def _turns(groups: list[int], plenty: dict[int, float]) -> list[tuple[int, ...]]:
    """Return the orders in which groups are tried: as requested, then scarcest first, then any."""
    turns = [tuple(groups), tuple(sorted(groups, key=lambda group: (plenty[group], group)))]
    if len(groups) <= 3:
        turns += permutations(groups)
    return list(dict.fromkeys(turns))


class BacktrackingSearch:
    """Backtracking over the pods of a gang whose groups block one another, bounded in steps.

    Pods of the scarcest shape first; each tries the nodes it fits on, best first, one per state of
    a node, and there, if it shares devices, one of each kind of choice among them. Equal pods go to
    nodes in rising order, so that no arrangement is tried twice.
    """

    def __init__(
        self,
        placer: Placer,
        job: Job,
        pods: Mapping[int, Sequence[Pod]],
        affinity: tuple[AffinityPolicy, ...],
        within: Bools | None,
        steps_most: int,
    ) -> None:
        self._placer = placer
        self._affinity = affinity
        self._within = within
        self._steps_left = steps_most
        self._shapes = [job.shapes[group] for group in pods]
        open_nodes = {group: int((self._ranks(job.shapes[group]) != INFEASIBLE).sum()) for group in pods}
        turns = sorted(pods, key=lambda group: (not open_nodes[group], open_nodes[group], group))
        self._pods = [pod for group in turns for pod in pods[group]]  # who follows others comes after them
        labels = {rule.topology for shape in self._shapes for rule, _ in shape.pod_rules}
        self._levels = [placer.rules.level(label) for label in sorted(labels)]

    def _ranks(self, shape: RequestShape) -> Ints:
        rank = self._placer.ranks(shape, self._affinity)
        return rank if self._within is None else np.where(self._within, rank, INFEASIBLE)

    def run(self) -> list[NodePlacement] | None:
        """Return placements for all pods; None with the capacity unchanged."""
        placements: list[NodePlacement] = []
        return placements if self._from(0, placements) else None

    def _from(self, at: int, placements: list[NodePlacement]) -> bool:
        if at == len(self._pods):
            return True
        pod = self._pods[at]
        rank = self._ranks(pod.shape).copy()  # it follows what is tried further down
        tried: set[tuple[object, ...]] = set()
        for node in np.argsort(rank, kind="stable")[: self._steps_left].tolist():
            if rank[node] == INFEASIBLE or self._steps_left <= 0:
                return False
            state = self._state(node)
            if state in tried:
                continue
            tried.add(state)
            for devices in self._choices(pod.shape, node):
                if self._steps_left <= 0:
                    return False
                self._steps_left -= 1
                self._placer.capacity.begin()
                if devices is None:
                    placements.append(self._placer.put(pod, node, self._affinity))
                else:
                    self._placer.capacity.allocate(node, pod.shape, devices)
                    placements.append(NodePlacement(pod, node, devices))
                if self._from(at + 1, placements):
                    self._placer.capacity.commit()
                    return True
                placements.pop()
                self._placer.capacity.rollback()
        return False

    def _choices(self, shape: RequestShape, node: int) -> Iterator[tuple[int, ...] | None]:
        """Yield devices to try: the default (None), then for shares one of each other kind."""
        yield None
        if shape.whole or not shape.devices:
            return
        columns, device_memory = self._placer.capacity.columns, int(self._placer.capacity.device_memory[node])
        milli, each = shape.share_on(device_memory), shape.memory_on(device_memory)
        left = list(zip(columns.share[node].tolist(), columns.memory[node].tolist(), strict=True))
        open_ = [at for at, (share, memory) in enumerate(left) if share >= milli and memory >= each]
        seen = set()
        for devices in combinations(open_, shape.devices):
            kind = tuple(sorted(left[device] for device in devices))
            if kind not in seen:
                seen.add(kind)
                yield devices

    def _state(self, node: int) -> tuple[object, ...]:
        columns = self._placer.capacity.columns
        return (
            columns.free[:, node].tobytes(),
            columns.share[node].tobytes(),
            columns.memory[node].tobytes(),
            *(int(level.of[node]) for level in self._levels),
            *(bool(self._ranks(shape)[node] == INFEASIBLE) for shape in self._shapes),
        )
