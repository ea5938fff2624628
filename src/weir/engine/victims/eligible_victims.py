"""Eligible victims: running workloads that one requester may stop or move."""

from functools import cache

from weir.engine.protection.preemption_rules import PreemptionKind, PreemptionRules, PreemptionWay
from weir.engine.victims.eviction_price import lost_work
from weir.engine.victims.preemption_context import PreemptionContext
from weir.state.capacity_columns import Ints
from weir.state.jobs import Job


class EligibleVictims:
    """Eligible workloads of one kind of preemption.

    Workloads that quotas protect more than `most` aren't stopped. Workloads that disruption budgets protect
    are neither stopped nor moved, unless the kind is to override the budgets. `rows` are those of the pods
    that may be moved, where few are looked at.
    """

    def __init__(
        self,
        context: PreemptionContext,
        rules: PreemptionRules,
        way: PreemptionWay,
        move_budget: float,
        rows: Ints | None,
    ) -> None:
        self._context = context
        self._cluster = context.cluster
        self._policy = context.policy
        self._accounting = context.accounting
        self._disruptions = context.accounting.disruptions
        self._now_s = context.now_s
        self._rules = rules
        self._kind, self._most = way
        self._move_budget = move_budget
        self._rows = rows
        self._has_capacity = cache(context.placer.has_capacity)

    def find(self) -> dict[Job, bool]:
        """Return the eligible workloads, and whether each may only be moved."""
        if self._kind is PreemptionKind.CONSOLIDATE:
            return dict.fromkeys(self._movable(), True)
        idle = self._allowed(list(self._cluster.unprotected.values()))
        if self._kind is PreemptionKind.IDLE:
            return dict.fromkeys(idle, False)
        found = dict.fromkeys((*idle, *self._stoppable()), False)
        if found and self._policy.consolidation.enabled:
            for job in self._movable():
                found.setdefault(job, True)
        return found

    def _stoppable(self) -> list[Job]:
        """Return running preemptible workloads that are eligible now or after other evictions."""
        rules, running = self._rules, self._cluster.running
        if self._kind is PreemptionKind.PREEMPT:
            own = self._of_project(rules.job.project)
            return [job for job in own if rules.rule_for(job) is not None]
        found: list[Job] = []
        others = [project for project in running if project != rules.job.project and running[project]]
        if len(rules.path) == 1:
            for project in others:
                if self._may_reclaim_from(project):
                    found += self._of_project(project)
            return found
        with self._context.transaction.trial():
            while eligible := [project for project in others if self._may_reclaim_from(project)]:
                for project in eligible:
                    others.remove(project)
                    jobs = self._of_project(project)
                    found += jobs
                    for job in jobs:  # in a deep tree, these evictions may make other projects eligible
                        self._accounting.release(self._context.running(job))
        return found

    def _may_reclaim_from(self, project: int) -> bool:
        """Return True if a project's workloads may be reclaimed with its present usage."""
        path = self._cluster.ledger.path[project]
        return self._rules.protections.of(path) <= self._most and self._rules.may_ask(path)

    def _movable(self) -> list[Job]:
        """Return running preemptible workloads that are cheap to move and fit elsewhere."""
        prices, overlay = self._policy.price, self._accounting.overlay
        running, rows = self._cluster.running_pods, self._rows
        if rows is None:
            free_block = self._context.placer.capacity.totals.largest_free_blocks()[0]
            rows = running.saved_within(self._now_s, self._move_budget, prices.restart, free_block)
        jobs = running.jobs_of(rows)
        if self._policy.consolidation.protect_in_quota and not self._rules.is_owner:
            projects = {job.project: job.path for job in jobs}
            over = {at for at, path in projects.items() if overlay.over_any_quota(path)}
            jobs = [job for job in jobs if job.project in over]
        most, now_s = self._move_budget, self._now_s
        movable = [job for job in self._allowed(jobs) if self._could_move(job)]
        return [job for job in movable if lost_work(job, job.devices_held()[0], prices, now_s) <= most]

    def _could_move(self, job: Job) -> bool:
        """Return True if each shape of a workload fits any node."""
        affinity = self._context.affinity_of(job)
        for at, shape in enumerate(job.shapes):
            if job.placed[at] and not self._has_capacity(shape, affinity):
                return False
        return True

    def _of_project(self, project: int) -> list[Job]:
        running = self._cluster.running.get(project, {}).values()
        return self._allowed([job for job in running if job.preemptible])

    def _allowed(self, jobs: list[Job]) -> list[Job]:
        """Return the preemptible jobs that may be stopped or moved for the requester now."""
        requester, coming = self._rules.job, self._accounting.coming
        jobs = [job for job in jobs if job is not requester and job.name not in coming]
        jobs = self._context.protections.open_to(self._rules, jobs)
        if self._disruptions.any:
            allows, overrides = self._disruptions.allows, self._kind is PreemptionKind.OVERRIDE
            running = self._context.running
            jobs = [job for job in jobs if any(allows((pod,), overrides=overrides) for pod in running(job))]
        return jobs
