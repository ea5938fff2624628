"""Order of workloads over quota by predicted run time, size and dominant share."""

from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush, heapreplace
from math import log

from weir.engine.order.queue_order import Candidate, RuntimeKeyOrder
from weir.engine.usage.quota_overlay import QuotaOverlay
from weir.model.workloads import WHOLE_MILLI
from weir.state.cluster import Cluster
from weir.state.jobs import Job
from weir.state.quota_usage import Amounts
from weir.state.runtime_history import RuntimeKey

_DOMINANT_MAX = 1e9
KeyedLine = Iterator[tuple[RuntimeKeyOrder, Candidate]]


class RuntimeOrder:
    """Keys of workloads by the usage of one cycle: smaller first.

    The value is share_weight · dominant share + ln mean remaining run time + ln devices.
    """

    def __init__(self, cluster: Cluster, overlay: QuotaOverlay, share_weight: float) -> None:
        self._cluster = cluster
        self.overlay = overlay
        self._share_weight = share_weight

    def key_of(self, candidate: Candidate) -> RuntimeKeyOrder:
        """Return the key of a candidate: its value, then share, age and name."""
        job = candidate.job
        share = self.share_term(job.project, candidate.request)
        return self._value(job, job.ran_s, share), share, job.submitted_s, job.name

    def running_value(self, job: Job, ran_s: float) -> float:
        """Return the value of a running workload that has run for `ran_s`."""
        return self._value(job, ran_s, self.share_term(job.project))

    def _value(self, job: Job, ran_s: float, share: float) -> float:
        return share + self.runtime_term(job.like, ran_s) + self.size_term(job)

    def share_term(self, project: int, request: Amounts = ()) -> float:
        """Return the weighted dominant share of a project with a request."""
        return self._share_weight * min(self.overlay.dominant(project, request)[0], _DOMINANT_MAX)

    def runtime_term(self, like: RuntimeKey, ran_s: float) -> float:
        """Return ln of the mean remaining run time of similar workloads, after `ran_s`."""
        remaining_s = self._cluster.runtimes.remaining_s(like, ran_s)
        assert remaining_s is not None
        return log(remaining_s)

    def size_term(self, job: Job) -> float:
        """Return ln of the devices of a workload."""
        return log(max(job.devices_milli, 1) / WHOLE_MILLI)


class BorrowerOrder:
    """Candidates of all projects, smallest key first.

    A candidate follows those of its project that have a higher priority. Keys of a project may rise when one
    of its workloads is placed.

    Args:
        order: the keys.
        candidates: candidates in any order.
        lines: candidates in rising order of their keys, of projects whose workloads have one priority.
    """

    def __init__(
        self, order: RuntimeOrder, candidates: Iterable[Candidate], lines: Iterable[KeyedLine]
    ) -> None:
        self._order = order
        self._heap: list[tuple[RuntimeKeyOrder, int, Candidate, KeyedLine | None]] = []
        self._count = 0  # sequence number of the last heap entry, to break ties
        self._in_line: Counter[int] = Counter()  # number of candidates in the heap or new, by project
        self._level: dict[int, float] = {}  # highest priority by project, negated as in line keys
        self._behind: dict[int, list[Candidate]] = {}  # candidates of lower priority, by project
        self._new: list[Candidate] = []
        candidates = list(candidates)
        for candidate in candidates:
            project, rank = candidate.job.project, candidate.line_key[0]
            if rank < self._level.get(project, rank + 1):
                self._level[project] = rank
        self.add(candidates)
        for line in lines:
            self._push_next(line)

    def add(self, candidates: Iterable[Candidate]) -> None:
        """Add candidates, behind those of their project with a higher priority."""
        for candidate in candidates:
            project, rank = candidate.job.project, candidate.line_key[0]
            if rank > self._level.get(project, rank):
                self._behind.setdefault(project, []).append(candidate)
            else:
                self._in_line[project] += 1
                self._new.append(candidate)

    def next(self) -> Candidate | None:
        """Remove and return the first candidate; None without any."""
        if not self._heap and not self._new:
            return None
        candidate = self._pop()
        self._in_line[candidate.job.project] -= 1
        return candidate

    def settle(self, candidate: Candidate, followers: Iterable[Candidate]) -> None:
        """Add the candidates that follow the served one; a lower priority follows the last of a higher."""
        self.add(followers)
        project = candidate.job.project
        if not self._in_line[project] and (behind := self._behind.pop(project, None)):
            self._level[project] = min(other.line_key[0] for other in behind)
            self.add(behind)

    def _push_next(self, line: KeyedLine) -> None:
        """Add the next candidate of a line."""
        following = next(line, None)
        if following is not None:
            key, candidate = following
            self._in_line[candidate.job.project] += 1
            heappush(self._heap, (key, self._count, candidate, line))
            self._count += 1

    def _pop(self) -> Candidate:
        for added in self._new:
            heappush(self._heap, (self._order.key_of(added), self._count, added, None))
            self._count += 1
        self._new = []
        charged = self._order.overlay.charged  # keys of these projects may have risen since
        while True:
            key, number, candidate, line = self._heap[0]
            now = self._order.key_of(candidate) if candidate.job.project in charged else key
            if now <= key:
                heappop(self._heap)
                if line is not None:
                    self._push_next(line)
                return candidate
            heapreplace(self._heap, (now, number, candidate, None))
            if line is not None:
                self._push_next(line)
