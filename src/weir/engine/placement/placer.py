"""Placing the pods of a workload: all of them in one trial, or none."""

from collections.abc import Iterable, Sequence
from itertools import permutations

from weir.engine.placement.feasibility import both
from weir.engine.placement.gang_search import BacktrackingSearch
from weir.engine.placement.pod_placer import NodePlacement, PlacementRequest, PodPlacer
from weir.state.jobs import Job


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
        return BacktrackingSearch(self, request, self.steps_most).run()

    def _beside(self, groups: Sequence[int], request: PlacementRequest) -> list[NodePlacement] | None:
        """Try one domain after another if the first pod would decide on the domain."""
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
