"""Serving waiting workloads from free room: in order, through the gates, each where it fits best."""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace
from math import log

from weir.cluster.jobs import PendingClass
from weir.cluster.reduce import holding
from weir.cluster.shapes import GPU_ROW
from weir.cluster.state import Cluster
from weir.decide.books import Books
from weir.decide.memo import Memo
from weir.decide.order import Candidate, Order
from weir.decide.place import Placer, Spot
from weir.decide.plan import Refusal
from weir.decide.ranking import NOWHERE
from weir.decide.room import Room
from weir.model.policy import Policy
from weir.model.reasons import Why
from weir.model.workloads import WHOLE_MILLI

DOMINANT_WEIGHT = 0.3
"""What a borrower's dominant share counts beside the logarithms of its run time and size."""


class Server:
    """Serves the classes that could find room; remembers how far each got, and why it went no further."""

    def __init__(
        self, cluster: Cluster, policy: Policy, books: Books, memo: Memo, room: Room, now_s: float
    ) -> None:
        self.cluster = cluster
        self.policy = policy
        self.books = books
        self.memo = memo
        self.room = room
        self.now_s = now_s
        self.refusals: dict[PendingClass, Refusal] = {}
        self._next: dict[PendingClass, int] = {}  # members of the class served so far
        self._claimed: dict[int, tuple[float, int, float, str]] = {}  # the first that waits in quota, by project
        self._placer = Placer(
            cluster, room, lambda shape, affinity: memo.ranking(cluster, shape, affinity), policy.search_steps
        )
        total = cluster.total(GPU_ROW) if policy.headroom else 0
        self.headroom_milli = int(policy.headroom * total / WHOLE_MILLI) * WHOLE_MILLI

    def serve(self) -> Iterator[list[Spot]]:
        """Places for one workload after another."""
        heads = [self._candidate(of, 0) for of in self._hopeful()]
        if not heads:
            return
        if self.policy.claims:
            self._claim_for_the_hopeless({head.of for head in heads}, {head.job.project for head in heads})
        learned = self.policy.borrowers == "learned" and self.cluster.runtimes.version > 0
        borrowers: list[Candidate] = []
        order = Order(self.books, heads)
        while (candidate := order.next()) is not None:
            entitled = self.entitled(candidate)
            if learned and not entitled:
                borrowers.append(candidate)
                order.settle()
                continue
            spots = self._try(candidate, entitled)
            if spots is None:
                order.settle()
            else:
                yield spots
                order.settle(self._followers(candidate))
        yield from self._lend(borrowers)

    def unserved(self) -> Iterator[Candidate]:
        """The first of each class left without room, as many as there are."""
        for of in self.cluster.waiting.values():
            at = self._next.get(of, 0)
            if at < len(of.members):
                yield self._candidate(of, at)

    # Candidates

    def _candidate(self, of: PendingClass, at: int) -> Candidate:
        return Candidate(of, at).aged(self.now_s, self.policy.aging)

    def _followers(self, served: Candidate) -> list[Candidate]:
        """What comes after a workload that was served: itself once more, and the next of its class."""
        followers = []
        grown = served.grown()
        if grown is not None:
            followers.append(grown.aged(self.now_s, self.policy.aging))
        if not served.again:
            self._next[served.of] = served.at + 1
            if served.at + 1 < len(served.of.members):
                followers.append(self._candidate(served.of, served.at + 1))
        return followers

    def _hopeful(self) -> Iterator[PendingClass]:
        """Classes each of whose shapes has room somewhere, unless they found none in this very room."""
        hopeless = self.memo.no_room
        refused: set[PendingClass] = set()
        found: dict[PendingClass, None] = {}
        for shape_id, classes in self.cluster.waiting_by_shape.items():
            shape = self.cluster.shapes.all[shape_id]
            plain = None
            for of in classes:
                if of in hopeless or of in refused:
                    continue
                affinity = self.memo.affinity(self.cluster, of.first)
                if affinity or plain is None:
                    rank = self.memo.ranking(self.cluster, shape, affinity).follow(self.room)
                    open_ = bool(len(rank)) and bool(rank.min() != NOWHERE)
                    plain = plain if affinity else open_
                else:
                    open_ = plain
                if open_:
                    found[of] = None
                else:
                    refused.add(of)
                    found.pop(of, None)
        yield from found

    # Gates and room

    def _claim_for_the_hopeless(self, hopeful: set[PendingClass], projects: set[int]) -> None:
        """A workload in quota that waits keeps its claim though it isn't even tried in this cycle."""
        for project in projects:
            for of in self.cluster.waiting_of[project]:
                if of not in hopeful:
                    self._claim(self._candidate(of, 0))

    def _claim(self, candidate: Candidate) -> None:
        project = candidate.job.project
        claimed = self._claimed.get(project)
        if (
            (claimed is None or candidate.line_key < claimed)
            and self.books.entitled(candidate.job.path, candidate.asks)
            and self.memo.could_run(self.cluster, candidate.of)
        ):
            self._claimed[project] = candidate.line_key

    def entitled(self, candidate: Candidate) -> bool:
        """Whether a workload stays in quota, and nobody of its project has an older claim to it."""
        claimed = self._claimed.get(candidate.job.project)
        if claimed is not None and candidate.line_key > claimed:
            return False
        return self.books.entitled(candidate.job.path, candidate.asks)

    def _try(self, candidate: Candidate, entitled: bool) -> list[Spot] | None:
        job, books = candidate.job, self.books
        refusal = books.over_limit(job.path, candidate.asks)
        if refusal is None and not job.spec.preemptible:
            refusal = books.fixed_over_quota(job.path, candidate.asks)
        if refusal is None and not entitled and self.headroom_milli:
            free = self.room.free_gpu_milli()
            if not self.keeps_headroom(candidate, free):
                refusal = Refusal(Why.HELD_BACK, have=free, most=self.headroom_milli)
        if refusal is None:
            affinity = self.memo.affinity(self.cluster, job)
            spots = self._placer.place(job, candidate.pods(), affinity)
            if spots is not None:
                for pod, node, _ in spots:
                    amounts = holding(self.cluster, pod.shape, node)
                    books.add(job.path, amounts, not job.spec.preemptible)
                return spots
            refusal = Refusal(Why.NO_ROOM)
            if not candidate.again:
                self.memo.no_room.add(candidate.of)
            if entitled and self.policy.claims:
                self._claim(candidate)
        self.refusals[candidate.of] = refusal
        return None

    def keeps_headroom(self, candidate: Candidate, free_milli: int) -> bool:
        """Whether it is in quota, or leaves free what is kept so that owners seldom have to take."""
        if not self.headroom_milli or self.entitled(candidate):
            return True
        want = next((amount for row, amount in candidate.asks if row == GPU_ROW), 0)
        return not want or free_milli - want >= self.headroom_milli

    # Borrowers in the learned order

    def _lend(self, borrowers: list[Candidate]) -> Iterator[list[Spot]]:
        """Workloads over quota, of whatever project: short and small ones of modest projects first."""
        heap = [(self.learned_key(candidate), at, candidate) for at, candidate in enumerate(borrowers)]
        heapify(heap)
        count = len(heap)
        while heap:
            key, at, candidate = heap[0]
            now = self.learned_key(candidate)
            if now > key:  # its project has grown since
                heapreplace(heap, (now, at, candidate))
                continue
            heappop(heap)
            spots = self._try(candidate, entitled=False)
            if spots is not None:
                yield spots
                for follower in self._followers(candidate):
                    count += 1
                    heappush(heap, (self.learned_key(follower), count, follower))

    def learned_key(self, candidate: Candidate) -> tuple[float, float, str]:
        """0.3 · dominant share + ln mean remaining run time + ln devices, then age and name."""
        job = candidate.job
        remaining = self.cluster.runtimes.remaining_s(job.likenesses, job.ran_s)
        assert remaining is not None
        dominant = min(self.books.dominant(job.project, candidate.asks)[0], 1e9)
        devices = max(job.devices_milli, 1) / WHOLE_MILLI
        key = DOMINANT_WEIGHT * dominant + log(remaining) + log(devices)
        return key, job.spec.submitted_s, job.spec.name
