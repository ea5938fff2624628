"""Upper bounds on what moves alone can free, over all nodes at once, before any search.

These are bounds: what is refused here would be refused in the end, and what isn't may be. Of a pod with part
of a device it is assumed that the whole device is free once that pod is gone: so they hold there, too.
"""

from collections.abc import Sequence

import numpy as np

from weir.engine.allocate import Allocator
from weir.engine.feasibility import Bools
from weir.engine.knapsack import least_prices
from weir.engine.preemption_cache import ConsolidationKey, FailedConsolidation
from weir.engine.quota_overlay import INFINITE
from weir.engine.topology_levels import TopologyLevel
from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import Ints
from weir.state.jobs import Job
from weir.state.running_pods import Floats
from weir.state.shapes import GPU_ROW

_FEW = 8
"""Changed nodes up to which each is looked at."""


class ConsolidationBounds:
    """Possible moves of one cycle, and the capacity they would free."""

    def __init__(self, allocator: Allocator) -> None:
        self._cluster = allocator.cluster
        self._policy = allocator.policy
        self._overlay = allocator.overlay
        self._feasibility = allocator.feasibility
        self._searches_all = not allocator.cache.bounds
        self._failed = allocator.cache.preemption.failed_consolidations
        self._capacity = allocator.capacity
        self._now_s = allocator.now_s
        self._found: dict[tuple[float, bool], tuple[Ints, Ints, Floats]] = {}
        self._prices: dict[tuple[int, float, bool], Floats] = {}
        self._saved_on: dict[tuple[int, float], set[int]] = {}
        self._on_node: dict[tuple[int, float, bool], list[tuple[float, int]]] = {}
        self._suffice: dict[ConsolidationKey, bool] = {}
        self._over_quota: dict[int, bool] = {}
        self._all_over_quota: Bools | None = None

    @property
    def over_quota(self) -> Bools:
        """Return for each project whether a queue of its path is over quota; such work is always movable."""
        if self._all_over_quota is None:
            projects = range(len(self._cluster.ledger.path))
            self._all_over_quota = np.array([self._is_over_quota(at) for at in projects], np.bool_)
        return self._all_over_quota

    @property
    def _projects_over_quota(self) -> frozenset[int]:
        return frozenset(np.flatnonzero(self.over_quota).tolist())

    def _is_over_quota(self, project: int) -> bool:
        found = self._over_quota.get(project)
        if found is None:
            over = [self._overlay.over_quota(queue) for queue in self._cluster.ledger.path[project]]
            found = self._over_quota[project] = sum(over) > 0
        return found

    def _hole_beside(self, node: int) -> int:
        """Return the largest free block on other nodes, in exclusive devices."""
        first, second = self._capacity.totals.largest_free_blocks()
        return second if int(self._capacity.whole[node]) == first else first

    def price(self, job: Job) -> float:
        """Return the price of moving a workload; infinite if it isn't preemptible."""
        if not job.preemptible:
            return INFINITE
        stated_s = job.restart_s
        restart = self._policy.price.restart if stated_s is None else stated_s
        return job.devices_held()[0] * (self._now_s - job.since_s) + restart

    def could_suffice(self, job: Job, lacks: Sequence[int], moves: ConsolidationKey) -> bool:
        """Return True if moves within the budget could free enough, given places for all that moves."""
        found = self._suffice.get(moves)
        if found is None:
            found = self._searches_all or (
                not self._still_fails(job, lacks, moves) and self._bound(job, lacks, moves)
            )
            self._suffice[moves] = found
            if not found:
                self._failed[moves] = self._failure(moves)
        return found

    # Since it was last asked

    def _failure(self, moves: ConsolidationKey) -> FailedConsolidation:
        saves, at = self._cluster.saves, len(self._capacity.log)
        known = self._failed.get(moves)
        if known is not None and known.log_position == at:
            return known._replace(saves=saves)
        projects = self._projects_over_quota if moves.protect_in_quota else frozenset()
        return FailedConsolidation(saves, at, self._capacity.totals.largest_free_blocks(), projects)

    def _still_fails(self, job: Job, lacks: Sequence[int], moves: ConsolidationKey) -> bool:
        """Return True if a failed consolidation still can't succeed.

        Prices rise until a checkpoint, so only changed nodes and nodes with a checkpoint can be cleared. But
        larger free blocks take more moves, and more projects over quota allow more of them.
        """
        known = self._failed.get(moves)
        new = 0 if known is None else self._cluster.saves - known.saves
        if known is None or new > len(self._cluster.saved):
            return False
        nodes = set(self._capacity.log[known.log_position :])
        if nodes and not self._clears_no_better(known, nodes, moves):
            return False
        budget = self._policy.consolidation.budget
        if moves.topology is not None:
            budget = max(budget, self._policy.topology.budget)
        nodes |= self._nodes_of_saved(new, budget)
        if not nodes:
            return True
        least = min(shape.devices for shape, lack in zip(job.shapes, lacks, strict=True) if lack)
        return not any(self._could_clear(node, least, budget, moves.protect_in_quota) for node in nodes)

    def _clears_no_better(
        self, known: FailedConsolidation, changed: set[int], moves: ConsolidationKey
    ) -> bool:
        """Return True if few nodes have changed, and the others can be cleared no better."""
        first, second = self._capacity.totals.largest_free_blocks()
        return (
            len(changed) <= _FEW
            and first <= known.free_blocks[0]
            and second <= known.free_blocks[1]
            and (not moves.protect_in_quota or self._projects_over_quota <= known.over_quota)
        )

    def _nodes_of_saved(self, last: int, budget: float) -> set[int]:
        """Return the nodes of recently checkpointed workloads that are cheap enough to move."""
        found = self._saved_on.get((last, budget))
        if found is None:
            saved = self._cluster.saved[len(self._cluster.saved) - last :]
            cheap = [one for one in saved if self.price(one) <= budget]
            found = self._saved_on[last, budget] = {pod.node for one in cheap for pod in one.running_pods()}
        return found

    def _could_clear(self, node: int, devices: int, budget: float, spares: bool) -> bool:
        """Return True if the budget could free this many devices of a node, partial pods included."""
        needed = devices - int(self._capacity.whole[node])
        for each, here in self._prices_on(node, budget, spares):
            if needed <= 0 or budget < 0:
                break
            budget -= each * min(here, needed)
            needed -= here
        return needed <= 0 and budget >= 0

    def _prices_on(self, node: int, budget: float, spares: bool) -> list[tuple[float, int]]:
        """Return price per device and devices of each movable pod on a node."""
        key = (node, budget, spares)
        found = self._on_node.get(key)
        if found is None:
            found, hole = [], self._hole_beside(node)
            for pod in self._cluster.pods_on[node]:
                job, here = pod.job, len(pod.devices)
                fits = here > 0 and (here <= hole or not pod.shape.whole)
                price = self.price(job) if fits else INFINITE
                if price <= budget and (not spares or self._is_over_quota(job.project)):
                    own = pod.gpu_milli() / WHOLE_MILLI
                    found.append((price * own / max(own, job.devices_held()[0]) / here, here))
            found.sort()
            self._on_node[key] = found
        return found

    # From all that runs

    def _bound(self, job: Job, lacks: Sequence[int], moves: ConsolidationKey) -> bool:
        asked, rules, spares = moves.topology, self._policy, moves.protect_in_quota
        whole = ((shape, lack) for shape, lack in zip(job.shapes, lacks, strict=True) if shape.whole)
        wants = [(shape.devices, lack) for shape, lack in whole if shape.devices and lack]
        if asked is None or sum(lacks) == 1:
            return self._bound_anywhere(wants, rules.consolidation.budget, spares)
        if (
            moves.may_scatter
            and asked.required is None
            and self._bound_anywhere(wants, rules.consolidation.budget, spares)
        ):
            return True
        budget = rules.topology.budget
        if job.is_running or not self._bound_anywhere(wants, budget, spares):
            return job.is_running  # near those that run already: not asked here
        levels = self._cluster.topologies[asked.name].levels
        depth = max(levels.index(level) for level in (asked.required, asked.preferred) if level is not None)
        return self._bound_in_one(self._feasibility.levels(asked.name)[depth], wants, budget, spares)

    def _bound_anywhere(self, wants: Sequence[tuple[int, int]], budget: float, spares: bool) -> bool:
        for devices, lack in wants:
            needed = self._nodes_for(devices, lack)
            missing = needed - int((self._capacity.whole >= devices).sum())
            if missing <= 0:
                continue
            node, held, price = self._could_move(budget, spares)
            if not len(price) or missing * float(price.min()) > budget:
                return False
            all_gone = self._capacity.whole + np.bincount(node, held, len(self._capacity.whole))
            if int((all_gone >= devices).sum()) < needed:
                return False
            prices = self._least_prices(devices, budget, spares)
            prices = np.sort(prices[prices <= budget])[:needed]
            if len(prices) < needed or float(prices.sum()) > budget:
                return False
        return True

    def _bound_in_one(
        self, level: TopologyLevel, wants: Sequence[tuple[int, int]], budget: float, spares: bool
    ) -> bool:
        """Return True if any domain could be cleared for the request."""
        enough = np.ones(level.count, np.bool_)
        for devices, lack in wants:
            prices = np.where(level.of >= 0, self._least_prices(devices, budget, spares), np.inf)
            order = np.lexsort((prices, level.of))
            order = order[np.isfinite(prices[order])]
            of, needed = level.of[order], self._nodes_for(devices, lack)
            first = np.arange(len(of)) - np.searchsorted(of, of) < needed  # of each domain
            total = np.bincount(of[first], prices[order][first], level.count)
            enough &= (np.bincount(of, minlength=level.count) >= needed) & (total <= budget)
        return bool(enough.any())

    def _nodes_for(self, devices: int, pods: int) -> int:
        """Return the least number of nodes for pods of this many devices."""
        each = int(self._cluster.capacity[GPU_ROW].max(initial=0)) // WHOLE_MILLI // devices
        return -(-pods // max(1, each))

    def _least_prices(self, devices: int, budget: float, spares: bool) -> Floats:
        """Return by node the least price of moves that free capacity for one pod."""
        key = (devices, budget, spares)
        found = self._prices.get(key)
        if found is None:
            found = least_prices(self._capacity.whole, devices, *self._could_move(budget, spares))
            self._prices[key] = found
        return found

    def _could_move(self, budget: float, spares: bool) -> tuple[Ints, Ints, Floats]:
        """Return node, devices and price of each pod that is cheap to move and fits elsewhere."""
        found = self._found.get((budget, spares))
        if found is None:
            restart, lent = self._policy.price.restart, self.over_quota if spares else None
            running, (first, second) = self._cluster.running_pods, self._capacity.totals.largest_free_blocks()
            holes = np.where(self._capacity.whole == first, second, first)
            broken = self._cluster.incomplete.values()
            rows, price = running.movable(self._now_s, budget, restart, holes, lent, broken)
            found = self._found[(budget, spares)] = running.node[rows], running.on[rows], price
        return found
