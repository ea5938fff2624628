"""Order of pending workloads over quota: by predicted run time, and by priority within a project."""

from collections import Counter
from collections.abc import Callable, Iterable
from heapq import heappop, heappush, heapreplace

from weir.engine.queue_order import Candidate, RuntimeKeyOrder


class BorrowerOrder:
    """Candidates of all projects, smallest key first.

    A candidate follows those of its project that have a higher priority. Keys of a project may rise when one
    of its workloads is placed.
    """

    def __init__(
        self, key_of: Callable[[Candidate], RuntimeKeyOrder], candidates: Iterable[Candidate]
    ) -> None:
        self._key_of = key_of
        self._heap: list[tuple[RuntimeKeyOrder, int, Candidate]] = []
        self._count = 0  # of candidates that were ever in the heap, to break ties
        self._in_line: Counter[int] = Counter()  # candidates in the heap or new, by project
        self._level: dict[int, float] = {}  # highest priority of each project, negative, as line keys begin
        self._behind: dict[int, list[Candidate]] = {}  # those of lower priority
        self._new: list[Candidate] = []
        self._grown: set[int] = set()
        candidates = list(candidates)
        for each in candidates:
            project, rank = each.job.project, each.line_key[0]
            if rank < self._level.get(project, rank + 1):
                self._level[project] = rank
        self.add(candidates)

    def add(self, candidates: Iterable[Candidate]) -> None:
        """Add candidates: behind those of their project with a higher priority, if there are any."""
        for each in candidates:
            project = each.job.project
            if each.line_key[0] > self._level[project]:
                self._behind.setdefault(project, []).append(each)
            else:
                self._in_line[project] += 1
                self._new.append(each)

    def note_placed(self, candidate: Candidate) -> None:
        """Expect higher keys of the candidate's project."""
        self._grown.add(candidate.job.project)

    def next(self) -> Candidate | None:
        """Remove and return the first candidate; None without any."""
        if not self._heap and len(self._new) == 1:
            candidate = self._new.pop()
        elif self._heap or self._new:
            candidate = self._pop()
        else:
            return None
        self._in_line[candidate.job.project] -= 1
        return candidate

    def settle(self, candidate: Candidate, followers: Iterable[Candidate]) -> None:
        """Add the followers of a candidate; its project goes on with the next priority after the last."""
        self.add(followers)
        project = candidate.job.project
        if not self._in_line[project] and (behind := self._behind.pop(project, None)):
            self._level[project] = min(each.line_key[0] for each in behind)
            self.add(behind)

    def _pop(self) -> Candidate:
        for each in self._new:
            heappush(self._heap, (self._key_of(each), self._count, each))
            self._count += 1
        self._new = []
        while True:
            key, at, candidate = self._heap[0]
            now = self._key_of(candidate) if candidate.job.project in self._grown else key
            if now <= key:
                heappop(self._heap)
                return candidate
            heapreplace(self._heap, (now, at, candidate))
