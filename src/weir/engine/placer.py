"""Placing the pods of a workload: all of them in one trial, or none."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations

from weir.engine.feasibility import Bools
from weir.engine.gang_search import BacktrackingSearch
from weir.engine.pod_placer import NodePlacement, PodPlacer
from weir.model.policy import AffinityRules
from weir.state.jobs import Job, Pod


class Placer(PodPlacer):
    """Places workloads in one capacity: all pods or none."""

    def place(
        self,
        job: Job,
        pods: Mapping[int, Sequence[Pod]],
        affinity: AffinityRules = (),
        within: Bools | None = None,
    ) -> list[NodePlacement] | None:
        """Return placements for these pods of each group; None with the capacity unchanged."""
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
            placements = self._in_turn(job, turn, pods, affinity, within)
            if placements is not None:
                return placements
        ruled = any(job.shapes[group].pod_rules for group in groups)
        if ruled:
            placements = self._beside(job, groups, pods, affinity, within)
            if placements is not None:
                return placements
        if len(groups) < 2 and not ruled:
            return None
        return BacktrackingSearch(self, job, pods, affinity, within, self.steps_most).run()

    def _beside(
        self,
        job: Job,
        groups: Sequence[int],
        pods: Mapping[int, Sequence[Pod]],
        affinity: AffinityRules,
        within: Bools | None,
    ) -> list[NodePlacement] | None:
        """Place in one domain after another where the first pod would decide on the domain."""
        for group in groups:
            for domain in self.rules.beginnings(self.capacity.columns, job.shapes[group]):
                both = domain if within is None else domain & within
                if self.capacity_for(job.shapes[group], affinity, both) >= len(pods[group]):
                    placements = self._in_turn(job, groups, pods, affinity, both)
                    if placements is not None:
                        return placements
        return None

    def _in_turn(
        self,
        job: Job,
        turn: Sequence[int],
        pods: Mapping[int, Sequence[Pod]],
        affinity: AffinityRules,
        within: Bools | None,
    ) -> list[NodePlacement] | None:
        """Place pod after pod; None, with the capacity unchanged, if one doesn't fit."""
        placements = []
        self.capacity.begin()
        for group in turn:
            shape = job.shapes[group]
            for pod in pods[group]:
                node = self.best_node(shape, affinity, within)
                if node < 0:
                    self.capacity.rollback()
                    return None
                placements.append(self.put(pod, node, affinity))
        self.capacity.commit()
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
