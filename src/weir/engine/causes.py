"""Why pods are stopped for a workload, as data and as one sentence, with the numbers the rule went by."""

from weir.engine.books import Books
from weir.engine.claims import parting
from weir.model.reasons import Cause, Rule
from weir.model.resources import written
from weir.state.jobs import Job
from weir.state.shapes import GPU_ROW
from weir.state.state import Cluster

_RECLAIM = (Rule.RECLAIM_QUOTA, Rule.RECLAIM_SHARE)


class Causes:
    """The causes for which others go, for one workload in one cycle."""

    def __init__(self, cluster: Cluster, books: Books, asker: Job) -> None:
        self._cluster = cluster
        self._books = books
        self._asker = asker
        self._known: dict[tuple[Rule, int, int], Cause] = {}

    def of(self, rule: Rule, victim: Job) -> Cause:
        """The cause of a victim; one object for all of its pods and all that are alike."""
        key = (rule, victim.project, victim.priority)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._made(rule, victim)
        return found

    def _made(self, rule: Rule, victim: Job) -> Cause:
        by = self._asker.name
        said = f"stopped for {by} ({rule})"
        if rule in _RECLAIM:
            return self._by_queues(rule, victim, said)
        if rule is Rule.PREEMPT:
            theirs, own = victim.priority, self._asker.priority
            numbers = {"priority": theirs, "by_priority": own}
            return Cause(rule, by, f"{said}: its priority is {theirs}, that of {by} {own}", numbers)
        return Cause(rule, by, said)

    def _by_queues(self, rule: Rule, victim: Job, said: str) -> Cause:
        """What the two queues hold and may hold, where their paths part."""
        ledger, by = self._cluster.ledger, self._asker.name
        path, other = ledger.path[self._asker.project], ledger.path[victim.project]
        level = parting(path, other)
        if level >= min(len(path), len(other)):
            return Cause(rule, by, said)
        what, of = ("quota", ledger.quota) if rule is Rule.RECLAIM_QUOTA else ("share", self._books.share)
        (name, have, most), (own, own_have, own_most) = (
            (ledger.queues[queue].name, ledger.allocated[queue][GPU_ROW], int(of[queue][GPU_ROW]))
            for queue in (other[level], path[level])
        )
        sentence = (
            f"{said}: {name} holds {written('gpu', have)} GPUs with a {what} of {written('gpu', most)}, "
            f"{own} {written('gpu', own_have)} with {written('gpu', own_most)}"
        )
        if rule is Rule.RECLAIM_QUOTA and have <= most:
            sentence += ": the quotas exceed the capacity, and the higher priority comes first"
        numbers = {"queue": name, "have": have, what: most}
        return Cause(
            rule, by, sentence, {**numbers, "by_queue": own, "by_have": own_have, f"by_{what}": own_most}
        )
