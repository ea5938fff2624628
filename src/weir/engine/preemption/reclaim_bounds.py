"""Upper bounds on the capacity that reclaim can free, over all nodes at once, before any search.

These are bounds: what is refused here would be refused in the end, and what isn't may be. Devices are
counted in thousandths: a shared device is free once all parts of it are.

A project gives while it holds more than its quota: a last victim that begins within that, and no more.
So of one that is hardly over its quota only little can go, on each node and on all of them together.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from weir.engine.allocation.allocate import Allocator
from weir.engine.placement.feasibility import shares_for_memory
from weir.engine.preemption_cache import Sleeping
from weir.engine.protection.preemption_rules import PreemptionRules
from weir.engine.usage.quota_overlay import INFINITE
from weir.engine.victims.eviction_price import lost_work
from weir.engine.victims.move_bounds import MoveBounds
from weir.engine.victims.preemption_context import PreemptionContext
from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import Bools, Floats, Ints
from weir.state.jobs import Job
from weir.state.shapes import GPU_ROW, RequestShape


class VictimPods(NamedTuple):
    """Pods that may be stopped, an entry each: node, devices, all devices of their job, project.

    Devices in thousandths, or in any other unit that all entries share.
    """

    node: Ints
    milli: Ints
    of_job: Floats
    project: Ints


class ReclaimBounds:
    """Bounds of preemption in one cycle."""

    def __init__(self, allocator: Allocator) -> None:
        self._cluster = allocator.cluster
        self._policy = allocator.policy
        self._overlay = allocator.overlay
        self._feasibility = allocator.feasibility
        self._searches_all = not allocator.cache.bounds
        self._capacity = allocator.capacity
        self._now_s = allocator.now_s
        self.moves = MoveBounds(allocator)

    def could_reclaim(self, rules: PreemptionRules, context: PreemptionContext) -> bool:
        """Return True if the request could fit without all eligible victims and all cheap moves."""
        if self._searches_all:
            return True
        running, capacity, ledger = self._cluster.running_pods, context.placer.capacity, self._cluster.ledger
        over = self._over(rules)
        rows = running.takeable(over > 0)
        if self._cluster.refused:
            refused = [
                pod.row for pod in self._cluster.refused if context.accounting.disruptions.was_refused(pod)
            ]
            rows = rows[~np.isin(rows, refused)]
        victims = VictimPods(
            running.node[rows],
            running.milli[rows],
            running.largest[rows] * WHOLE_MILLI,
            running.project[rows],
        )
        # Smallest amount that a project can free
        grain = np.where(np.array(ledger.sharing) > 0, 1, WHOLE_MILLI)
        free = capacity.whole * WHOLE_MILLI + self._most_moved(rules, capacity.whole, over)
        if any(ledger.sharing[queue] for queue in ledger.top):
            free += capacity.partly_free()
        all_gone = free + np.bincount(victims.node, victims.milli, len(free)).astype(np.int64)
        affinity = context.affinity_of(rules.job)
        for shape, lack in zip(rules.job.shapes, rules.candidate.lacks, strict=True):
            if lack and shape.devices:
                may = self._feasibility.feasible_nodes(shape, affinity)[0]
                each = shape.devices * _least_milli(
                    shape, capacity.device_memory[may[: len(capacity.device_memory)]]
                )
                if int((all_gone // each)[may].sum()) < lack:
                    return False
                if max_pods(free, each, may, victims, over * WHOLE_MILLI, grain) < lack:
                    return False
        return True

    def _most_moved(self, rules: PreemptionRules, free: Ints, over: Floats) -> Ints:
        """Return by node the thousandths of devices of ineligible pods that are cheap to move."""
        consolidation, price = self._policy.consolidation, self._policy.price
        if not consolidation.enabled:
            return np.zeros_like(free)
        budget = consolidation.budget
        if rules.job.topology is not None:
            budget = max(budget, self._policy.topology.budget)
        may = over <= 0
        if consolidation.protect_in_quota and not rules.is_owner:
            may &= self.moves.over_quota
        running, free_blocks = self._cluster.running_pods, np.full(len(free), free.max(initial=0))
        broken = self._cluster.incomplete.values()
        rows, _ = running.movable(self._now_s, budget, price.restart, free_blocks, may, broken)
        return np.bincount(running.node[rows], running.milli[rows], len(free)).astype(np.int64)

    def _over(self, rules: PreemptionRules) -> Floats:
        """Return the devices that each project could release down to its quota; 0 if ineligible.

        Infinite where it gives for another reason than its devices, and below a department: that may be over
        quota while the project isn't, and one that gives opens others.
        """
        ledger, used = self._cluster.ledger, self._overlay.used
        over = np.full(len(ledger.path), np.inf)
        if len(rules.path) > 1 or self._cluster.weighted_shapes():
            return over  # with weighted devices, the excess over a quota is no number of devices
        own = rules.path[-1]
        others = [row for row, amount in rules.request if amount and row != GPU_ROW]
        for project in self._cluster.running:
            quota = ledger.quota[project]
            if project == own or not rules.may_ask(ledger.path[project]):
                over[project] = 0.0
            elif (
                len(ledger.path[project]) == 1
                and ledger.priority[project] >= ledger.priority[own]
                and not any(used[project][row] > quota[row] for row in others)
            ):
                over[project] = (used[project][GPU_ROW] - quota[GPU_ROW]) / WHOLE_MILLI
        return over

    def eligible_projects(self, rules: PreemptionRules) -> Bools:
        """Return the projects that are eligible for reclaim."""
        if not rules.any_reclaim:
            return np.zeros(len(self._cluster.ledger.path), np.bool_)
        return self._over(rules) > 0

    def any_new_victim(self, sleeping: Sleeping, job: Job, lacks: Sequence[int]) -> bool:
        """Return True if a workload that has checkpointed since could help now and wasn't counted."""
        new = self._cluster.saves - sleeping.saves
        if new > len(self._cluster.saved) or self._searches_all:
            return True
        most = max(self._policy.consolidation.budget, self._policy.topology.budget)
        saved = self._cluster.saved[len(self._cluster.saved) - new :]
        cheap = [one for one in saved if not sleeping.eligible[one.project] and self._move_price(one) <= most]
        least = min(
            shape.devices if shape.whole else 0 for shape, lack in zip(job.shapes, lacks, strict=True) if lack
        )
        return any(
            self._freed_most(pod.node, sleeping.eligible, most) >= least
            for one in cheap
            for pod in one.running_pods()
        )

    def _move_price(self, job: Job) -> float:
        """Return the price of moving a workload; infinite if it isn't preemptible."""
        if not job.preemptible:
            return INFINITE
        return lost_work(job, job.devices_held()[0], self._policy.price, self._now_s)

    def _freed_most(self, node: int, asked: Bools, most: float) -> int:
        """Return a bound on the exclusive devices of a node after all stops and cheap moves."""
        devices = int(self._capacity.whole[node])
        for pod in self._cluster.pods_on[node]:
            price = self._move_price(pod.job)
            if price <= most or (asked[pod.job.project] and price < INFINITE):
                devices += len(pod.devices)
        return devices


