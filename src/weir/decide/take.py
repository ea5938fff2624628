"""Taking room for a workload that found none: consolidate, reclaim, preempt.

For each pod that lacks room the nodes are compared by the cheapest set of victims on each; the best
is taken, and the next pod sees what that left. What turns out not to be needed is given back, what
fits elsewhere is moved instead of stopped. All of it happens in one trial on the room after releases.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from weir.cluster.jobs import Job, Phase, Pod
from weir.cluster.reduce import holding
from weir.cluster.shapes import GPU_ROW, Shape
from weir.cluster.state import Cluster
from weir.decide.books import Books
from weir.decide.claims import Claims, Kind, parting, past_minimum
from weir.decide.fit import Bools, copies
from weir.decide.order import Candidate
from weir.decide.place import Placer, Spot
from weir.decide.plan import Refusal
from weir.decide.price import price
from weir.decide.victims import Tier, Unit, sets
from weir.model.policy import Affinity, Policy
from weir.model.reasons import Rule, Why


@dataclass(slots=True)
class Taken:
    """Room found for a workload: its places, who is stopped for it, and who is moved where."""

    kind: Kind | None  # None: it fits in room already being freed
    spots: list[Spot]
    stopped: list[tuple[Pod, Rule]] = field(default_factory=list)
    moved: list[tuple[Job, list[Spot], Rule]] = field(default_factory=list)


class Taker:
    """Takes room in one cycle. `gone` are pods already stopped or moved in this plan."""

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        books: Books,
        placer: Placer,
        affinity_of: Callable[[Job], tuple[Affinity, ...]],
        now_s: float,
    ) -> None:
        self.cluster = cluster
        self.policy = policy
        self.books = books
        self.placer = placer
        self.affinity_of = affinity_of
        self.now_s = now_s
        self.gone: set[Pod] = set()

    def take(self, candidate: Candidate, affinity: tuple[Affinity, ...], within: Bools | None) -> Taken | Refusal:
        """Make room for a workload, or say why not."""
        job = candidate.job
        if not job.spec.preemptible:
            refusal = self.books.fixed_over_quota(job.path, candidate.asks)
            if refusal is not None:
                return refusal
        over = self.books.over_limit(job.path, candidate.asks)
        if over is None:
            spots = self.placer.place(job, candidate.pods(), affinity, within)
            if spots is not None:
                self.count(spots, 1)
                return Taken(None, spots)
        claims = Claims(self.books, self.policy, candidate, self.now_s)
        for kind in self._kinds(claims, over):
            attempt = Attempt(self, candidate, claims, kind, affinity, within)
            taken = attempt.run()
            if taken is not None:
                return taken
        return over or Refusal(Why.NO_ROOM)

    def _kinds(self, claims: Claims, over: Refusal | None) -> Iterator[Kind]:
        job = claims.job
        if (
            over is None
            and self.policy.consolidation.enabled
            and (job.spec.preemptible or self.books.entitled(job.path, claims.asks))
        ):
            yield Kind.CONSOLIDATE
        if claims.any_reclaim:
            yield Kind.RECLAIM
        lower = self.cluster.priorities.get(job.project)
        if lower and min(lower) < job.spec.priority:
            yield Kind.PREEMPT

    def count(self, spots: Sequence[Spot], sign: int) -> None:
        """Count pods in the books as placed there (sign -1: no more)."""
        for pod, node, _ in spots:
            job = pod.job
            amounts = holding(self.cluster, pod.shape, node)
            self.books.add(job.path, amounts, not job.spec.preemptible, sign)


class Attempt:
    """One kind of take for one workload."""

    def __init__(
        self,
        taker: Taker,
        candidate: Candidate,
        claims: Claims,
        kind: Kind,
        affinity: tuple[Affinity, ...],
        within: Bools | None,
    ) -> None:
        self.taker = taker
        self.cluster = taker.cluster
        self.policy = taker.policy
        self.books = taker.books
        self.placer = taker.placer
        self.room = taker.placer.room
        self.candidate = candidate
        self.job = candidate.job
        self.claims = claims
        self.kind = kind
        self.affinity = affinity
        self.within = within
        self.spots: list[Spot] = []
        self.victims: list[tuple[Unit, Rule]] = []  # in the order in which they were taken
        self.taken: set[Pod] = set()
        self._reach = dict.fromkeys(self._within_reach())

    # Who may be asked at all

    def _within_reach(self) -> list[Job]:
        """Running preemptible workloads that may be taken from, at the latest when others are gone."""
        if self.kind is Kind.CONSOLIDATE:
            return [job for project in self.cluster.running for job in self._of_project(project)]
        if self.kind is Kind.PREEMPT:
            return [
                job
                for job in self._of_project(self.job.project)
                if job.spec.priority < self.job.spec.priority
            ]
        found: list[Job] = []
        lifted: list[Pod] = []
        asked = [project for project in self.cluster.running if project != self.job.project]
        while more := [project for project in asked if self._may_ask(project)]:
            for project in more:
                asked.remove(project)
                jobs = self._of_project(project)
                found += jobs
                pods = [pod for job in jobs for pod in self._running(job)]
                self._count_pods(pods, -1)
                lifted += pods
        self._count_pods(lifted, 1)
        return found

    def _may_ask(self, project: int) -> bool:
        path = self.cluster.ledger.path[project]
        level = parting(self.claims.path, path)
        return self.claims.rule_from(level, path[level]) is not None

    def _running(self, job: Job) -> list[Pod]:
        """Pods of a job that this plan leaves running so far."""
        gone, taken = self.taker.gone, self.taken
        return [pod for pod in job.running_pods() if pod not in taken and pod not in gone]

    def _of_project(self, project: int) -> list[Job]:
        return [
            job
            for job in self.cluster.running[project].values()
            if job.spec.preemptible
            and job is not self.job
            and past_minimum(job, self.policy, self.taker.now_s)
            and not self._would_alternate(job)
        ]

    def _would_alternate(self, victim: Job) -> bool:
        """Whether the asker was itself stopped for this workload, not long ago."""
        at_s = self.job.stopped_for.get(victim.spec.name)
        return at_s is not None and self.taker.now_s - at_s < self.policy.reserve_after

    def _bound(self) -> bool:
        """Whether there were room if everyone within reach were gone."""
        needed = dict(self.candidate.asks)
        milli = needed.get(GPU_ROW, 0)
        if milli:
            held = sum(
                amount
                for job in self._reach
                for pod in self._running(job)
                for row, amount in pod.amounts
                if row == GPU_ROW
            )
            if self.room.free_gpu_milli() + (held if self.kind is not Kind.CONSOLIDATE else 0) < milli:
                return False
        columns = self.room.columns.copy()
        for job in self._reach:
            for pod in self._running(job):
                columns.hold(pod.node, pod.shape, pod.devices, int(self.room.device_memory[pod.node]), -1)
        whole = np.count_nonzero(columns.share == 1000, axis=1).astype(np.int64)
        for group, pods in enumerate(self.candidate.lacks):
            if pods:
                shape = self.job.shapes[group]
                count = copies(columns, whole, self.room.device_memory, shape)
                if int(count[self._open_nodes(shape)].sum()) < pods:
                    return False
        return True

    def _open_nodes(self, shape: Shape) -> Bools:
        mask = self.placer.ranking_of(shape, self.affinity).mask
        return mask if self.within is None else mask & self.within

    # The attempt

    def run(self) -> Taken | None:
        """Places and victims, or None with room and books as they were."""
        if not self._reach or not self._bound():
            return None
        self.room.try_out()
        if self._under_limits() and self._place_all():
            self._spare()
            if self._may_overtake():
                taken = self._settled()
                if taken is not None:
                    self.room.keep()
                    return taken
        self._forget()
        return None

    def _forget(self) -> None:
        self.room.drop()
        for unit, _ in self.victims:
            self._count_pods(unit.pods, 1)

    def _under_limits(self) -> bool:
        """Stop work under every limit the workload would pass, the first to give first."""
        while (over := self.books.over_limit(self.job.path, self.candidate.asks)) is not None:
            best: tuple[Tier, Unit, Rule] | None = None
            for job in self._reach:
                if over.queue in job.path and job.spec.preemptible:
                    for unit in self._units_of(job, self._running(job)):
                        rule = self._rule(unit)
                        if rule is not None and any(
                            row == over.row for pod in unit.pods for row, _ in pod.amounts
                        ):
                            key = (*unit.tier, unit.price, unit.younger)
                            if best is None or key < best[0]:
                                best = (key, unit, rule)
            if best is None:
                return False
            self._remove(best[1], best[2])
        return True

    def _place_all(self) -> bool:
        pods = self.candidate.pods()
        for group in sorted(pods, key=lambda group: (-self.job.spec.groups[group].order, group)):
            for pod in pods[group]:
                spot = self._place(pod)
                if spot is None:
                    return False
                self.spots.append(spot)
        return True

    def _place(self, pod: Pod) -> Spot | None:
        shape = pod.shape
        node = self.placer.best_node(shape, self.affinity, self.within)
        if node >= 0:
            return self.placer.put(pod, node)
        best: tuple[tuple[object, ...], int, list[tuple[Unit, Rule]]] | None = None
        for node in self._nodes_to_try(shape):
            units = self._units_on(node)
            for key, chosen in sets(self.room, node, shape, units):
                if best is not None and key >= best[0]:
                    break
                going = self._legal(chosen)
                if going is not None and self._replaceable(pod, node, chosen):
                    best = (key, node, going)
                    break
        if best is None:
            return None
        for unit, rule in best[2]:
            self._remove(unit, rule)
        return self.placer.put(pod, best[1])

    def _nodes_to_try(self, shape: Shape) -> list[int]:
        held = {pod.node for job in self._reach for pod in self._running(job)}
        open_ = self._open_nodes(shape)
        return sorted(node for node in held if open_[node])

    # Units

    def _units_on(self, node: int) -> list[Unit]:
        here: dict[Job, list[Pod]] = {}
        for pod in self.cluster.pods_on[node]:
            if pod.phase is Phase.RUNNING and pod not in self.taken and pod not in self.taker.gone:
                here.setdefault(pod.job, []).append(pod)
        units: list[Unit] = []
        for job, pods in here.items():
            if job in self._reach:
                units += self._units_of(job, pods)
        return units

    def _units_of(self, job: Job, here: list[Pod]) -> list[Unit]:
        """Elastic pods one at a time, then the workload as a whole."""
        if self.kind is Kind.CONSOLIDATE:
            return [Unit((), self._price(job, here), job, tuple(here), tuple(here), False, moves=True)]
        units = []
        running = self._running(job)
        spare = [0] * len(job.needed)
        for pod in running:
            spare[pod.group] += 1
        spare = [max(0, have - need) for have, need in zip(spare, job.needed, strict=True)]
        elastic: set[Pod] = set()
        for pod in sorted(here, key=lambda pod: (job.spec.groups[pod.group].order, -pod.group, -pod.index)):
            if spare[pod.group] > 0:
                spare[pod.group] -= 1
                elastic.add(pod)
                units.append(
                    Unit(self._tier(job, [pod], 0), self._price(job, [pod]), job, (pod,), (pod,), False)
                )
        if len(elastic) < len(here):
            rest = [pod for pod in running if pod not in elastic]
            staying = tuple(pod for pod in here if pod not in elastic)
            tier = self._tier(job, rest, 1)
            units.append(Unit(tier, self._price(job, rest), job, tuple(rest), staying, True))
        return units

    def _price(self, job: Job, pods: Sequence[Pod]) -> float:
        return price(job, pods, self.policy.price, self.taker.now_s)

    def _tier(self, job: Job, pods: Sequence[Pod], minimum: int) -> Tier:
        if self.policy.victims == "cheap":
            return (job.spec.priority, minimum)
        giving = tuple(self.books.giving_key(queue) for queue in job.path)
        freed: dict[int, int] = {}
        for pod in pods:
            for row, amount in pod.amounts:
                freed[row] = freed.get(row, 0) + amount
        own = job.project
        held, share = self.books.held[own], self.books.share[own]
        asked = dict(self.claims.asks)
        below = any(
            held[row] - freed.get(row, 0) < share[row] - 1e-6
            for row, _ in self.books.ledger.bounded[own]
            if asked.get(row)
        )
        return (giving, job.spec.priority, minimum, below)

    # Legality

    def _rule(self, unit: Unit) -> Rule | None:
        if self.kind is Kind.CONSOLIDATE:
            return Rule.CONSOLIDATE
        return self.claims.rule_for(unit.job)

    def _legal(self, units: Sequence[Unit]) -> list[tuple[Unit, Rule]] | None:
        """An order in which they may go, each asked when those before it are gone; None if there is none.

        Those nearer to the asker in the tree go first, since they make room in its own queues.
        """
        going: list[tuple[Unit, Rule]] = []
        left = sorted(units, key=lambda unit: -parting(self.claims.path, unit.job.path))
        while left:
            for unit in left:
                rule = self._rule(unit)
                if rule is not None:
                    going.append((unit, rule))
                    left.remove(unit)
                    self._count_pods(unit.pods, -1)
                    break
            else:
                break
        for unit, _ in going:
            self._count_pods(unit.pods, 1)
        return None if left else going

    def _may_overtake(self) -> bool:
        return not any(
            rule is Rule.RECLAIM_SHARE
            and self.claims.overtakes(level, unit.job.path[level])
            for unit, rule in self.victims
            for level in (parting(self.claims.path, unit.job.path),)
        )

    # Doing and giving back

    def _count_pods(self, pods: Sequence[Pod], sign: int) -> None:
        for pod in pods:
            self.books.add(pod.job.path, pod.amounts, not pod.job.spec.preemptible, sign)

    def _remove(self, unit: Unit, rule: Rule) -> None:
        self.victims.append((unit, rule))
        self._count_pods(unit.pods, -1)
        for pod in unit.pods:
            self.taken.add(pod)
            self.room.give(pod.node, pod.shape, pod.devices)

    def _spare(self) -> None:
        """Give back every victim whose own place is still free with the workload placed."""
        for unit, rule in list(reversed(self.victims)):
            if not unit.whole and any(other.whole and other.job is unit.job for other, _ in self.victims):
                continue
            if not all(self._own_place_free(pod) for pod in unit.pods):
                continue
            self._count_pods(unit.pods, 1)
            if self.books.over_limit(self.job.path, self.candidate.asks) is not None:
                self._count_pods(unit.pods, -1)
                continue
            self.victims.remove((unit, rule))
            for pod in unit.pods:
                self.taken.discard(pod)
                self.room.take(pod.node, pod.shape, pod.devices)

    def _own_place_free(self, pod: Pod) -> bool:
        columns, shape, node = self.room.columns, pod.shape, pod.node
        if any(columns.free[row, node] < amount for row, amount in shape.needs):
            return False
        device_memory = int(self.room.device_memory[node])
        milli, each = shape.share_on(device_memory), shape.memory_on(device_memory)
        return all(
            columns.share[node, device] >= milli and columns.memory[node, device] >= each
            for device in pod.devices
        )

    # Moves

    def _replaceable(self, pod: Pod, node: int, chosen: Sequence[Unit]) -> bool:
        """Whether every unit that may only move finds a new place once the pod is on the node."""
        moving = [unit for unit in chosen if unit.moves]
        if not moving:
            return True
        moves = sum(len(unit.pods) for unit in moving) + sum(len(unit.pods) for unit, _ in self.victims)
        cost = sum(unit.price for unit in moving) + sum(unit.price for unit, _ in self.victims)
        rules = self.policy.consolidation
        if moves > rules.max_moves or cost > rules.budget * moves:
            return False
        self.room.try_out()
        for unit in chosen:
            for other in unit.here:
                self.room.give(other.node, other.shape, other.devices)
        self.placer.put(pod, node)
        ok = all(self._move(unit) is not None for unit in moving)
        self.room.drop()
        return ok

    def _move(self, unit: Unit) -> list[Spot] | None:
        """New places for all pods of a unit."""
        spots: list[Spot] = []
        affinity = self.taker.affinity_of(unit.job)
        for pod in sorted(unit.pods, key=lambda pod: (pod.group, pod.index)):
            node = self.placer.best_node(pod.shape, affinity, None)
            if node < 0:
                self.placer.give_back(spots)
                return None
            spots.append(self.placer.put(pod, node))
        return spots

    def _settled(self) -> Taken | None:
        """Move whom there is room for elsewhere, a workload's minimum before the rest; stop the others."""
        taken = Taken(self.kind, self.spots)
        self.taker.count(self.spots, 1)
        stopped: set[Job] = set()
        for unit, rule in sorted(self.victims, key=lambda victim: not victim[0].whole):
            asks = _summed([amount for pod in unit.pods for amount in pod.amounts])
            spots = None
            if unit.job not in stopped and (
                unit.moves or self.books.over_limit(unit.job.path, asks) is None
            ):
                spots = self._move(unit)
            if spots is not None:
                self.taker.count(spots, 1)
                taken.moved.append((unit.job, spots, rule))
            elif unit.moves:
                self.taker.count(self.spots, -1)
                for _, moved_spots, _ in taken.moved:
                    self.taker.count(moved_spots, -1)
                return None
            else:
                stopped.add(unit.job)
                taken.stopped += [(pod, rule) for pod in unit.pods]
        self.taker.gone |= self.taken
        return taken


def _summed(amounts: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    total: dict[int, int] = {}
    for row, amount in amounts:
        total[row] = total.get(row, 0) + amount
    return tuple(total.items())
