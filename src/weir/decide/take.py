"""Taking room for workloads that found none: whoever has a claim, in order, by consolidation, reclaim, preemption."""

from collections.abc import Callable, Iterator

from weir.cluster.jobs import PendingClass
from weir.cluster.shapes import GPU_ROW
from weir.decide.attempt import Attempt, Taken
from weir.decide.bench import Bench
from weir.decide.claims import Claims, Kind
from weir.decide.order import Candidate, Order
from weir.decide.plan import Refusal
from weir.decide.serve import Server
from weir.model.reasons import Why


class Taker:
    """Takes room in one cycle. The bench is laid out only if anyone has a claim."""

    def __init__(self, server: Server, lay_out: Callable[[], Bench]) -> None:
        self._server = server
        self._cluster = server.cluster
        self._policy = server.policy
        self._books = server.books
        self._lay_out = lay_out
        self._free_milli = server.room.free_gpu_milli()

    def take(self) -> Iterator[tuple[Candidate, Taken]]:
        """Each workload for which room was made, and how."""
        heads = [head for head in self._server.unserved() if self._may_hope(head)]
        if not heads:
            return
        bench = self._lay_out()
        order = Order(self._books, heads)
        while (candidate := order.next()) is not None:
            answer = self._for(candidate, bench)
            if isinstance(answer, Taken):
                yield candidate, answer
                more = candidate.at + 1 < len(candidate.of.members)
                order.settle([Candidate(candidate.of, candidate.at + 1)] if more else [])
            else:
                self._server.refusals[candidate.of] = answer
                order.settle()

    def _may_hope(self, candidate: Candidate) -> bool:
        """Whether anything could be done for it at all: cheap to say, asked of every class in every cycle."""
        of = candidate.of
        if self._cluster.releasing_on or self._could_consolidate(candidate, self._free_milli):
            return True
        job = candidate.job
        if job.path[-1] in self._lower(of) or Claims(
            self._books, self._policy, candidate, self._server.now_s
        ).any_reclaim:
            return self._server.memo.could_run(self._cluster, of)
        return False

    def _lower(self, of: PendingClass) -> tuple[int, ...]:
        priorities = self._cluster.priorities.get(of.project)
        return (of.project,) if priorities and min(priorities) < of.first.spec.priority else ()

    def _could_consolidate(self, candidate: Candidate, free_milli: int) -> bool:
        if not self._policy.consolidation.enabled:
            return False
        want = next((amount for row, amount in candidate.asks if row == GPU_ROW), 0)
        if want > free_milli:
            return False
        entitled = self._server.entitled(candidate)
        if not entitled and (
            not candidate.job.spec.preemptible or free_milli - want < self._server.headroom_milli
        ):
            return False
        return self._server.memo.could_run(self._cluster, candidate.of)

    def _for(self, candidate: Candidate, bench: Bench) -> Taken | Refusal:
        """Make room for a workload, or say why not."""
        job, books = candidate.job, self._books
        if not job.spec.preemptible:
            refusal = books.fixed_over_quota(job.path, candidate.asks)
            if refusal is not None:
                return refusal
        affinity = bench.affinity_of(job)
        over = books.over_limit(job.path, candidate.asks)
        free_milli = bench.placer.room.free_gpu_milli()
        if over is None and self._server.keeps_headroom(candidate, free_milli):
            spots = bench.placer.place(job, candidate.pods(), affinity)
            if spots is not None:
                bench.count(spots, 1)
                return Taken(None, spots)
        claims = Claims(books, self._policy, candidate, bench.now_s)
        for kind in self._kinds(candidate, claims, over is None, free_milli):
            taken = Attempt(bench, candidate, claims, kind, affinity, None).run()
            if taken is not None:
                return taken
        return over or Refusal(Why.NO_ROOM)

    def _kinds(
        self, candidate: Candidate, claims: Claims, under_limits: bool, free_milli: int
    ) -> Iterator[Kind]:
        if under_limits and self._could_consolidate(candidate, free_milli):
            yield Kind.CONSOLIDATE
        if claims.any_reclaim:
            yield Kind.RECLAIM
        if self._lower(candidate.of):
            yield Kind.PREEMPT
