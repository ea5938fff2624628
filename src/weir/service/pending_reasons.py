"""Reasons of pending workloads, computed at a bounded rate.

A reason is computed once for all equivalent workloads, only after a change, and in short turns, so that
reasons take at most a fifth of the control thread however many workloads wait.
"""

from time import thread_time

from structlog import get_logger

from weir.api.answers import Explanation
from weir.engine.cache import EngineCache
from weir.engine.pending_reasons import PendingReasonFinder
from weir.model.policy import Policy
from weir.model.reasons import Reason
from weir.state.cluster import Cluster
from weir.state.jobs import Job

_LOG = get_logger(__name__)
TURN_S = 0.02
"""Time of one turn, which computes at least one reason."""
PAUSE_LEAST_S = 0.5
PAUSE_FACTOR = 4.0
"""Factor between the time of a turn and the pause after it."""


def explanation(found: Reason | None) -> Explanation | None:
    """Return a reason as the API shows it."""
    return (
        None
        if found is None
        else Explanation(why=found.why.value, sentence=found.sentence, numbers=dict(found.numbers))
    )


class PendingReasons:
    """The reasons of all that wait. All calls come from the control thread."""

    def __init__(self, reasons: dict[str, Explanation]) -> None:
        self.reasons = reasons
        self._cache: tuple[Cluster, EngineCache] | None = None
        self._changes = -1
        self._left: list[list[Job]] = []
        self._next_s = 0.0

    def due_s(self, cluster: Cluster) -> float | None:
        """Return the time of the next update; None while nothing has changed since the last one."""
        waits = cluster.waiting or cluster.nominated
        return self._next_s if self._left or (waits and cluster.changes != self._changes) else None

    def turn(self, cluster: Cluster, policy: Policy, now_s: float) -> list[str]:
        """Find some out if it is time; the workloads of which the reason changed."""
        due_s = self.due_s(cluster)
        if due_s is None or now_s < due_s:
            return []
        started = thread_time()
        if not self._left:
            self._changes = cluster.changes
            self._left = [[job for _, _, job in of.members] for of in cluster.waiting.values()]
            self._left += [[job] for job in cluster.nominated.values()]
        changed: list[str] = []
        finder: PendingReasonFinder | None = None
        while self._left:
            members = [job for job in self._left.pop() if cluster.jobs.get(job.spec.name) is job]
            if members:
                finder = finder or self._finder(cluster, policy, now_s)
                changed += self._keep(members, self._found(finder, members[0]))
            if thread_time() - started > TURN_S:
                break
        took_s = thread_time() - started
        self._next_s = now_s + max(PAUSE_LEAST_S, PAUSE_FACTOR * took_s)
        return changed

    def _finder(self, cluster: Cluster, policy: Policy, now_s: float) -> PendingReasonFinder:
        if self._cache is None or self._cache[0] is not cluster:
            self._cache = cluster, EngineCache()
        return PendingReasonFinder(cluster, policy, now_s, self._cache[1])

    def _found(self, finder: PendingReasonFinder, job: Job) -> Explanation | None:
        """Return why a workload is pending; None if that fails, which must not stop the scheduler."""
        try:
            return explanation(finder.find(job))
        except Exception as error:  # noqa: BLE001 - a reason is only told to people
            self._cache = None
            _LOG.error("reason_not_found", workload=job.name, exc_info=error)
            return None

    def _keep(self, members: list[Job], why: Explanation | None) -> list[str]:
        changed = []
        alike: dict[int, bool] = {}  # equivalent workloads share reasons: each is compared once
        first = self.reasons.get(members[0].spec.name)
        if first == why:
            why = first  # the object that most of them have
        for job in members:
            name = job.spec.name
            before = self.reasons.get(name)
            if before is why:
                continue
            same = alike.get(id(before))
            if same is None:
                same = alike[id(before)] = before == why
            if not same:
                changed.append(name)
                if why is None:
                    self.reasons.pop(name, None)
                else:
                    self.reasons[name] = why
        return changed