def max_pods(
    free: Ints, each: int, open_: Bools, victims: VictimPods, over: Floats, grain: Ints | int = 1
) -> int:
    """Return an upper bound on the pods of `each` exclusive devices that fit on the open nodes.

    Args:
        free: free devices by node, with those that become free in any case.
        each: devices of one pod.
        open_: True for each node that the pod may use.
        victims: pods that may be evicted.
        over: devices above the quota, by project; infinite if the quota doesn't bound its victims.
        grain: a common divisor of the devices of all pods, by project.
    """
    pairs, pair = np.unique(victims.project * len(free) + victims.node, return_inverse=True)
    project, node = np.divmod(pairs, len(free))
    largest = np.zeros(len(pairs))
    np.maximum.at(largest, pair, victims.of_job)
    all_before_last = (np.ceil(over / grain) - 1) * grain
    before_last = all_before_last[project]
    given = np.minimum(np.bincount(pair, victims.milli, len(pairs)), before_last + largest)
    together = free + np.bincount(node, given, len(free))
    most = int((together // each)[open_].sum())
    if together.max(initial=0) >= 2 * each:
        return most
    needed = each - (together[node] - given)  # devices this project has to free there, for the pod to fit
    spans = np.zeros(len(over), np.bool_)
    # The last victim of such a project frees devices on several nodes
    spans[victims.project[victims.of_job > victims.milli]] = True
    enough = open_ & (together >= each)
    at = np.flatnonzero(enough[node] & (needed > 0) & np.isfinite(before_last) & ~spans[project])
    if not len(at):
        return most
    at = at[np.lexsort((needed[at], project[at]))]  # by project, the smallest need first
    first = np.searchsorted(project[at], project[at])
    total = np.cumsum(needed[at])
    within = total - (total - needed[at])[first] <= before_last[at]
    giving = np.bincount(project[at], minlength=len(over))
    kept_to = np.minimum(giving, np.bincount(project[at], within, len(over)) + 1)
    return min(most, int(enough.sum() - (giving - kept_to).max()))


def _least_milli(shape: RequestShape, device_memory: Ints) -> int:
    """Return the least thousandths of a device that a shape takes on nodes with this memory by device."""
    if not shape.gpu_memory:
        return shape.share_milli
    return int(shares_for_memory(shape, device_memory).min(initial=WHOLE_MILLI))
