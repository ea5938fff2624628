"""Eviction reasons, as data and as one sentence, with the numbers that the rule compared."""

from weir.engine.preemption_rules import divergence_level
from weir.engine.quota_overlay import QuotaOverlay
from weir.model.reasons import EvictionCause, EvictionRule
from weir.model.resources import written
from weir.state.cluster import Cluster
from weir.state.jobs import Job
from weir.state.shapes import GPU_ROW

_RECLAIM = (EvictionRule.RECLAIM_QUOTA, EvictionRule.RECLAIM_SHARE)


class EvictionReasons:
    """Reasons of the evictions for one workload in one cycle."""

    def __init__(self, cluster: Cluster, overlay: QuotaOverlay, asker: Job) -> None:
        self._cluster = cluster
        self._overlay = overlay
        self._asker = asker
        self._known: dict[tuple[EvictionRule, int, int], EvictionCause] = {}

    def of(self, rule: EvictionRule, victim: Job) -> EvictionCause:
        """Return the reason of a victim; one object for all equal victims."""
        key = (rule, victim.project, victim.priority)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._made(rule, victim)
        return found

    def _made(self, rule: EvictionRule, victim: Job) -> EvictionCause:
        by = self._asker.name
        said = f"stopped for {by} ({rule})"
        if rule in _RECLAIM:
            return self._by_queues(rule, victim, said)
        if rule is EvictionRule.PREEMPT:
            theirs, own = victim.priority, self._asker.priority
            numbers = {"priority": theirs, "by_priority": own}
            return EvictionCause(rule, by, f"{said}: its priority is {theirs}, that of {by} {own}", numbers)
        return EvictionCause(rule, by, said)

    def _by_queues(self, rule: EvictionRule, victim: Job, said: str) -> EvictionCause:
        """Return the reason with the usage and the quota or share of both queues."""
        ledger, by = self._cluster.ledger, self._asker.name
        path, other = ledger.path[self._asker.project], ledger.path[victim.project]
        level = divergence_level(path, other)
        if level >= min(len(path), len(other)):
            return EvictionCause(rule, by, said)
        what, of = (
            ("quota", ledger.quota) if rule is EvictionRule.RECLAIM_QUOTA else ("share", self._overlay.share)
        )
        (name, have, most), (own, own_have, own_most) = (
            (ledger.queues[queue].name, ledger.allocated[queue][GPU_ROW], int(of[queue][GPU_ROW]))
            for queue in (other[level], path[level])
        )
        sentence = (
            f"{said}: {name} holds {written('gpu', have)} GPUs with a {what} of {written('gpu', most)}, "
            f"{own} {written('gpu', own_have)} with {written('gpu', own_most)}"
        )
        if rule is EvictionRule.RECLAIM_QUOTA and have <= most:
            sentence += ": the quotas exceed the capacity, and the higher priority comes first"
        numbers = {"queue": name, "have": have, what: most}
        return EvictionCause(
            rule, by, sentence, {**numbers, "by_queue": own, "by_have": own_have, f"by_{what}": own_most}
        )
