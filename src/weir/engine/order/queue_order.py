"""Queue order: a tournament over the quota tree, evaluated again after each placement."""

from collections import Counter
from collections.abc import Iterable
from heapq import heappop, heappush, heapreplace

from weir.engine.usage.quota_overlay import QuotaOverlay
from weir.state.jobs import EquivalenceClass, NextStep, Pod
from weir.state.shapes import RequestShape
from weir.state.usage_history import HOUR_S

RuntimeKeyOrder = tuple[float, float, float, str]
"""Sort key of a borrower: its place by predicted run time, then its share, age and name; smaller first."""
_ROOT = -1


class Candidate:
    """Next step of a pending workload: pods of each group to place, and their request.

    It is member number `index` of its class `queued`. With `again` it was served in this cycle already and
    may grow further. `placed` counts the pods of each group before this step; `choice` is the position of the
    group to grow by.
    """

    __slots__ = (
        *("again", "choice", "choices", "gpu_milli", "index"),
        *("job", "lacks", "line_key", "placed", "queued", "request"),
    )

    def __init__(
        self, queued: EquivalenceClass, index: int, placed: list[int] | None = None, choice: int = 0
    ) -> None:
        job = queued.members[index][2]
        step = queued.step if placed is None and not choice else NextStep(job, placed or job.placed, choice)
        self.queued = queued
        self.index = index
        self.job = job
        self.again = placed is not None
        self.placed = job.placed if placed is None else placed
        self.choice = choice
        self.choices = len(step.choices)
        self.lacks = step.lacks
        self.request = step.request
        self.gpu_milli = step.gpu_milli
        self.line_key = (
            queued.line_key(index)
            if placed is None
            else (-float(job.priority), step.standing, job.submitted_s, job.name)
        )

    def pods(self) -> dict[int, list[Pod]]:
        """Return the pods to place, by group."""
        chosen = {}
        for group, lack in enumerate(self.lacks):
            if lack:
                skip = self.placed[group] - self.job.placed[group]
                chosen[group] = self.job.pending_pods(group)[skip : skip + lack]
        return chosen

    def lacking(self) -> list[tuple[str, RequestShape, int]]:
        """Return the groups with missing pods: name, shape and number."""
        groups, shapes = self.job.spec.groups, self.job.shapes
        return [(groups[group].name, shapes[group], lack) for group, lack in enumerate(self.lacks) if lack]

    def grown(self) -> "Candidate | None":
        """Return the workload's next elastic pod after it was served; None without one."""
        if not self.job.is_elastic:
            return None
        placed = [have + lack for have, lack in zip(self.placed, self.lacks, strict=True)]
        if all(have >= most for have, most in zip(placed, self.job.most(), strict=True)):
            return None
        return Candidate(self.queued, self.index, placed)

    def otherwise(self) -> "Candidate | None":
        """Return the workload with the next group it may grow by, after this one didn't fit.

        The answer is None if there is no further one.
        """
        if self.choice + 1 >= self.choices:
            return None
        return Candidate(self.queued, self.index, self.placed if self.again else None, self.choice + 1)

    def aged(self, now_s: float, aging: float) -> "Candidate":
        """Add the priority earned by waiting and return the candidate."""
        if aging:
            hours = max(0.0, now_s - self.job.submitted_s) / HOUR_S
            self.line_key = (self.line_key[0] - aging * hours, *self.line_key[1:])
        return self


class QueueOrder:
    """Candidates in scheduling order. `next` returns one; `settle` takes its outcome."""

    def __init__(self, overlay: QuotaOverlay, candidates: Iterable[Candidate]) -> None:
        self._overlay = overlay
        self._lines: dict[int, list[tuple[tuple[float, int, float, str], int, Candidate]]] = {}
        self._count = 0
        self._served: Candidate | None = None  # the last candidate returned
        for candidate in candidates:
            self._push(candidate)
        self._heaps: dict[int, list[tuple[tuple[object, ...], int]]] = {}
        ledger = overlay.ledger
        branches = {queue for project in self._lines for queue in ledger.path[project]}
        children = Counter(ledger.parent[queue] for queue in branches)
        self._alone = {queue for queue in branches if children[ledger.parent[queue]] == 1}
        for queue in sorted(branches, reverse=True):  # children before their parents
            best = self._best(queue)
            assert best is not None
            heappush(self._heaps.setdefault(ledger.parent[queue], []), (self._key(queue, best), queue))

    def _push(self, candidate: Candidate) -> None:
        self._count += 1
        line = self._lines.setdefault(candidate.job.project, [])
        heappush(line, (candidate.line_key, self._count, candidate))

    def _best(self, queue: int) -> Candidate | None:
        while queue not in self._lines:
            heap = self._heaps.get(queue)
            if not heap:
                return None
            queue = heap[0][1]
        line = self._lines[queue]
        return line[0][2] if line else None

    def _key(self, queue: int, best: Candidate) -> tuple[object, ...]:
        """Return the sort key of a queue; empty if no sibling has pending work."""
        return () if queue in self._alone else self._overlay.key(queue, best.request)

    def next(self) -> Candidate | None:
        """Return the candidate to serve now; it stays first until it is settled; None if none is left."""
        self._served = self._best(_ROOT)
        return self._served

    def settle(self, followers: Iterable[Candidate] = ()) -> None:
        """Remove the last candidate, served or refused.

        `followers` are the next candidates of its project.
        """
        served = self._served
        assert served is not None
        heappop(self._lines[served.job.project])
        for follower in followers:
            self._push(follower)
        parents = self._overlay.ledger.parent
        for queue in reversed(served.job.path):
            heap = self._heaps[parents[queue]]
            assert heap[0][1] == queue
            best = self._best(queue)
            if best is None:
                heappop(heap)
            else:
                heapreplace(heap, (self._key(queue, best), queue))
