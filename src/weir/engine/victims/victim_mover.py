"""Moves of victims: new places for pods that one preemption moves instead of stopping them."""

from collections.abc import Sequence

from weir.engine.placement.pod_placer import NodePlacement
from weir.engine.placement.topology_levels import missing_topology
from weir.engine.placement.topology_placer import TopologyPlacer
from weir.engine.quota.usage_bounds import held_by
from weir.engine.victims.preemption_context import PreemptionContext
from weir.engine.victims.victim_sets import Victim
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
        """Place and charge a victim's pods elsewhere; None, with nothing changed, if they don't fit.

        The caller has released their usage where they run.
        """
        with self._context.transaction.trial() as trial:
            placements = self._placed(victim)
            if placements is None or not self.allows(requester):
                return None
            trial.commit()
        return placements

    def _placed(self, victim: Victim) -> list[NodePlacement] | None:
        """Return new placements without an outage during the run; None if there are none."""
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
        affinity, checks = self._context.affinity_of(victim.job), self._context.checks
        for pod in _in_order(victim):
            node = self._placer.best_node(pod.shape, affinity, checks.open_nodes(victim.job, pod.amounts))
            if node < 0:
                return None
            placements.append(self._placer.put(pod, node, affinity))
            if not self._charge(placements[-1:]):
                return None
        return placements

    def _by_topology(self, victim: Victim) -> list[NodePlacement] | None:
        """Return new placements in one domain of its level, together with its remaining pods.

        The answer is None if they don't fit.
        """
        context, job, topology = self._context, victim.job, victim.job.topology
        assert topology is not None
        if missing_topology(context.cluster.topologies, topology) is not None:
            return None
        pods: dict[int, list[Pod]] = {}
        for pod in _in_order(victim):
            pods.setdefault(pod.group, []).append(pod)
        whole = len(victim.pods) == sum(job.placed)
        levels = context.levels_of(topology.name)
        open_ = context.checks.open_nodes(job, held_by(victim.pods))
        placer = TopologyPlacer(self._placer, job, context.affinity_of(job), levels, open_, moves=whole)
        placements = placer.place(pods, scattered=False)
        return placements if placements is not None and self._charge(placements) else None

    def _charge(self, placements: Sequence[NodePlacement]) -> bool:
        """Charge pods at their new places; return False if they would exceed a quota or limit there."""
        if self._context.checks.moved_refusal(placements[0].pod.job, placements) is not None:
            return False
        self._context.accounting.start(placements)
        return True


def _in_order(victim: Victim) -> list[Pod]:
    return sorted(victim.pods, key=lambda pod: (pod.group, pod.index))
