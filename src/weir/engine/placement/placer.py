"""Placing the pods of a workload: all of them in one trial, or none, with a search for interlocked groups."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, permutations

import numpy as np

from weir.engine.placement.feasibility import both
from weir.engine.placement.node_scores import INFEASIBLE
from weir.engine.placement.pod_placer import NodePlacement, PlacementRequest, PodPlacer
from weir.state.capacity_columns import Ints
from weir.state.jobs import Job
from weir.state.shapes import RequestShape


class BacktrackingSearch:
    """Backtracking over the pods of a gang whose groups block one another, bounded in steps.

    Pods of the scarcest shape are placed first. For each pod the nodes that fit are tried, best first; of
    nodes in the same state only one. For a pod that shares devices, one device of each kind is tried there.
    Equal pods go to nodes in rising order, so that no arrangement is tried twice.
    """

    def __init__(self, placer: PodPlacer, request: PlacementRequest, steps_max: int) -> None:
        job, pods, self._affinity, self._within = request
        self._placer = placer
        self._steps_left = steps_max
        self._shapes = [job.shapes[group] for group in pods]
        open_nodes = {group: int((self._ranks(job.shapes[group]) != INFEASIBLE).sum()) for group in pods}
        turns = sorted(pods, key=lambda group: (not open_nodes[group], open_nodes[group], group))
        # Groups without own nodes follow the others
        self._pods = [pod for group in turns for pod in pods[group]]
        labels = {rule.topology for shape in self._shapes for rule, _ in shape.pod_rules}
        self._levels = [placer.rules.level(label) for label in sorted(labels)]

    def _ranks(self, shape: RequestShape) -> Ints:
        rank = self._placer.ranks(shape, self._affinity)
        return rank if self._within is None else np.where(self._within, rank, INFEASIBLE)

    def run(self) -> list[NodePlacement] | None:
        """Return placements for all pods; None with the capacity unchanged."""
        placements: list[NodePlacement] = []
        return placements if self._from(0, placements) else None

    def _from(self, position: int, placements: list[NodePlacement]) -> bool:
        if position == len(self._pods):
            return True
        pod = self._pods[position]
        rank = self._ranks(pod.shape).copy()  # a copy: placements further down change the ranks
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
                with self._placer.capacity.trial() as trial:
                    if devices is None:
                        placements.append(self._placer.put(pod, node, self._affinity))
                    else:
                        self._placer.capacity.allocate(node, pod.shape, devices)
                        placements.append(NodePlacement(pod, node, devices))
                    if self._from(position + 1, placements):
                        trial.commit()
                        return True
                    placements.pop()
        return False

    def _choices(self, shape: RequestShape, node: int) -> Iterator[tuple[int, ...] | None]:
        """Yield devices to try: the default (None), then for shares one of each other kind."""
        yield None
        if shape.whole or not shape.devices:
            return
        columns, device_memory = self._placer.capacity.columns, int(self._placer.capacity.device_memory[node])
        milli, pod_memory = shape.share_on(device_memory), shape.memory_on(device_memory)
        left = list(zip(columns.share[node].tolist(), columns.memory[node].tolist(), strict=True))
        open_ = [
            device for device, (share, memory) in enumerate(left) if share >= milli and memory >= pod_memory
        ]
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
            *(int(level.domain_of[node]) for level in self._levels),
            *(bool(self._ranks(shape)[node] == INFEASIBLE) for shape in self._shapes),
        )


class Placer(PodPlacer):
    """Places workloads in one capacity: all pods or none."""

    def place(self, request: PlacementRequest) -> list[NodePlacement] | None:
        """Return placements for the requested pods; None with the capacity unchanged."""
        job, pods, affinity, within = request
        if len(pods) == 1:
            ((group, some),) = pods.items()
            if len(some) == 1:
                node = self.best_node(job.shapes[group], affinity, within)
                return None if node < 0 else [self.put(some[0], node, affinity)]
        groups = in_order(job, pods)
        capacity_for = {group: self.capacity_for(job.shapes[group], affinity, within) for group in groups}
        if any(capacity_for[group] < len(pods[group]) for group in groups):
            return None
        for turn in _turns(groups, {group: capacity_for[group] / len(pods[group]) for group in groups}):
            placements = self._in_turn(turn, request)
            if placements is not None:
                return placements
        ruled = any(job.shapes[group].pod_rules for group in groups)
        if ruled:
            placements = self._beside(groups, request)
            if placements is not None:
                return placements
        if len(groups) < 2 and not ruled:
            return None
        return BacktrackingSearch(self, request, self.steps_max).run()

    def _beside(self, groups: Sequence[int], request: PlacementRequest) -> list[NodePlacement] | None:
        """Try one domain after another: affinity to itself binds all pods to the domain of the first."""
        job, pods, affinity, within = request
        for group in groups:
            for domain in self.rules.beginnings(self.capacity.columns, job.shapes[group]):
                open_ = both(domain, within)
                if self.capacity_for(job.shapes[group], affinity, open_) >= len(pods[group]):
                    placements = self._in_turn(groups, request._replace(within=open_))
                    if placements is not None:
                        return placements
        return None

    def _in_turn(self, turn: Sequence[int], request: PlacementRequest) -> list[NodePlacement] | None:
        """Place pod after pod; None, with the capacity unchanged, if one doesn't fit."""
        placements = []
        with self.capacity.trial() as trial:
            for group in turn:
                shape = request.job.shapes[group]
                for pod in request.pods[group]:
                    node = self.best_node(shape, request.affinity, request.within)
                    if node < 0:
                        return None
                    placements.append(self.put(pod, node, request.affinity))
            trial.commit()
        return placements


def in_order(job: Job, groups: Iterable[int]) -> list[int]:
    """Return groups of a workload in the requested order."""
    return sorted(groups, key=lambda group: (-job.spec.groups[group].order, group))


def _turns(groups: list[int], plenty: dict[int, float]) -> list[tuple[int, ...]]:
    """Return the orders in which groups are tried: as requested, then scarcest first, then any."""
    turns = [tuple(groups), tuple(sorted(groups, key=lambda group: (plenty[group], group)))]
    if len(groups) <= 3:
        turns += permutations(groups)
    return list(dict.fromkeys(turns))
