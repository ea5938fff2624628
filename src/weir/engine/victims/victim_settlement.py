"""Settlement of the chosen victims: each is spared, moved to a new place or stopped."""

from collections.abc import Sequence

from weir.engine.placement.pod_placer import NodePlacement
from weir.engine.placement.topology_levels import missing_topology
from weir.engine.placement.topology_placer import TopologyPlacer
from weir.engine.protection.preemption_rules import PreemptionKind
from weir.engine.quota.quota_checks import held_by
from weir.engine.victims.preemption_context import PreemptionContext, PreemptionPlan
from weir.engine.victims.victim_candidates import VictimCandidates
from weir.engine.victims.victim_sets import Victim
from weir.model.reasons import EvictionRule
from weir.state.jobs import Job, Pod


class VictimMover:
    """Moves victims of one requester; the requester's placements keep its pod affinity."""

    def __init__(self, context: PreemptionContext) -> None:
        self._context = context
        self._placer = context.placer

    def allows(self, requester: Sequence[NodePlacement]) -> bool:
        """Return True if pod affinity still allows the requester's placements."""
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
        """Return new placements in the topology domain that has the workload's remaining pods.

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


ChosenVictims = list[tuple[Victim, EvictionRule]]
"""Victims in the order in which they were chosen, with the rule that allows each eviction."""


class VictimSettlement:
    """Settles the victims of one requester: inside the transaction of its search."""

    def __init__(self, context: PreemptionContext, candidates: VictimCandidates) -> None:
        self._context = context
        self._candidates = candidates
        self._candidate = candidates.rules.candidate
        self._mover = VictimMover(context)
        self._affinity = context.affinity_of(self._candidate.job)
        self._placer = context.placer
        self._transaction = context.transaction
        self._accounting = context.accounting
        self._capacity = context.placer.capacity

    def is_possible(
        self,
        pod: Pod,
        node: int,
        chosen: Sequence[Victim],
        before: ChosenVictims,
        placements: Sequence[NodePlacement],
    ) -> bool:
        """Return True if the pod may use the node, and every victim to be moved finds a new place.

        `before` are the victims chosen for earlier pods, and `placements` those of earlier pods.
        """
        if pod.shape.pod_rules and not self._opens(pod, node, chosen):
            return False
        moving = [victim for victim in chosen if victim.moves]
        if not moving:
            return True
        victims = [*moving, *(victim for victim, _ in before)]
        if sum(len(victim.pods) for victim in victims) > self._context.policy.consolidation.max_moves:
            return False
        if (
            self._candidates.way.kind is PreemptionKind.CONSOLIDATE
            and sum(victim.price for victim in victims) > self._candidates.move_budget
        ):
            return False  # the move budget applies to each move if there are evictions too
        with self._transaction.trial():
            for victim in chosen:
                self._accounting.release(victim.pods)
                self._transaction.release_capacity(victim.on_node)
            self._placer.put(pod, node, self._affinity)
            return all(self._mover.move(victim, placements) is not None for victim in moving)

    def _opens(self, pod: Pod, node: int, chosen: Sequence[Victim]) -> bool:
        """Return True if pod affinity allows the node once these victims are gone."""
        with self._transaction.trial():
            for victim in chosen:
                self._transaction.release_capacity(victim.pods)
            return self._placer.rules.refusal(self._capacity.columns, pod.shape, node) is None

    def spare(self, victims: ChosenVictims, placements: Sequence[NodePlacement]) -> None:
        """Drop the victims whose places aren't needed by the placed workload.

        Victims within their quotas are dropped first, then those that were chosen last.
        """
        for victim, _ in victims:
            if victim.moves:  # a moved workload keeps its quota usage
                self._accounting.charge(victim.pods)
        last_first = victims[::-1]
        for victim, rule in sorted(last_first, key=lambda victim: not victim[0].is_protected):
            whole_gone = not victim.whole and any(
                other.whole and other.job is victim.job for other, _ in victims
            )
            if not whole_gone and self._keep_running(victim, placements):
                victims.remove((victim, rule))
        for victim, _ in victims:
            if victim.moves:
                self._accounting.release(victim.pods)

    def _keep_running(self, victim: Victim, placements: Sequence[NodePlacement]) -> bool:
        """Drop a victim if all its pods still fit where they are."""
        with self._transaction.trial() as trial:
            for pod in victim.pods:
                if not self._own_place_free(pod):
                    return False
                self._capacity.allocate(pod.node, pod.shape, pod.devices)
            if not self._mover.allows(placements):
                return False
            if victim.moves:  # its usage is charged
                self._accounting.release(victim.pods)
            self._accounting.resume(victim.pods)
            requester, checks = self._candidate, self._context.checks
            if not victim.moves and checks.quota_refusal(requester.job, requester.request) is not None:
                return False
            trial.commit()
        return True

    def _own_place_free(self, pod: Pod) -> bool:
        columns, shape, node = self._capacity.columns, pod.shape, pod.node
        if any(columns.free[row, node] < amount for row, amount in shape.needs):
            return False
        device_memory = int(self._capacity.device_memory[node])
        milli, pod_memory = shape.share_on(device_memory), shape.memory_on(device_memory)
        share, memory = columns.share[node], columns.memory[node]
        return all(share[device] >= milli and memory[device] >= pod_memory for device in pod.devices)

    def settle(self, victims: ChosenVictims, plan: PreemptionPlan) -> bool:
        """Move victims that fit elsewhere and evict the others; return False if one can be neither.

        Victims that may only move come first, since they go on using quota; then minima before elastic pods.
        """
        if self._context.checks.placed_refusal(self._candidate.job, plan.placements) is not None:
            return False  # only some of its pods have the GPU model of the exceeded limit
        self._accounting.start(plan.placements)
        stopped: set[Job] = set()
        for victim, rule in sorted(victims, key=lambda pair: (not pair[0].moves, not pair[0].whole)):
            placements = None
            if victim.job not in stopped and (victim.moves or self._may_move(victim)):
                placements = self._mover.move(victim, plan.placements)
            if placements is not None:
                plan.moved.append((victim.job, placements, rule))
            elif victim.moves:
                return False
            else:
                stopped.add(victim.job)
                plan.stopped += [(pod, rule) for pod in victim.pods]
        self._accounting.expect([self._candidate.job.name, *(job.name for job, _, _ in plan.moved)])
        return True

    def _may_move(self, victim: Victim) -> bool:
        checks = self._context.checks
        return checks.move_refusal(victim.job, held_by(victim.pods), self._capacity) is None
