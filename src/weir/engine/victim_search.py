"""Victim search: free capacity for one workload in one trial, completely or not at all.

Each pod that lacks room goes where room is made most cheaply. Then what turned out not to be needed is
given back, and whoever fits elsewhere is moved instead of stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from weir.engine.cheapest_node import CheapestNode, nodes_of
from weir.engine.eviction_price import devices_of
from weir.engine.feasibility import Bools
from weir.engine.placer import NodePlacement
from weir.engine.preemption_context import PreemptionContext
from weir.engine.preemption_rules import PreemptionKind, PreemptionRules, divergence_level
from weir.engine.queue_order import Candidate
from weir.engine.topology_levels import missing_topology
from weir.engine.topology_placer import TopologyPlacer
from weir.engine.victim_candidates import VictimCandidates, charge_pods
from weir.engine.victim_sets import Tier, Victim
from weir.model.policy import AffinityPolicy
from weir.model.reasons import EvictionRule
from weir.state.jobs import Job, Pod
from weir.state.shapes import RequestShape

_FIRSTS_MOST = 4
"""Large victims with which a gang that found no room is tried again."""


@dataclass(slots=True)
class PreemptionPlan:
    """Capacity found for a workload: placements, pods to stop and pods to move."""

    kind: PreemptionKind | None  # None: it fits in room already being freed
    spots: list[NodePlacement]
    stopped: list[tuple[Pod, EvictionRule]] = field(default_factory=list)
    moved: list[tuple[Job, list[NodePlacement], EvictionRule]] = field(default_factory=list)


class VictimSearch:
    """Searches victims of one kind, `within` some nodes or anywhere; a failure leaves no trace."""

    def __init__(
        self,
        bench: PreemptionContext,
        candidate: Candidate,
        claims: PreemptionRules,
        reach: VictimCandidates,
        affinity: tuple[AffinityPolicy, ...],
        within: Bools | None,
    ) -> None:
        self._bench = bench
        self._books = bench.books
        self._placer = bench.placer
        self._room = bench.placer.room
        self._rules = bench.placer.rules
        self._candidate = candidate
        self._job = candidate.job
        self._is_ruled = any(shape.pod_rules for shape in candidate.job.shapes)
        self._claims = claims
        self._kind = reach.kind
        self._affinity = affinity
        self._within = within
        self._budget = reach.move_budget
        self._reach = reach
        self._nodes: dict[int, CheapestNode] = {}
        self._spots: list[NodePlacement] = []
        self._victims: list[tuple[Victim, EvictionRule]] = []  # in the order in which they were taken
        self.fell_short = False  # everyone within reach together didn't suffice
        self.is_final = False  # or nobody found a place whom it could move: so it stays till one saves

    def run(self) -> PreemptionPlan | None:
        """Return placements and victims; None with capacity and quota usage unchanged."""
        if not self._reach.jobs or not self._could_suffice():
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
        if taken is None and self._bench.disruptions.any and self._kind is not PreemptionKind.CONSOLIDATE:
            taken = self._thoroughly()
        return taken

    def _thoroughly(self) -> PreemptionPlan | None:
        """Try again where budgets bind: look at every set of victims on each node, by budgets and quotas."""
        self._reach.victims = self._victims
        taken = self._from(None)
        self._reach.victims = None
        return taken

    def _from(self, first: Job | None) -> PreemptionPlan | None:
        """Try once from the initial state; with `first` that workload is stopped before any other."""
        self._room.try_out()
        if self._goes(first) and self._under_limits() and self._place_all():
            self._spare()
            if not self._overtakes():
                taken = self._settled()
                if taken is not None:
                    self._room.keep()
                    self._bench.gone |= self._reach.taken
                    return taken
        self._room.drop()
        for unit, _ in self._victims:
            self._reach.count(unit.pods, -1)
        self._spots, self._victims = [], []
        self._reach.taken.clear()
        self._nodes.clear()
        return None

    def _largest(self) -> list[Job]:
        """Return workloads that each free capacity for several pods of a gang, the largest first.

        Of its queue smaller ones may go first until it is over no more, and leave the gang without.
        """
        each = max((pod.shape.devices for pods in self._candidate.pods().values() for pod in pods), default=0)
        sizes = {
            job: devices_of(self._reach.running(job))
            for job, only_moves in self._reach.jobs.items()
            if not only_moves
        }
        large = [job for job, devices in sizes.items() if devices > each]
        large.sort(key=lambda job: (-sizes[job], -job.submitted_s, job.name))
        return large[:_FIRSTS_MOST]

    def _goes(self, first: Job | None) -> bool:
        if first is not None:
            going = self._reach.legal_order(self._reach.units_of(first, self._reach.running(first)))
            if going is None:
                return False
            self._remove(going)
        return True

    # Bound first

    def least_price(self) -> float:
        """Return a lower bound of the price, to compare domains; infinite if it can't succeed."""
        if not self._reach.jobs or not self._could_suffice():
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
            self._reach.nodes_needed = sum(self._candidate.lacks)
            mask = self._placer.ranking_of(shape, self._affinity).mask
            if self._within is not None:
                mask = mask & self._within
            most = self._budget if self._kind is PreemptionKind.CONSOLIDATE else float("inf")
            found = CheapestNode(self._rules, self._room, self._reach, shape, mask, most)
            self._nodes[shape.id] = found
        return found

    # Taking

    def _under_limits(self) -> bool:
        """Stop work under every limit the workload would pass, the first to give first."""
        while (over := self._books.over_limit(self._job.path, self._candidate.asks)) is not None:
            best: tuple[Tier, Victim, EvictionRule] | None = None
            for job in self._reach.jobs:
                if over.queue in job.path:
                    for unit in self._reach.units_of(job, self._reach.running(job)):
                        rule = self._reach.rule(unit)
                        key = (*unit.tier, unit.price, unit.younger)
                        if (
                            rule is not None
                            and not unit.moves  # what is moved goes on counting
                            and (best is None or key < best[0])
                            and any(row == over.row for pod in unit.pods for row, _ in pod.amounts)
                        ):
                            best = (key, unit, rule)
            if best is None:
                return False
            self._remove(self._with_elastic(*best[1:]))
        return True

    def _with_elastic(self, unit: Victim, rule: EvictionRule) -> list[tuple[Victim, EvictionRule]]:
        """Return a victim with the rest of its workload, if the workload can't run without it."""
        if not unit.whole:
            return [(unit, rule)]
        return [(one, rule) for one in self._reach.units_of(unit.job, self._reach.running(unit.job))]

    def _place_all(self) -> bool:
        pods = self._candidate.pods()
        left = sum(len(some) for some in pods.values())
        for group in sorted(pods, key=lambda group: (-self._job.spec.groups[group].order, group)):
            for pod in pods[group]:
                self._reach.nodes_needed = left
                spot = self._place(pod)
                if spot is None:
                    return False
                self._spots.append(spot)
                left -= 1
        return True

    def _place(self, pod: Pod) -> NodePlacement | None:
        node = self._placer.best_node(pod.shape, self._affinity, self._within)
        if node < 0:
            found = self._cheapest(pod.shape).best(
                lambda node, units: self._replaceable(pod, node, units), self._bench.policy.search_steps
            )
            if found is None:
                gave_up = self._is_ruled or any(nodes.gave_up for nodes in self._nodes.values())
                self.is_final = sum(self._candidate.lacks) == 1 and not gave_up
                return None
            node, going = found
            self._remove(going)
            if not self._rules.allows(self._room.columns, pod.shape, node):
                return None
        spot = self._placer.put(pod, node, self._affinity)
        for nodes in self._nodes.values():
            nodes.changed({node})
        return spot

    def _remove(self, going: Sequence[tuple[Victim, EvictionRule]]) -> None:
        touched: set[int] = set()
        for unit, rule in going:
            self._victims.append((unit, rule))
            self._reach.count(unit.pods, 1)
            self._reach.taken.update(unit.pods)
            for pod in unit.pods:
                self._room.give(pod.node, pod.shape, pod.devices)
            touched |= nodes_of(unit.pods)
        for nodes in self._nodes.values():
            nodes.changed(touched)

    def _overtakes(self) -> bool:
        """Return True if the workload would end above its victims in dominant share."""
        path = self._claims.path
        return any(
            rule is EvictionRule.RECLAIM_SHARE and self._claims.overtakes(level, unit.job.path[level])
            for unit, rule in self._victims
            for level in (divergence_level(path, unit.job.path),)
        )

    # Giving back

    def _spare(self) -> None:
        """Drop every victim whose own place is still free with the workload placed.

        Those within their quotas first, then the last taken.
        """
        self._count_moving(1)  # what is moved goes on counting
        last_first = self._victims[::-1]
        for unit, rule in sorted(last_first, key=lambda victim: not victim[0].is_protected):
            whole_gone = not unit.whole and any(
                other.whole and other.job is unit.job for other, _ in self._victims
            )
            if not whole_gone and self._take_back(unit):
                self._victims.remove((unit, rule))
                self._reach.taken.difference_update(unit.pods)
        self._count_moving(-1)

    def _count_moving(self, sign: int) -> None:
        for unit, _ in self._victims:
            if unit.moves:
                charge_pods(self._books, unit.pods, sign)

    def _take_back(self, unit: Victim) -> bool:
        """Keep a victim running where it is, if all its pods still fit there."""
        self._room.try_out()
        for pod in unit.pods:
            if not self._own_place_free(pod):
                self._room.drop()
                return False
            self._room.take(pod.node, pod.shape, pod.devices)
        if self._is_ruled and not self._stay():
            self._room.drop()
            return False
        if not unit.moves:
            charge_pods(self._books, unit.pods, 1)
            if self._books.over_limit(self._job.path, self._candidate.asks) is not None:
                charge_pods(self._books, unit.pods, -1)
                self._room.drop()
                return False
        self._room.keep()
        self._bench.disruptions.count(unit.pods, -1)
        return True

    def _stay(self) -> bool:
        """Return True if pod affinity still allows the placements."""
        columns = self._room.columns
        return all(self._rules.stays(columns, spot.pod.shape, spot.node) for spot in self._spots)

    def _own_place_free(self, pod: Pod) -> bool:
        columns, shape, node = self._room.columns, pod.shape, pod.node
        if any(columns.free[row, node] < amount for row, amount in shape.needs):
            return False
        device_memory = int(self._room.device_memory[node])
        milli, each = shape.share_on(device_memory), shape.memory_on(device_memory)
        share, memory = columns.share[node], columns.memory[node]
        return all(share[device] >= milli and memory[device] >= each for device in pod.devices)

    # Moving

    def _replaceable(self, pod: Pod, node: int, chosen: Sequence[Victim]) -> bool:
        """Return True if the pod may use the node, and every victim to be moved finds a new place."""
        if pod.shape.pod_rules and not self._opens(pod, node, chosen):
            return False
        moving = [unit for unit in chosen if unit.moves]
        if not moving:
            return True
        units = [*moving, *(unit for unit, _ in self._victims)]
        moves = sum(len(unit.pods) for unit in units)
        if moves > self._bench.policy.consolidation.max_moves:
            return False
        if self._kind is PreemptionKind.CONSOLIDATE and sum(unit.price for unit in units) > self._budget:
            return False  # beside a take, where room is owed, the budget holds for each move only
        self._room.try_out()
        for unit in chosen:
            for other in unit.here:
                self._room.give(other.node, other.shape, other.devices)
        self._placer.put(pod, node, self._affinity)
        ok = all(self._move(unit) is not None for unit in moving)
        self._room.drop()
        return ok

    def _opens(self, pod: Pod, node: int, chosen: Sequence[Victim]) -> bool:
        """Return True if pod affinity allows the node without these victims."""
        self._room.try_out()
        for unit in chosen:
            for other in unit.pods:
                self._room.give(other.node, other.shape, other.devices)
        open_ = self._rules.allows(self._room.columns, pod.shape, node)
        self._room.drop()
        return open_

    def _move(self, unit: Victim) -> list[NodePlacement] | None:
        """Return new placements for a victim's pods that keep the placed pods' affinity."""
        spots = self._moved(unit)
        if spots is not None and self._is_ruled and not self._stay():
            self._placer.give_back(spots)
            return None
        return spots

    def _moved(self, unit: Victim) -> list[NodePlacement] | None:
        if unit.job.topology is not None:
            return self._move_as_asked(unit)
        spots: list[NodePlacement] = []
        affinity = self._bench.affinity_of(unit.job)
        for pod in sorted(unit.pods, key=lambda pod: (pod.group, pod.index)):
            node = self._placer.best_node(pod.shape, affinity)
            if node < 0:
                self._placer.give_back(spots)
                return None
            spots.append(self._placer.put(pod, node, affinity))
        return spots

    def _move_as_asked(self, unit: Victim) -> list[NodePlacement] | None:
        """Return new placements in one domain of its level, with its pods that stay."""
        job, topology = unit.job, unit.job.topology
        assert topology is not None
        pods: dict[int, list[Pod]] = {}
        for pod in sorted(unit.pods, key=lambda pod: (pod.group, pod.index)):
            pods.setdefault(pod.group, []).append(pod)
        bench = self._bench
        if missing_topology(bench.cluster.topologies, topology) is not None:
            return None  # it stays together where it is
        whole = len(unit.pods) == sum(job.placed)
        levels = bench.levels_of(topology.name)
        site = TopologyPlacer(self._placer, job, bench.affinity_of(job), levels, moves=whole)
        return site.place(pods, scattered=False)

    def _settled(self) -> PreemptionPlan | None:
        """Move victims that fit elsewhere and stop the others.

        Those first that may only move, since they go on counting; then minima before the rest.
        """
        taken = PreemptionPlan(self._kind, self._spots)
        bench = self._bench
        bench.count(self._spots, 1)
        stopped: set[Job] = set()
        for unit, rule in sorted(self._victims, key=lambda each: (not each[0].moves, not each[0].whole)):
            spots = None
            if unit.job not in stopped and (unit.moves or self._passes_gates(unit)):
                spots = self._move(unit)
            if spots is not None:
                bench.count(spots, 1)
                taken.moved.append((unit.job, spots, rule))
            elif unit.moves:
                bench.count(self._spots, -1)
                for _, moved, _ in taken.moved:
                    bench.count(moved, -1)
                return None
            else:
                stopped.add(unit.job)
                taken.stopped += [(pod, rule) for pod in unit.pods]
        return taken

    def _passes_gates(self, unit: Victim) -> bool:
        total: dict[int, int] = {}
        for pod in unit.pods:
            for row, amount in pod.amounts:
                total[row] = total.get(row, 0) + amount
        asks = tuple(total.items())
        if self._books.over_limit(unit.job.path, asks) is not None:
            return False
        return self._bench.keeps_headroom(unit.job, asks)
