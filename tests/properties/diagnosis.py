"""Exhaustive diagnosis of one pending workload: each running workload is eligible, or is protected by one cause.

The rules are written once more, from the reference (section 7.1), over amounts counted pod by pod. Only fair
shares come from the engine: other properties hold those against their rules.
"""

from enum import Enum

from weir.engine.allocation.allocate import new_allocator
from weir.engine.cache import EngineCache
from weir.model.policy import Policy
from weir.model.resources import UNLIMITED
from weir.model.workloads import Request
from weir.state.cluster import Cluster
from weir.state.jobs import Job
from weir.state.usage_history import HOUR_S

from .exhaustive import amount_wanted, fits, floors, next_steps
from .invariants import held

NEAR = 1e-6


class Cause(Enum):
    """Cause that protects a running workload from a requester."""

    FIXED = "it is non-preemptible"
    PRIORITY = "its priority in the project of both is no lower"
    CLAIM = "the requester has no claim on its queue where the paths part"
    WITHIN = "its queue doesn't hold too much where the paths part"
    CYCLE = "the requester was stopped for it"
    YOUNG = "it is within its minimum run time"


class Diagnosis:
    """Rights of one requester that asks for these pods, and the victims that it has."""

    def __init__(
        self, cluster: Cluster, policy: Policy, job: Job, wanted: list[Request], now_s: float
    ) -> None:
        self._cluster, self._policy, self._now_s = cluster, policy, now_s
        self.job, self.wanted = job, wanted
        self._queues = cluster.ledger.queues
        self._held = held(cluster, fixed=False)
        self._wants = {name: amount_wanted(cluster, wanted, name) for name in cluster.rows.names}
        self._wants = {name: want for name, want in self._wants.items() if want}
        self._overlay = new_allocator(cluster, policy, now_s, EngineCache()).overlay
        self._fixed = not job.spec.preemptible
        self._patient = now_s - job.waits_since_s >= policy.reclaim_share_after
        self._claims = owners_of(cluster, job.project)
        self.is_behind = policy.oldest_first_in_quota and bool(self._claims)
        if policy.oldest_first_in_quota:
            self._is_entitled = job in self._claims
        else:
            self._is_entitled = self._in_quota(job.project)

    # Rights

    def _amount(self, queue: int, name: str) -> int:
        return self._held[self._queues[queue].name, name]

    def _in_quota(self, queue: int) -> bool:
        quota = self._queues[queue].quota
        return all(
            self._amount(queue, name) + want <= quota.get(name, UNLIMITED)
            for name, want in self._wants.items()
        )

    def _share(self, queue: int, name: str) -> float:
        row = self._cluster.rows.get(name)
        assert row is not None
        return self._overlay.share[queue][row] + NEAR

    def _in_share(self, queue: int) -> bool:
        return all(
            self._amount(queue, name) + want <= self._share(queue, name) for name, want in self._wants.items()
        )

    def _by_quota(self, level: int) -> bool:
        """Return True if it claims quota from the siblings of its queue at a level."""
        path = self.job.path
        if self._fixed:
            return True
        own = self._is_entitled or (self._patient and self._in_share(path[-1]))
        above = level < len(path) - 1 and not self.is_behind and self._in_share(path[-1])
        return (own or above) and self._in_quota(path[level])

    def _by_share(self, level: int) -> bool:
        """Return True if it claims its fair share from the siblings of its queue at a level."""
        return self._patient and (
            self._fixed or all(self._in_share(queue) for queue in self.job.path[level:])
        )

    def claims_at(self, level: int) -> bool:
        """Return True if it has any claim on siblings of its queue at a level."""
        return self._by_quota(level) or self._by_share(level)

    @property
    def any_claim(self) -> bool:
        """Return True if it has a claim at any level."""
        return any(self.claims_at(level) for level in range(len(self.job.path)))

    @property
    def is_covered(self) -> bool:
        """Return True if the quotas of all queues above cover it, were there no older claims."""
        return all(self._in_quota(queue) for queue in self.job.path)

    # Victims

    def causes(self) -> dict[Job, Cause | None]:
        """Return the protection of each other workload that runs."""
        running = [job for jobs in self._cluster.running.values() for job in jobs.values()]
        return {job: self.cause(job) for job in running if job is not self.job}

    def cause(self, victim: Job) -> Cause | None:
        """Return the protection of a running workload; None if it is eligible now."""
        if not victim.spec.preemptible:
            return Cause.FIXED
        if victim.project == self.job.project:
            if self._priority(victim) >= self._priority(self.job):
                return Cause.PRIORITY
        else:
            level = next(
                level
                for level, (own, other) in enumerate(zip(self.job.path, victim.path, strict=False))
                if own != other
            )
            if not self.claims_at(level):
                return Cause.CLAIM
            if not self._holds_too_much(level, victim.path[level]):
                return Cause.WITHIN
        stopped_s = self.job.stopped_for.get(victim.name)
        if stopped_s is not None and self._now_s - stopped_s < self._policy.reserve_after:
            return Cause.CYCLE
        least_s = self._policy.min_runtime.for_type(victim.type)
        if least_s and victim.started_s is not None and self._now_s - victim.started_s < least_s:
            return Cause.YOUNG
        return None

    def _priority(self, job: Job) -> float:
        until_s = self._now_s if job.started_s is None else job.started_s
        return job.priority + self._policy.aging * max(0.0, until_s - job.submitted_s) / HOUR_S

    def _holds_too_much(self, level: int, queue: int) -> bool:
        quota = self._queues[queue].quota
        above = {name: self._amount(queue, name) - quota.get(name, UNLIMITED) for name in self._wants}
        if self._by_quota(level):
            if any(excess > 0 for excess in above.values()):
                return True
            if self._may_pass_guarantees(level) and self._is_scaled_down(level, queue):
                return True
        return self._by_share(level) and any(
            excess > 0 and self._amount(queue, name) > self._share(queue, name)
            for name, excess in above.items()
        )

    def _may_pass_guarantees(self, level: int) -> bool:
        below = self.job.path[level:-1]
        return self._fixed or (self._is_entitled and all(self._in_quota(queue) for queue in below))

    def _is_scaled_down(self, level: int, queue: int) -> bool:
        ledger, own = self._cluster.ledger, self.job.path[level]
        rows = {name: self._cluster.rows.get(name) for name in self._wants}
        return self._queues[queue].priority < self._queues[own].priority and any(
            row is not None
            and self._overlay.is_scaled(ledger.parent[queue], row)
            and self._amount(queue, name) > self._share(queue, name)
            for name, row in rows.items()
        )


def owners_of(cluster: Cluster, project: int) -> list[Job]:
    """Return the pending workloads of a project that its quota covers in their order, each after those before."""
    pending = [
        (queued.line_key(index), member[2])
        for queued in cluster.waiting.values()
        if queued.project == project
        for index, member in enumerate(queued.members)
    ]
    amounts, queue = held(cluster, fixed=False), cluster.ledger.queues[project]
    left = {name: most - amounts[queue.name, name] for name, most in queue.quota.items()}
    empty = floors(cluster, without=list(cluster.jobs.values()))
    owners = []
    for _, job in sorted(pending, key=lambda entry: entry[0]):
        wanted = next_steps(job)[0]
        wants = {name: amount_wanted(cluster, wanted, name) for name in left}
        if any(want > left[name] for name, want in wants.items() if want):
            continue
        groups = zip(job.spec.groups, job.spec.needed(), strict=True)
        if all(fits(cluster, [group.request] * need, empty) for group, need in groups):
            owners.append(job)
            left = {name: most - wants[name] for name, most in left.items()}
    return owners
