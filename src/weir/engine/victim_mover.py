"""Moves of victims: new places for pods that one preemption moves instead of stopping them."""

from collections.abc import Sequence

from weir.engine.pod_placer import NodePlacement
from weir.engine.preemption_context import PreemptionContext
from weir.engine.topology_levels import missing_topology
from weir.engine.topology_placer import TopologyPlacer
from weir.engine.victim_sets import Victim
from weir.state.jobs import Job, Pod


class VictimMover:
    """Moves victims of one requester; the requester's placements keep its pod affinity."""

    def __init__(self, context: PreemptionContext, requester: Job) -> None:
        self._context = context
        self._placer = context.placer
        self._has_pod_rules = any(shape.pod_rules for shape in requester.shapes)

    def allows(self, requester: Sequence[NodePlacement]) -> bool:
        """Return True if pod affinity still allows the requester's placements."""
        if not self._has_pod_rules:
            return True
        rules, columns = self._placer.rules, self._placer.capacity.columns
        return all(rules.stays(columns, placement.pod.shape, placement.node) for placement in requester)

    def move(self, victim: Victim, requester: Sequence[NodePlacement]) -> list[NodePlacement] | None:
        """Return new placements for a victim's pods; None, with the capacity unchanged, if they don't fit."""
        with self._context.transaction.trial() as trial:
            placements = self._placed(victim)
            if placements is None or not self.allows(requester):
                return None
            trial.commit()
        return placements

    def _placed(self, victim: Victim) -> list[NodePlacement] | None:
        """Return new placements that don't run into an outage; None if there are none."""
        place = self._one_by_one if victim.job.topology is None else self._by_topology
        outages = self._context.placement.outages
        if not outages:
            return place(victim)
        with outages.withheld(self._placer.capacity, victim.job, moved=True):
            placements = place(victim)
        if placements is None or outages.conflicts(victim.job, placements, moved=True):
            return None
        return placements

    def _one_by_one(self, victim: Victim) -> list[NodePlacement] | None:
        placements: list[NodePlacement] = []
        affinity = self._context.affinity_of(victim.job)
        for pod in _in_order(victim):
            node = self._placer.best_node(pod.shape, affinity)
            if node < 0:
                return None
            placements.append(self._placer.put(pod, node, affinity))
        return placements

    def _by_topology(self, victim: Victim) -> list[NodePlacement] | None:
        """Return new placements in one domain of its level, with its pods that stay."""
        context, job, topology = self._context, victim.job, victim.job.topology
        assert topology is not None
        if missing_topology(context.cluster.topologies, topology) is not None:
            return None
        pods: dict[int, list[Pod]] = {}
        for pod in _in_order(victim):
            pods.setdefault(pod.group, []).append(pod)
        whole = len(victim.pods) == sum(job.placed)
        levels = context.levels_of(topology.name)
        placer = TopologyPlacer(self._placer, job, context.affinity_of(job), levels, moves=whole)
        return placer.place(pods, scattered=False)


def _in_order(victim: Victim) -> list[Pod]:
    return sorted(victim.pods, key=lambda pod: (pod.group, pod.index))
