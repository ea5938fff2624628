"""Upper bounds on the capacity that moves alone can free, over all nodes at once, before any search.

These are bounds: what is refused here would be refused in the end, and what isn't may be. Where a node has
changed, it is assumed of a pod with part of a device that the whole device is free once that pod is gone.
"""

from collections.abc import Sequence

from weir.engine.allocate import Allocator
from weir.engine.kept_eligibility import ConsolidationKey
from weir.engine.move_bounds import MoveBounds
from weir.engine.preemption_cache import FailedConsolidation
from weir.engine.quota_overlay import INFINITE
from weir.model.workloads import WHOLE_MILLI
from weir.state.jobs import Job

_FEW = 8
"""Number of changed nodes up to which each is checked."""


class ConsolidationBounds:
    """Consolidations of a cycle that could succeed. A failure is kept until its nodes change."""

    def __init__(self, allocator: Allocator) -> None:
        self._cluster = allocator.cluster
        self._policy = allocator.policy
        self._searches_all = not allocator.cache.bounds
        self._failed = allocator.cache.preemption.failed_consolidations
        self._capacity = allocator.capacity
        self._now_s = allocator.now_s
        self.moves = MoveBounds(allocator)
        self._saved_on: dict[tuple[int, float], set[int]] = {}
        self._on_node: dict[tuple[int, float, bool], list[tuple[float, int]]] = {}
        self._suffice: dict[ConsolidationKey, bool] = {}

    def _free_block_beside(self, node: int) -> int:
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
        """Return True if moves within the budget could free enough, assuming places for all of them."""
        found = self._suffice.get(moves)
        if found is None:
            found = self._searches_all or (
                not self._still_fails(job, lacks, moves) and self.moves.could_free(job, lacks, moves)
            )
            self._suffice[moves] = found
            if not found:
                self._failed[moves] = self._failure(moves)
        return found

    # Changes since the last call

    def _failure(self, moves: ConsolidationKey) -> FailedConsolidation:
        saves, at = self._cluster.saves, len(self._capacity.log)
        known = self._failed.get(moves)
        if known is not None and known.log_position == at:
            return known._replace(saves=saves)
        projects = self.moves.projects_over_quota if moves.protect_in_quota else frozenset()
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
        """Return True if few nodes have changed, and the others aren't easier to clear."""
        first, second = self._capacity.totals.largest_free_blocks()
        return (
            len(changed) <= _FEW
            and first <= known.free_blocks[0]
            and second <= known.free_blocks[1]
            and (not moves.protect_in_quota or self.moves.projects_over_quota <= known.over_quota)
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
            found, free_block = [], self._free_block_beside(node)
            for pod in self._cluster.pods_on[node]:
                job, here = pod.job, len(pod.devices)
                fits = here > 0 and (here <= free_block or not pod.shape.whole)
                price = self.price(job) if fits else INFINITE
                if price <= budget and (not spares or self.moves.is_over_quota(job.project)):
                    own = pod.gpu_milli() / WHOLE_MILLI
                    found.append((price * own / max(own, job.devices_held()[0]) / here, here))
            found.sort()
            self._on_node[key] = found
        return found
