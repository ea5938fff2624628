"""Whom a workload may take from: the rules of reclaim and preemption, asked again before each victim."""

from enum import IntEnum

from weir.engine.queue_order import Candidate
from weir.engine.quota_overlay import QuotaOverlay
from weir.model.policy import Policy
from weir.model.reasons import EvictionRule
from weir.state.jobs import Job

HOUR_S = 3600.0


class PreemptionKind(IntEnum):
    """How a take goes about it, in the order in which it is tried."""

    CONSOLIDATE = 0
    RECLAIM = 1
    PREEMPT = 2
    OVERRIDE = 3  # reclaim what only disruption budgets protect


class QuotaProtection(IntEnum):
    """How quotas protect work from one asker; all of a lower value is taken before any of a higher.

    From where the paths part down to the project of the work, a queue either holds more than its quota in
    something that is asked for, or protects what it holds.
    """

    NONE = 0  # every queue is over its quota
    BELOW = 1  # the queue where the paths part is over its quota, one below it isn't
    PARTING = 2  # that queue is within its quota, all below it are over theirs
    FULL = 3  # that queue and one below it are within their quotas


_PROTECTIONS = tuple(QuotaProtection)  # by value: a look-up costs a fraction of the class's call


def divergence_level(asker: tuple[int, ...], victim: tuple[int, ...]) -> int:
    """The level at which two paths part; the length of the path within one project."""
    for level, (own, other) in enumerate(zip(asker, victim, strict=False)):
        if own != other:
            return level
    return min(len(asker), len(victim))


