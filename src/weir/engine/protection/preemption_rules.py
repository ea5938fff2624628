"""Preemption rules: the workloads that a requester may evict, checked again before each victim."""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from weir.engine.order.queue_order import Candidate
from weir.engine.usage.quota_overlay import INFINITE, QuotaOverlay
from weir.model.policy import Policy
from weir.model.reasons import EvictionRule
from weir.state.cluster import Cluster
from weir.state.jobs import Job
from weir.state.usage_history import HOUR_S


class QuotaProtection(IntEnum):
    """Degree of protection by quotas from a requester; lower ones are evicted first.

    The queues from the level where the two paths diverge down to the work's own project are compared. Each of
    them is either over its quota of a requested resource, or it protects its usage.
    """

    NONE = 0  # every queue is over its quota
    BELOW = 1  # the queue below the common ancestor is over its quota, a queue below it isn't
    PARTING = 2  # the queue below the common ancestor is within its quota, all below it are over
    FULL = 3  # the queue below the common ancestor and a queue below it are within their quotas


_PROTECTIONS = tuple(QuotaProtection)  # by value: a look-up costs a fraction of the class's call


def divergence_level(asker: tuple[int, ...], victim: tuple[int, ...]) -> int:
    """Return the level at which two paths diverge; the length of the path within one project."""
    for level, (own, other) in enumerate(zip(asker, victim, strict=False)):
        if own != other:
            return level
    return min(len(asker), len(victim))


class ProtectionFinder:
    """Finds the protection of projects from one requester, by the resource rows that it requests."""

    def __init__(self, overlay: QuotaOverlay, path: tuple[int, ...], rows: Sequence[int]) -> None:
        self._overlay = overlay
        self._path = path
        self._rows = rows

    def protection_of(self, path: tuple[int, ...]) -> QuotaProtection:
        """Return the protection of a project's usage by quotas on its path; none in the own project."""
        level = divergence_level(self._path, path)
        if level == len(path):
            return QuotaProtection.NONE
        index = 2 if self._within_quota(path[level]) else 0
        for queue in path[level + 1 :]:
            if self._within_quota(queue):
                return _PROTECTIONS[index + 1]
        return _PROTECTIONS[index]

    def open_to(self, *, is_owner: bool) -> list[QuotaProtection]:
        """Return the degrees of protection that the requester may override, lowest first."""
        ledger = self._overlay.ledger
        protections = [QuotaProtection.NONE]
        if ledger.depth > 1:
            protections.append(QuotaProtection.BELOW)
        if is_owner and any(self._may_pass_quotas(queue) for queue in self._path):
            protections.append(QuotaProtection.PARTING)
            if ledger.depth > 1:
                protections.append(QuotaProtection.FULL)
        return protections

    @property
    def own_over_quota(self) -> bool:
        """Return True if the requester's project is over its quota of a requested resource."""
        return not self._within_quota(self._path[-1])

    def _within_quota(self, queue: int) -> bool:
        used, quota = self._overlay.used[queue], self._overlay.ledger.quota[queue]
        for row in self._rows:  # noqa: SIM110 - a generator takes twice as long, and this is asked for each victim
            if used[row] > quota[row]:
                return False
        return True

    def _may_pass_quotas(self, queue: int) -> bool:
        """Return True if guarantees among a queue and its siblings are scaled down, and one ranks lower."""
        ledger = self._overlay.ledger
        parent = ledger.parent[queue]
        siblings = ledger.top if parent < 0 else ledger.children[parent]
        return min([ledger.priority[sibling] for sibling in siblings]) < ledger.priority[queue] and any(
            self._overlay.is_scaled(parent, row) for row in self._rows
        )


class PreemptionKind(IntEnum):
    """Kinds of preemption, in the order in which they are tried."""

    CONSOLIDATE = 0
    RECLAIM = 1
    PREEMPT = 2
    OVERRIDE = 3  # reclaim work that only disruption budgets protect
    IDLE = 4  # evict idle work without protection


class PreemptionWay(NamedTuple):
    """Kind of preemption, and the highest protection by quotas that it overrides."""

    kind: PreemptionKind
    most: QuotaProtection = QuotaProtection.NONE


