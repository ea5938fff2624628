"""What taking could bring at best, over all nodes at once, before anybody is looked into.

These are bounds: what is refused here would be refused in the end, and what isn't may be. They hold where
nobody shares devices; elsewhere they say nothing.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from weir.cluster.columns import Ints
from weir.cluster.jobs import Job
from weir.cluster.running import Floats
from weir.cluster.shapes import GPU_ROW
from weir.decide.bench import Bench
from weir.decide.bounds import least_prices
from weir.decide.claims import Claims
from weir.decide.domains import Level
from weir.decide.fit import Bools
from weir.decide.memo import Moves
from weir.decide.serve import Server
from weir.model.workloads import WHOLE_MILLI


class Outlook:
    """What could be brought about in one cycle."""

    def __init__(self, server: Server) -> None:
        self._cluster = server.cluster
        self._policy = server.policy
        self._books = server.books
        self._memo = server.memo
        self._room = server.room
        self._now_s = server.now_s
        self._movable: dict[tuple[float, bool], tuple[Ints, Ints, Floats]] = {}
        self._prices: dict[tuple[int, float, bool], Floats] = {}
        self._bounds: dict[Moves, bool] = {}  # whether they could suffice

    @cached_property
    def _shares_devices(self) -> bool:
        """Whether any work holds parts of devices, or asks for them."""
        return any(self._cluster.ledger.sharing[queue] for queue in self._cluster.ledger.top)

    def could_reclaim(self, claims: Claims, lacks: Sequence[int], bench: Bench) -> bool:
        """Whether there were room if all were gone that it may take from, and all that is cheap to move."""
        if self._shares_devices:
            return True
        rules, running = self._policy, self._cluster.running_pods
        whole = bench.placer.room.whole
        budget = -1.0
        if rules.consolidation.enabled:
            budget = rules.consolidation.budget
            if claims.job.spec.topology is not None:
                budget = max(budget, rules.topology.budget)
        spares = rules.consolidation.spares_owners and not claims.is_owner
        node, devices = running.takeable_whole(
            self._asked(claims),
            self._now_s,
            budget,
            rules.price.restart,
            int(whole.max(initial=0)),
            self._lent if spares else None,
        )
        together = whole + np.bincount(node, devices, len(whole)).astype(np.int64)
        affinity = bench.affinity_of(claims.job)
        for shape, lack in zip(claims.job.shapes, lacks, strict=True):
            if lack and shape.whole and shape.devices:
                may = self._memo.allowed(self._cluster, shape, affinity)[0]
                if int((together[may] // shape.devices).sum()) < lack:
                    return False
        return True

    def _asked(self, claims: Claims) -> Bools:
        """Which projects it may take from; in a deep tree, where one that gives opens others, all."""
        path = self._cluster.ledger.path
        asked = np.ones(len(path), np.bool_)
        if len(claims.path) == 1:
            for project in self._cluster.running:
                asked[project] = project != claims.path[-1] and claims.may_ask(path[project])
        return asked

    def could_move(self, job: Job, lacks: Sequence[int], moves: Moves) -> bool:
        """Whether room for it could be made within the budget, were there a place for all that moves."""
        found = self._bounds.get(moves)
        if found is None:
            _, _, scattered, _, spares = moves
            found = not self._stays_in_vain(job, lacks, moves)
            found = found and self._bound_of_moves(job, lacks, scattered, spares)
            self._bounds[moves] = found
            if not found:
                self._memo.moves_in_vain[moves] = self._cluster.saves
        return found

    def _stays_in_vain(self, job: Job, lacks: Sequence[int], moves: Moves) -> bool:
        """Whether moves that didn't suffice in this quiet time don't by now: prices rise till one saves."""
        known, spares = self._memo.moves_in_vain.get(moves), moves[-1]
        new = 0 if known is None else self._cluster.saves - known
        if known is None or new > len(self._cluster.saved):
            return False
        least = min(shape.devices for shape, lack in zip(job.shapes, lacks, strict=True) if lack)
        saved = self._cluster.saved[len(self._cluster.saved) - new :]
        return not any(
            self._room.whole[node] + self._movable_on(node, spares) >= least
            for one in saved
            for node in {pod.node for pod in one.running_pods()}
        )

    def _movable_on(self, node: int, spares: bool) -> int:
        """Whole devices held on a node by what is cheap enough to move."""
        rules, largest = self._policy, int(self._room.whole.max(initial=0))
        most, devices = max(rules.consolidation.budget, rules.topology.budget), 0
        for pod in self._cluster.pods_on[node]:
            job = pod.job
            if not job.spec.preemptible or (spares and not self._lent[job.project]):
                continue
            restart = rules.price.restart if job.spec.restart_s is None else job.spec.restart_s
            price = job.devices_milli / WHOLE_MILLI * (self._now_s - job.since_s) + restart
            if len(pod.devices) <= largest and price <= most:
                devices += len(pod.devices)
        return devices

    def _bound_of_moves(self, job: Job, lacks: Sequence[int], scattered: bool, spares: bool) -> bool:
        if self._shares_devices:
            return True
        asked, rules = job.spec.topology, self._policy
        whole = ((shape, lack) for shape, lack in zip(job.shapes, lacks, strict=True) if shape.whole)
        wants = [(shape.devices, lack) for shape, lack in whole if shape.devices and lack]
        if asked is None or sum(lacks) == 1:
            return self._bound_anywhere(wants, rules.consolidation.budget, spares)
        if (
            scattered
            and asked.required is None
            and self._bound_anywhere(wants, rules.consolidation.budget, spares)
        ):
            return True
        budget = rules.topology.budget
        if job.is_running or not self._bound_anywhere(wants, budget, spares):
            return job.is_running  # near those that run already: not asked here
        levels = self._cluster.topologies[asked.name].levels
        depth = max(levels.index(level) for level in (asked.required, asked.preferred) if level is not None)
        return self._bound_in_one(self._memo.levels(self._cluster, asked.name)[depth], wants, budget, spares)

    def _bound_anywhere(self, wants: Sequence[tuple[int, int]], budget: float, spares: bool) -> bool:
        for devices, lack in wants:
            needed = self._nodes_for(devices, lack)
            missing = needed - int((self._room.whole >= devices).sum())
            if missing <= 0:
                continue
            could_move = self._could_move(budget, spares)[2]
            if not len(could_move) or missing * float(could_move.min()) > budget:
                return False
            prices = self._move_prices(devices, budget, spares)
            prices = np.sort(prices[prices <= budget])[:needed]
            if len(prices) < needed or float(prices.sum()) > budget:
                return False
        return True

    def _bound_in_one(
        self, level: Level, wants: Sequence[tuple[int, int]], budget: float, spares: bool
    ) -> bool:
        """Whether any domain could be cleared for what is asked."""
        enough = np.ones(level.count, np.bool_)
        for devices, lack in wants:
            prices = np.where(level.of >= 0, self._move_prices(devices, budget, spares), np.inf)
            order = np.lexsort((prices, level.of))
            order = order[np.isfinite(prices[order])]
            of, needed = level.of[order], self._nodes_for(devices, lack)
            first = np.arange(len(of)) - np.searchsorted(of, of) < needed  # of each domain
            total = np.bincount(of[first], prices[order][first], level.count)
            enough &= (np.bincount(of, minlength=level.count) >= needed) & (total <= budget)
        return bool(enough.any())

    def _nodes_for(self, devices: int, pods: int) -> int:
        """How many nodes pods of so many devices take at the least."""
        each = int(self._cluster.capacity[GPU_ROW].max(initial=0)) // WHOLE_MILLI // devices
        return -(-pods // max(1, each))

    def _move_prices(self, devices: int, budget: float, spares: bool) -> Floats:
        """What room for one pod of so many whole devices costs at the least on each node, by moves alone."""
        found = self._prices.get((devices, budget, spares))
        if found is None:
            whole = self._room.whole
            found = least_prices(whole, devices, *self._could_move(budget, spares))
            self._prices[(devices, budget, spares)] = found
        return found

    def _could_move(self, budget: float, spares: bool) -> tuple[Ints, Ints, Floats]:
        """Node, whole devices and price of each pod that is cheap enough to move."""
        found = self._movable.get((budget, spares))
        if found is None:
            largest = int(self._room.whole.max(initial=0))
            found = self._cluster.running_pods.movable_whole(
                self._now_s,
                budget,
                self._policy.price.restart,
                largest,
                self._lent if spares else None,
            )
            self._movable[(budget, spares)] = found
        return found

    @cached_property
    def _lent(self) -> Bools:
        """Which projects hold more than a quota on their path: theirs are moved for anyone."""
        books, path = self._books, self._cluster.ledger.path
        over = [any(books.over_quota(above) for above in path[queue]) for queue in range(len(path))]
        return np.array(over, np.bool_)