class PreemptionRules:
    """What one asker may claim, level by level of its path."""

    def __init__(
        self, books: QuotaOverlay, policy: Policy, candidate: Candidate, entitled: bool, now_s: float
    ) -> None:
        self._books = books
        self._policy = policy
        self._now_s = now_s
        self.job = candidate.job
        self.path = candidate.job.path
        self.asks = candidate.asks
        self._rows = [row for row, amount in candidate.asks if amount > 0]
        self._fixed = not self.job.preemptible
        self._entitled = entitled
        self.waited_s = now_s - self.job.waits_since_s
        self.is_patient = self.waited_s >= policy.reclaim_share_after

    @property
    def is_owner(self) -> bool:
        """Whether it is in quota."""
        return self._fixed or self._entitled

    @property
    def any_reclaim(self) -> bool:
        """Whether its own queue lets it reclaim from anyone at all."""
        own = self.path[-1]
        return self._fixed or self._entitled or (self.is_patient and self._books.in_share(own, self.asks))

    @property
    def in_share(self) -> bool:
        """Return True if its project stays within its fair share."""
        return self._books.in_share(self.path[-1], self.asks)

    def by_share(self, level: int) -> bool:
        """Whether it stays within the share of every queue from that level of its path down."""
        return self.is_patient and (
            self._fixed or all(self._books.in_share(queue, self.asks) for queue in self.path[level:])
        )

    def by_quota(self, level: int) -> bool:
        """Whether it stays within the quota at that level of its path; its own queue has let it."""
        return self._fixed or (self.any_reclaim and self._books.in_quota(self.path[level], self.asks))

    def rule_for(self, victim: Job) -> EvictionRule | None:
        """The rule under which pods of a running preemptible workload may be stopped now, if any."""
        level = divergence_level(self.path, victim.path)
        if level == len(self.path):
            own = effective_priority(self.job, self._policy, self._now_s)
            return (
                EvictionRule.PREEMPT if effective_priority(victim, self._policy, self._now_s) < own else None
            )
        return self.rule_from(level, victim.path[level])

    def may_ask(self, path: tuple[int, ...]) -> bool:
        """Whether it may take from another project, by its path, as things stand."""
        level = divergence_level(self.path, path)
        return self.rule_from(level, path[level]) is not None

    def rule_from(self, level: int, sibling: int) -> EvictionRule | None:
        """The rule under which a queue may be taken from that parts from the asker at a level."""
        books = self._books
        held, quota = books.held[sibling], books.ledger.quota[sibling]
        if self.by_quota(level):
            if any(held[row] > quota[row] for row in self._rows):
                return EvictionRule.RECLAIM_QUOTA
            if self._in_quota_below(level) and self._scaled_down(level, sibling):
                return EvictionRule.RECLAIM_QUOTA
        if self.by_share(level):
            share = books.share[sibling]
            if any(held[row] > max(share[row] + 1e-6, quota[row]) for row in self._rows):
                return EvictionRule.RECLAIM_SHARE
        return None

    def _in_quota_below(self, level: int) -> bool:
        """Return True if it stays within all quotas below a level too: else its own work would go first."""
        return self._fixed or (
            self._entitled and all(self._books.in_quota(queue, self.asks) for queue in self.path[level:-1])
        )

    def _scaled_down(self, level: int, sibling: int) -> bool:
        """Whether guarantees among these siblings had to be scaled down and this one ranks lower."""
        books, ledger = self._books, self._books.ledger
        if ledger.priority[sibling] >= ledger.priority[self.path[level]]:
            return False
        held, share = books.held[sibling], books.share[sibling]
        return any(
            held[row] > share[row] + 1e-6 and books.is_scaled(ledger.parent[sibling], row)
            for row in self._rows
        )

    def protection(self, path: tuple[int, ...]) -> QuotaProtection:
        """Return how quotas protect what a project holds now, by its path; never within its own project."""
        level = divergence_level(self.path, path)
        if level == len(path):
            return QuotaProtection.NONE
        found = 2 if self._within_quota(path[level]) else 0
        for queue in path[level + 1 :]:
            if self._within_quota(queue):
                return _PROTECTIONS[found + 1]
        return _PROTECTIONS[found]

    def protections(self) -> list[QuotaProtection]:
        """Return the protections that work it may take can have, lowest first."""
        ledger = self._books.ledger
        found = [QuotaProtection.NONE]
        if ledger.depth > 1:
            found.append(QuotaProtection.BELOW)
        if self.is_owner and any(self._may_pass_quotas(queue) for queue in self.path):
            found.append(QuotaProtection.PARTING)
            if ledger.depth > 1:
                found.append(QuotaProtection.FULL)
        return found

    @property
    def own_over_quota(self) -> bool:
        """Return True if its own project holds more than its quota of something asked for."""
        return not self._within_quota(self.path[-1])

    def _within_quota(self, queue: int) -> bool:
        held, quota = self._books.held[queue], self._books.ledger.quota[queue]
        for row in self._rows:  # noqa: SIM110 - a generator takes twice as long, and this is asked for each victim
            if held[row] > quota[row]:
                return False
        return True

    def _may_pass_quotas(self, queue: int) -> bool:
        """Return True if guarantees among a queue and its siblings are scaled down, and one ranks lower."""
        ledger = self._books.ledger
        parent = ledger.parent[queue]
        siblings = ledger.top if parent < 0 else ledger.children[parent]
        return min([ledger.priority[each] for each in siblings]) < ledger.priority[queue] and any(
            self._books.is_scaled(parent, row) for row in self._rows
        )

    def overtakes(self, level: int, sibling: int) -> bool:
        """Whether the asker would stand above its share, and above what it leaves the sibling with.

        Asked with the victims gone and the asker not yet counted.
        """
        own = self._books.dominant(self.path[level], self.asks)[0]
        return own > 1 + 1e-9 and own >= self._books.dominant(sibling)[0]


def effective_priority(job: Job, policy: Policy, now_s: float) -> float:
    """A workload's priority with what its waiting has earned; one that runs keeps what it started with."""
    if not policy.aging:
        return job.priority
    until_s = now_s if job.started_s is None else job.started_s
    return job.priority + policy.aging * max(0.0, until_s - job.submitted_s) / HOUR_S


def is_past_min_runtime(job: Job, policy: Policy, now_s: float) -> bool:
    """Whether a running workload has had its minimum run time."""
    least = policy.min_runtime.of(job.type)
    return not least or job.spec.overrun or job.started_s is None or now_s - job.started_s >= least