class PreemptionRules:
    """Rights of one requester, level by level of its path."""

    def __init__(
        self,
        overlay: QuotaOverlay,
        policy: Policy,
        candidate: Candidate,
        *,
        entitled: bool,
        behind_owners: bool,
        now_s: float,
    ) -> None:
        self._overlay = overlay
        self.policy = policy
        self.now_s = now_s
        self.candidate = candidate
        self.job = candidate.job
        self.path = candidate.job.path
        self.request = candidate.request
        self._rows = [row for row, amount in candidate.request if amount > 0]
        self.protections = ProtectionFinder(overlay, self.path, self._rows)
        self._fixed = not self.job.preemptible
        self._entitled = entitled
        self._behind_owners = behind_owners
        self.waited_s = now_s - self.job.waits_since_s
        self.is_patient = self.waited_s >= policy.reclaim_share_after

    @property
    def is_owner(self) -> bool:
        """Return True if the requester is in quota."""
        return self._fixed or self._entitled

    @property
    def any_reclaim(self) -> bool:
        """Return True if the requester's own queue allows any kind of reclaim."""
        return self._claims or (
            not self._behind_owners
            and self.in_share
            and any(self._overlay.in_quota(queue, self.request) for queue in self.path[:-1])
        )

    @property
    def _claims(self) -> bool:
        """Return True if the requester may reclaim in its department: in quota, or long enough pending."""
        return self.is_owner or (self.is_patient and self.in_share)

    @property
    def in_share(self) -> bool:
        """Return True if its project stays within its fair share."""
        return self._overlay.in_share(self.path[-1], self.request)

    @property
    def depends_on_share(self) -> bool:
        """Return True if a change of its project's fair share, or waiting, could add rights to evict."""
        if self.is_owner:
            return False
        above = any(self._overlay.in_quota(queue, self.request) for queue in self.path[:-1])
        return self.policy.reclaim_share_after > 0 or self.is_patient or above

    def by_share(self, level: int) -> bool:
        """Return True if every queue of its path from that level down stays within its fair share."""
        return self.is_patient and (
            self._fixed or all(self._overlay.in_share(queue, self.request) for queue in self.path[level:])
        )

    def by_quota(self, level: int) -> bool:
        """Return True if its queue at that level stays within its quota, and its own queue allows it.

        The quota of a department is a guarantee. Its projects claim it at once, within their shares. Inside a
        project, older workloads that claim the project's own quota come first.
        """
        if self._fixed:
            return True
        above = level < len(self.path) - 1 and not self._behind_owners
        return (self._claims or (above and self.in_share)) and self._overlay.in_quota(
            self.path[level], self.request
        )

    def rule_for(self, victim: Job) -> EvictionRule | None:
        """Return the rule by which pods of a running preemptible workload may be evicted now, if any."""
        if victim.spec.unprotected:
            return EvictionRule.IDLE
        level = divergence_level(self.path, victim.path)
        if level == len(self.path):
            own = effective_priority(self.job, self.policy, self.now_s)
            return EvictionRule.PREEMPT if effective_priority(victim, self.policy, self.now_s) < own else None
        return self.rule_from(level, victim.path[level])

    @property
    def has_claim(self) -> bool:
        """Return True if the requester may reclaim from siblings of its queue at any level."""
        return any(self.by_quota(level) or self.by_share(level) for level in range(len(self.path)))

    def has_claim_on(self, path: tuple[int, ...]) -> bool:
        """Return True if the requester may reclaim at the level where its path and this one diverge."""
        level = divergence_level(self.path, path)
        return self.by_quota(level) or self.by_share(level)

    def may_ask(self, path: tuple[int, ...]) -> bool:
        """Return True if the requester may now evict work of the project with this path."""
        level = divergence_level(self.path, path)
        return self.rule_from(level, path[level]) is not None

    def rule_from(self, level: int, sibling: int) -> EvictionRule | None:
        """Return the rule by which work of a sibling queue at a level may be evicted, if any."""
        overlay = self._overlay
        used, quota = overlay.used[sibling], overlay.ledger.quota[sibling]
        if self.by_quota(level):
            if any(used[row] > quota[row] for row in self._rows):
                return EvictionRule.RECLAIM_QUOTA
            if self._in_quota_below(level) and self._scaled_down(level, sibling):
                return EvictionRule.RECLAIM_QUOTA
        if self.by_share(level):
            share = overlay.share[sibling]
            if any(used[row] > max(share[row] + 1e-6, quota[row]) for row in self._rows):
                return EvictionRule.RECLAIM_SHARE
        return None

    def _in_quota_below(self, level: int) -> bool:
        """Return True if the requester stays in all quotas below a level: else it would be reclaimed."""
        return self._fixed or (
            self._entitled
            and all(self._overlay.in_quota(queue, self.request) for queue in self.path[level:-1])
        )

    def _scaled_down(self, level: int, sibling: int) -> bool:
        """Return True if guarantees of these siblings were scaled down and this one has lower priority."""
        overlay, ledger = self._overlay, self._overlay.ledger
        if ledger.priority[sibling] >= ledger.priority[self.path[level]]:
            return False
        used, share = overlay.used[sibling], overlay.share[sibling]
        return any(
            used[row] > share[row] + 1e-6 and overlay.is_scaled(ledger.parent[sibling], row)
            for row in self._rows
        )

    def overtakes(self, level: int, sibling: int) -> bool:
        """Return True if the requester would exceed its share and the sibling's remaining share.

        At this point the victims' usage is released, and that of the requester isn't charged yet.
        """
        own = self._overlay.dominant(self.path[level], self.request)[0]
        return own > 1 + 1e-9 and own >= self._overlay.dominant(sibling)[0]


def lowest_priority(cluster: Cluster, policy: Policy, project: int) -> float:
    """Return the lowest priority of running preemptible work of a project; infinite without any."""
    priorities = cluster.priorities.get(project)
    if not priorities:
        return INFINITE
    return -INFINITE if policy.aging else min(priorities)


def effective_priority(job: Job, policy: Policy, now_s: float) -> float:
    """Return a workload's priority with aging; a running one keeps the priority of its start."""
    if not policy.aging:
        return job.priority
    until_s = now_s if job.started_s is None else job.started_s
    return job.priority + policy.aging * max(0.0, until_s - job.submitted_s) / HOUR_S


def is_past_min_runtime(job: Job, policy: Policy, now_s: float) -> bool:
    """Return True if a running workload has had its minimum run time."""
    least = policy.min_runtime.for_type(job.type)
    exempt = job.spec.overrun or job.spec.unprotected
    return not least or exempt or job.started_s is None or now_s - job.started_s >= least


def cycle_ends_s(rules: PreemptionRules, victim: str) -> float | None:
    """Return until when a workload is protected from a requester that was evicted for it.

    The answer is None if it isn't protected.
    """
    at_s = rules.job.stopped_for.get(victim)
    ends_s = None if at_s is None else at_s + rules.policy.reserve_after
    return ends_s if ends_s is not None and rules.now_s < ends_s else None
