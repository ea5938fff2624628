"""Why pods are stopped for a workload, as data and as one sentence, with the numbers the rule went by."""

from weir.cluster.jobs import Job
from weir.cluster.shapes import GPU_ROW
from weir.cluster.state import Cluster
from weir.decide.claims import parting
from weir.model.reasons import Cause, Rule
from weir.model.resources import UNLIMITED, written

_BY_QUOTA = (Rule.RECLAIM_QUOTA, Rule.RECLAIM_SHARE)


class Causes:
    """The causes for which others go, for one workload in one cycle."""

    def __init__(self, cluster: Cluster, asker: Job) -> None:
        self._cluster = cluster
        self._asker = asker
        self._known: dict[tuple[Rule, int, int], Cause] = {}

    def of(self, rule: Rule, victim: Job) -> Cause:
        """The cause of a victim; one object for all of its pods and all that are alike."""
        key = (rule, victim.project, victim.spec.priority)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._made(rule, victim)
        return found

    def _made(self, rule: Rule, victim: Job) -> Cause:
        by = self._asker.spec.name
        said = f"stopped for {by} ({rule})"
        if rule in _BY_QUOTA:
            return self._by_quota(rule, victim, said)
        if rule is Rule.PREEMPT:
            theirs, own = victim.spec.priority, self._asker.spec.priority
            numbers = {"priority": theirs, "by_priority": own}
            return Cause(rule, by, f"{said}: its priority is {theirs}, that of {by} {own}", numbers)
        return Cause(rule, by, said)

    def _by_quota(self, rule: Rule, victim: Job, said: str) -> Cause:
        """What the two queues held, where their paths part, before anyone was stopped."""
        ledger, by = self._cluster.ledger, self._asker.spec.name
        path, other = ledger.path[self._asker.project], ledger.path[victim.project]
        level = parting(path, other)
        if level >= min(len(path), len(other)):
            return Cause(rule, by, said)
        numbers: dict[str, object] = {}
        words = []
        for prefix, queue in (("", other[level]), ("by_", path[level])):
            name, have = ledger.queues[queue].name, ledger.allocated[queue][GPU_ROW]
            quota = ledger.quota[queue][GPU_ROW]
            numbers |= {f"{prefix}queue": name, f"{prefix}have": have, f"{prefix}quota": quota}
            most = "" if quota >= UNLIMITED else f" with a quota of {written('gpu', quota)}"
            words.append(f"{name} holds {written('gpu', have)} GPUs{most}")
        return Cause(rule, by, f"{said}: {', '.join(words)}", numbers)
