"""Victim search: free capacity for one workload in one trial, completely or not at all.

Each pod that doesn't fit goes to the node on which victims are cheapest. Then victims that aren't needed are
spared, and a victim that fits elsewhere is moved instead of stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from weir.engine.cheapest_node import CheapestNode, RunnerUp, nodes_of
from weir.engine.eviction_price import devices_of
from weir.engine.feasibility import Bools
from weir.engine.placer import NodePlacement
from weir.engine.preemption_context import PreemptionContext
from weir.engine.preemption_rules import PreemptionKind, divergence_level
from weir.engine.victim_candidates import VictimCandidates
from weir.engine.victim_mover import VictimMover
from weir.engine.victim_sets import Tier, Victim
from weir.model.reasons import EvictionRule
from weir.state.jobs import Job, Pod
from weir.state.shapes import RequestShape

_FIRSTS_MOST = 4
"""Large victims with which a gang that found no capacity is tried again."""


@dataclass(slots=True)
class PreemptionPlan:
    """Capacity found for a workload: placements, pods to stop and pods to move.

    `runner_up` is the next choice of victims for a workload that lacks one pod; None for others.
    """

    kind: PreemptionKind | None  # None: it fits the capacity after releases
    placements: list[NodePlacement]
    stopped: list[tuple[Pod, EvictionRule]] = field(default_factory=list)
    moved: list[tuple[Job, list[NodePlacement], EvictionRule]] = field(default_factory=list)
    runner_up: RunnerUp | None = None


class VictimSearch:
    """Searches victims of one kind, `within` some nodes or anywhere; a failure leaves no trace."""

    def __init__(
        self, context: PreemptionContext, candidates: VictimCandidates, within: Bools | None
    ) -> None:
        self._context = context
        self._transaction = context.transaction
        self._accounting = context.accounting
        self._overlay = context.accounting.overlay
        self._placer = context.placer
        self._capacity = context.placer.capacity
        self._pod_rules = context.placer.rules
        self._candidates = candidates
        self._rules = candidates.rules
        self._kind = candidates.kind
        self._budget = candidates.move_budget
        self._candidate = candidates.rules.candidate
        self._job = self._candidate.job
        self._has_pod_rules = any(shape.pod_rules for shape in self._job.shapes)
        self._affinity = context.affinity_of(self._job)
        self._mover = VictimMover(context, self._job)
        self._within = within
        self._nodes: dict[int, CheapestNode] = {}
        self._placements: list[NodePlacement] = []
        self._victims: list[tuple[Victim, EvictionRule]] = []  # in the order in which they were taken
        self._runner_up: RunnerUp | None = None  # the next choice of victims for its only pod
        self.fell_short = False  # all candidates together don't suffice
        self.is_final = False  # it also fails later, until a checkpoint

    def run(self) -> PreemptionPlan | None:
        """Return placements and victims; None with capacity and quota usage unchanged."""
        if not self._candidates.jobs or not self._could_suffice():
            self.fell_short = self.is_final = True
            return None
        taken = self._from(None)
        if (
            taken is None
            and self._kind in (PreemptionKind.RECLAIM, PreemptionKind.OVERRIDE)
            and sum(self._candidate.lacks) > 1
        ):
            for first in self._largest():
                taken = self._from(first)
                if taken is not None:
                    break
        if (
            taken is None
            and self._accounting.disruptions.any
            and self._kind is not PreemptionKind.CONSOLIDATE
        ):
            taken = self._thoroughly()
        return taken

    def _thoroughly(self) -> PreemptionPlan | None:
        """Try again where budgets bind: look at every set of victims on each node, by budgets and quotas.

        The victims for the first pod of a gang may use up an allowance that only the next pod can't do
        without. So a gang gets another attempt, which takes what uses up few allowances first.
        """
        self._candidates.victims = self._victims
        taken = self._from(None)
        if taken is None and sum(self._candidate.lacks) > 1:
            self._candidates.victims, self._candidates.spares_budgets = self._victims, True
            taken = self._from(None)
            self._candidates.spares_budgets = False
        self._candidates.victims = None
        return taken

    def _from(self, first: Job | None) -> PreemptionPlan | None:
        """Try once from the initial state; with `first` that workload is stopped before any other."""
        with self._transaction.trial() as trial:
            if self._stop_first(first) and self._under_limits() and self._place_all():
                self._spare()
                if not self._overtakes():
                    taken = self._settled()
                    if taken is not None:
                        trial.commit()
                        return taken
        self._placements, self._victims = [], []
        self._runner_up = None
        self._nodes.clear()
        return None

    def _largest(self) -> list[Job]:
        """Return workloads that each free capacity for several pods of a gang, the largest first.

        Of its queue smaller ones may go first until it is over no more, and leave the gang without.
        """
        each = max((pod.shape.devices for pods in self._candidate.pods().values() for pod in pods), default=0)
        sizes = {
            job: devices_of(self._context.running(job))
            for job, only_moves in self._candidates.jobs.items()
            if not only_moves
        }
        large = [job for job, devices in sizes.items() if devices > each]
        large.sort(key=lambda job: (-sizes[job], -job.submitted_s, job.name))
        return large[:_FIRSTS_MOST]

    def _stop_first(self, first: Job | None) -> bool:
        if first is not None:
            going = self._candidates.legal_order(
                self._candidates.victims_of(first, self._context.running(first))
            )
            if going is None:
                return False
            self._remove(going)
        return True

    # Bounds

    def least_price(self) -> float:
        """Return a lower bound of the price, to compare domains; infinite if it can't succeed."""
        if not self._candidates.jobs or not self._could_suffice():
            return float("inf")
        total = 0.0
        for group, pods in enumerate(self._candidate.lacks):
            if pods:
                total += self._cheapest(self._job.shapes[group]).least_price(pods)
        return total

    def _could_suffice(self) -> bool:
        """Return True if each group would fit without all candidates."""
        for group, pods in enumerate(self._candidate.lacks):
            if pods and not self._cheapest(self._job.shapes[group]).could_hold(pods):
                return False
        return True

    def _cheapest(self, shape: RequestShape) -> CheapestNode:
        found = self._nodes.get(shape.id)
        if found is None:
            self._candidates.nodes_needed = sum(self._candidate.lacks)
            mask = self._placer.ranking_of(shape, self._affinity).mask
            if self._within is not None:
                mask = mask & self._within
            most = self._budget if self._kind is PreemptionKind.CONSOLIDATE else float("inf")
            found = CheapestNode(self._pod_rules, self._capacity, self._candidates, shape, mask, most)
            self._nodes[shape.id] = found
        return found

    # Evicting

    def _under_limits(self) -> bool:
        """Stop work under every limit the workload would pass, the first to give first."""
        while (over := self._overlay.refusal(self._job, self._candidate.asks)) is not None:
            best: tuple[Tier, Victim, EvictionRule] | None = None
            for job in self._candidates.jobs:
                if over.queue in job.path:
                    for victim in self._candidates.victims_of(job, self._context.running(job)):
                        rule = self._candidates.rule(victim)
                        key = (*victim.tier, victim.price, victim.younger)
                        if (
                            rule is not None
                            and not victim.moves  # what is moved goes on counting
                            and (best is None or key < best[0])
                            and any(row == over.row for pod in victim.pods for row, _ in pod.amounts)
                        ):
                            best = (key, victim, rule)
            if best is None:
                return False
            self._remove(self._with_elastic(*best[1:]))
        return True

    def _with_elastic(self, victim: Victim, rule: EvictionRule) -> list[tuple[Victim, EvictionRule]]:
        """Return a victim with the rest of its workload, if the workload can't run without it."""
        if not victim.whole:
            return [(victim, rule)]
        return [
            (one, rule) for one in self._candidates.victims_of(victim.job, self._context.running(victim.job))
        ]

    def _place_all(self) -> bool:
        pods = self._candidate.pods()
        left = sum(len(some) for some in pods.values())
        for group in sorted(pods, key=lambda group: (-self._job.spec.groups[group].order, group)):
            for pod in pods[group]:
                self._candidates.nodes_needed = left
                placement = self._place(pod)
                if placement is None:
                    return False
                self._placements.append(placement)
                left -= 1
        return True

    def _place(self, pod: Pod) -> NodePlacement | None:
        node = self._placer.best_node(pod.shape, self._affinity, self._within)
        if node < 0:
            found = self._cheapest(pod.shape).best(
                lambda node, victims: self._replaceable(pod, node, victims), self._context.policy.search_steps
            )
            if found is None:
                gave_up = self._has_pod_rules or any(nodes.gave_up for nodes in self._nodes.values())
                self.is_final = sum(self._candidate.lacks) == 1 and not gave_up
                return None
            node, going = found
            if sum(self._candidate.lacks) == 1 and not self._victims:
                self._runner_up = self._cheapest(pod.shape).runner_up()
            self._remove(going)
            if not self._pod_rules.allows(self._capacity.columns, pod.shape, node):
                return None
        placement = self._placer.put(pod, node, self._affinity)
        for nodes in self._nodes.values():
            nodes.changed({node})
        return placement

    def _remove(self, going: Sequence[tuple[Victim, EvictionRule]]) -> None:
        touched: set[int] = set()
        for victim, rule in going:
            self._victims.append((victim, rule))
            self._transaction.stop(victim.pods)
            touched |= nodes_of(victim.pods)
        for nodes in self._nodes.values():
            nodes.changed(touched)

    def _overtakes(self) -> bool:
        """Return True if the workload would end above its victims in dominant share."""
        path = self._rules.path
        return any(
            rule is EvictionRule.RECLAIM_SHARE and self._rules.overtakes(level, victim.job.path[level])
            for victim, rule in self._victims
            for level in (divergence_level(path, victim.job.path),)
        )

    # Sparing

    def _spare(self) -> None:
        """Drop every victim whose own place is still free with the workload placed.

        Those within their quotas first, then the last taken.
        """
        for victim, _ in self._victims:
            if victim.moves:  # a moved workload goes on using quota
                self._accounting.charge(victim.pods)
        last_first = self._victims[::-1]
        for victim, rule in sorted(last_first, key=lambda victim: not victim[0].is_protected):
            whole_gone = not victim.whole and any(
                other.whole and other.job is victim.job for other, _ in self._victims
            )
            if not whole_gone and self._keep_running(victim):
                self._victims.remove((victim, rule))
        for victim, _ in self._victims:
            if victim.moves:
                self._accounting.release(victim.pods)

    def _keep_running(self, victim: Victim) -> bool:
        """Keep a victim running where it is, if all its pods still fit there."""
        with self._transaction.trial() as trial:
            for pod in victim.pods:
                if not self._own_place_free(pod):
                    return False
                self._capacity.allocate(pod.node, pod.shape, pod.devices)
            if not self._mover.allows(self._placements):
                return False
            if victim.moves:  # its usage is charged
                self._accounting.release(victim.pods)
            self._accounting.resume(victim.pods)
            if not victim.moves and self._overlay.refusal(self._job, self._candidate.asks) is not None:
                return False
            trial.commit()
        return True

    def _own_place_free(self, pod: Pod) -> bool:
        columns, shape, node = self._capacity.columns, pod.shape, pod.node
        if any(columns.free[row, node] < amount for row, amount in shape.needs):
            return False
        device_memory = int(self._capacity.device_memory[node])
        milli, each = shape.share_on(device_memory), shape.memory_on(device_memory)
        share, memory = columns.share[node], columns.memory[node]
        return all(share[device] >= milli and memory[device] >= each for device in pod.devices)

    # Moving

    def _replaceable(self, pod: Pod, node: int, chosen: Sequence[Victim]) -> bool:
        """Return True if the pod may use the node, and every victim to be moved finds a new place."""
        if pod.shape.pod_rules and not self._opens(pod, node, chosen):
            return False
        moving = [victim for victim in chosen if victim.moves]
        if not moving:
            return True
        victims = [*moving, *(victim for victim, _ in self._victims)]
        moves = sum(len(victim.pods) for victim in victims)
        if moves > self._context.policy.consolidation.max_moves:
            return False
        if (
            self._kind is PreemptionKind.CONSOLIDATE
            and sum(victim.price for victim in victims) > self._budget
        ):
            return False  # beside evictions, the budget holds for each move alone
        with self._transaction.trial():
            for victim in chosen:
                self._transaction.release_capacity(victim.here)
            self._placer.put(pod, node, self._affinity)
            return all(self._mover.move(victim, self._placements) is not None for victim in moving)

    def _opens(self, pod: Pod, node: int, chosen: Sequence[Victim]) -> bool:
        """Return True if pod affinity allows the node without these victims."""
        with self._transaction.trial():
            for victim in chosen:
                self._transaction.release_capacity(victim.pods)
            return self._pod_rules.allows(self._capacity.columns, pod.shape, node)

    def _settled(self) -> PreemptionPlan | None:
        """Move victims that fit elsewhere and stop the others.

        Victims that may only move come first, since they go on using quota; then minima before elastic pods.
        """
        taken = PreemptionPlan(self._kind, self._placements, runner_up=self._runner_up)
        self._accounting.start(self._placements)
        stopped: set[Job] = set()
        for victim, rule in sorted(self._victims, key=lambda each: (not each[0].moves, not each[0].whole)):
            placements = None
            if victim.job not in stopped and (victim.moves or self._may_move(victim)):
                placements = self._mover.move(victim, self._placements)
            if placements is not None:
                self._accounting.start(placements)
                taken.moved.append((victim.job, placements, rule))
            elif victim.moves:
                return None
            else:
                stopped.add(victim.job)
                taken.stopped += [(pod, rule) for pod in victim.pods]
        return taken

    def _may_move(self, victim: Victim) -> bool:
        total: dict[int, int] = {}
        for pod in victim.pods:
            for row, amount in pod.amounts:
                total[row] = total.get(row, 0) + amount
        asks = tuple(total.items())
        return self._context.checks.move_refusal(victim.job, asks, self._capacity) is None
