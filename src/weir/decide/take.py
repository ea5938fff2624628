"""Taking room for workloads that found none: in order, by consolidation, reclaim, preemption."""

from collections.abc import Callable, Iterator

import numpy as np

from weir.cluster.jobs import Job, PendingClass
from weir.cluster.running import Floats
from weir.decide.attempt import Attempt, Taken
from weir.decide.bench import Bench
from weir.decide.bounds import least_prices
from weir.decide.claims import Claims, Kind
from weir.decide.fit import Bools
from weir.decide.order import Candidate, Order
from weir.decide.serve import Server
from weir.decide.topology import Site
from weir.model.policy import Affinity

NEVER_S = float("-inf")
_DOMAINS_MOST = 8
"""Domains in which it is tried to make room, those that lack least first."""


class Taker:
    """Takes room in one cycle. The bench is laid out only if anyone has a claim."""

    def __init__(self, server: Server, lay_out: Callable[[], Bench]) -> None:
        self._server = server
        self._cluster = server.cluster
        self._policy = server.policy
        self._books = server.books
        self._lay_out = lay_out
        self._prices: dict[tuple[int, float], Floats] = {}
        self._bounds: dict[tuple[object, ...], bool] = {}  # by what is wanted: whether moves could suffice
        self._in_vain: set[tuple[object, ...]] = set()  # for what moves failed since room was last made
        self._free_milli = server.room.free_gpu_milli()

    def take(self) -> Iterator[tuple[Candidate, Taken]]:
        """Each workload for which room was made, and how."""
        heads = [
            self._server.candidate(of, at) for of, at in self._server.unserved() if self._may_hope(of, at)
        ]
        if not heads:
            return
        bench = self._lay_out()
        order = Order(self._books, heads)
        while (candidate := order.next()) is not None:
            taken = self._for(candidate, bench)
            if taken is None:
                order.settle()
            else:
                self._server.note_taken(candidate)
                yield candidate, taken
                more = candidate.at + 1 < len(candidate.of.members)
                order.settle([Candidate(candidate.of, candidate.at + 1)] if more else [])

    def _may_hope(self, of: PendingClass, at: int) -> bool:
        """Whether anything could be done for it at all: cheap to say, asked of every class in every cycle."""
        return (
            bool(self._cluster.releasing_on)
            or (
                of.first.spec.may_take
                and (
                    self._has_claim(of, at)
                    or self._has_lower(of)
                    or (self._could_consolidate(of, at, self._free_milli) and self._moves_could_suffice(of))
                )
            )
        ) and self._server.memo.could_run(self._cluster, of)

    def _has_claim(self, of: PendingClass, at: int) -> bool:
        """Whether its own queue may let it reclaim."""
        job = of.members[at][2]
        return (
            not job.spec.preemptible
            or self._is_owner(of, at)
            or self._server.now_s - job.waits_since_s >= self._policy.borrower_patience
        )

    def _is_owner(self, of: PendingClass, at: int) -> bool:
        """Whether its project's quota holds it, beside those with an older claim."""
        if self._policy.claims:
            return at < self._server.memo.owners(self._cluster, of.project).get(of, 0)
        return self._books.in_quota(of.project, of.step.asks)

    def _has_lower(self, of: PendingClass) -> bool:
        """Whether preemptible work of lower priority runs in its project."""
        priorities = self._cluster.priorities.get(of.project)
        if self._policy.aging:
            return bool(priorities)
        return priorities is not None and min(priorities, default=1 << 30) < of.first.spec.priority

    def _could_consolidate(self, of: PendingClass, at: int, free_milli: int) -> bool:
        """Whether moves alone could make room for it."""
        left = free_milli - of.step.gpu_milli
        if left < 0 or not self._policy.consolidation.enabled:
            return False
        if self._is_owner(of, at):
            return True
        return of.first.spec.preemptible and left >= self._server.headroom_milli

    def _moves_could_suffice(self, of: PendingClass) -> bool:
        """Whether room for it could be made within the budget, were there a place for all that moves.

        A bound for clusters in which nobody shares devices; where they are shared there is none.
        """
        key = (of.wants, of.first.spec.topology is None)
        found = self._bounds.get(key)
        if found is None:
            found = self._bounds[key] = self._bound_of_moves(of)
        return found

    def _bound_of_moves(self, of: PendingClass) -> bool:
        job, room = of.first, self._server.room
        if any(self._cluster.ledger.sharing[queue] for queue in self._cluster.ledger.top):
            return True
        budget = self._move_budget(job)
        for shape, lack in zip(job.shapes, of.step.lacks, strict=True):
            if lack and shape.whole:
                prices = self._move_prices(shape.devices, budget)
                if len(prices) < lack and room.whole.max(initial=0) < 2 * shape.devices:
                    return False
                if float(prices[:lack].sum()) > budget:
                    return False
        return True

    def _move_budget(self, job: Job) -> float:
        rules = self._policy
        if job.spec.topology is None:
            return rules.consolidation.budget
        return max(rules.consolidation.budget, rules.topology.budget)

    def _move_prices(self, devices: int, budget: float) -> Floats:
        """What room for one pod of so many whole devices costs on each node that can make it, least first."""
        found = self._prices.get((devices, budget))
        if found is None:
            whole = self._server.room.whole
            entries = self._cluster.running_pods.movable_whole(
                self._server.now_s, budget, self._policy.price.restart, int(whole.max(initial=0))
            )
            prices = np.sort(least_prices(whole, devices, *entries))
            found = self._prices[(devices, budget)] = prices[prices <= budget]
        return found

    def _for(self, candidate: Candidate, bench: Bench) -> Taken | None:
        """Make room for a workload, if there is a way."""
        job, books = candidate.job, self._books
        if bench.gone and job.is_running and any(pod in bench.gone for pod in job.running_pods()):
            return None  # what is being stopped or moved in this plan doesn't grow in it
        if not job.spec.preemptible and books.fixed_over_quota(job.path, candidate.asks) is not None:
            return None
        affinity = bench.affinity_of(job)
        over = books.over_limit(job.path, candidate.asks)
        free_milli = bench.placer.room.free_gpu_milli()
        more_room = self._cluster.releasing_on or bench.gone  # than there was when it was served
        if more_room and over is None and self._server.keeps_headroom(candidate, free_milli):
            spots = self._server.placed(candidate, bench.placer)
            if spots is not None:
                bench.count(spots, 1)
                return Taken(None, spots)
        if not job.spec.may_take:
            return None
        owner = self._is_owner(candidate.of, candidate.at)
        claims = Claims(books, self._policy, candidate, owner, bench.now_s)
        for kind in self._kinds(candidate, claims, bench, over is None, free_milli):
            key = (candidate.of, candidate.at, claims.is_patient)
            hopeless = self._server.memo.no_victims(self._cluster)
            lasting = kind is not Kind.CONSOLIDATE and not self._policy.min_runtime.any
            if lasting and not bench.gone and bench.now_s < hopeless.get(key, NEVER_S):
                continue
            alike = self._alike(candidate, claims, affinity) if kind is Kind.CONSOLIDATE else None
            if alike in self._in_vain:
                continue
            taken = self._taken(candidate, claims, bench, affinity, kind)
            if taken is not None:
                self._in_vain.clear()
                return taken
            if alike is not None:
                self._in_vain.add(alike)
            if lasting and kind is Kind.RECLAIM and not self._has_lower(candidate.of) and not bench.gone:
                hopeless[key] = self._alternates_until_s(job, bench.now_s)
        return None

    def _alternates_until_s(self, job: Job, now_s: float) -> float:
        """When the next of those it was stopped for may be stopped for it."""
        ends = (at_s + self._policy.reserve_after for at_s in job.stopped_for.values())
        return min((end_s for end_s in ends if end_s > now_s), default=float("inf"))

    def _alike(
        self, candidate: Candidate, claims: Claims, affinity: tuple[Affinity, ...]
    ) -> tuple[object, ...] | None:
        """What has to be equal that moves fail for two workloads alike; None if more than that matters."""
        job = candidate.job
        if job.is_running or job.stopped_for or job.spec.topology is not None:
            return None
        if self._server.open_to(candidate) is not None:
            return None
        return candidate.of.wants, tuple(group.order for group in job.spec.groups), affinity, claims.is_owner

    def _taken(
        self, candidate: Candidate, claims: Claims, bench: Bench, affinity: tuple[Affinity, ...], kind: Kind
    ) -> Taken | None:
        domains, anywhere = self._where(candidate, bench, affinity, kind)
        attempts = [Attempt(bench, candidate, claims, kind, affinity, within) for within in domains]
        if len(attempts) > 1:
            attempts.sort(key=lambda attempt: attempt.least_price())
        if anywhere:
            open_ = self._server.open_to(candidate)
            attempts.append(Attempt(bench, candidate, claims, kind, affinity, open_))
        for attempt in attempts:
            taken = attempt.run()
            if taken is not None:
                return taken
        return None

    def _where(
        self, candidate: Candidate, bench: Bench, affinity: tuple[Affinity, ...], kind: Kind
    ) -> tuple[list[Bools], bool]:
        """Domains in which to make room, by its topology, and whether it may be made anywhere."""
        job, open_ = candidate.job, self._server.open_to(candidate)
        asked = job.spec.topology
        if asked is None or (sum(candidate.lacks) == 1 and asked.required is None):
            return [], True
        levels = self._server.memo.levels(self._cluster, asked.name)
        site = Site(bench.placer, job, affinity, levels, open_)
        anywhere = asked.required is None and (
            kind is not Kind.CONSOLIDATE or self._server.may_scatter(candidate)
        )
        return site.domains_to_clear(candidate.pods())[:_DOMAINS_MOST], anywhere

    def _kinds(
        self, candidate: Candidate, claims: Claims, bench: Bench, under_limits: bool, free_milli: int
    ) -> Iterator[Kind]:
        of = candidate.of
        if (
            under_limits
            and self._could_consolidate(of, candidate.at, free_milli)
            and (self._cluster.releasing_on or bench.gone or self._moves_could_suffice(of))
        ):
            yield Kind.CONSOLIDATE
        if claims.any_reclaim:
            yield Kind.RECLAIM
        if self._has_lower(candidate.of):
            yield Kind.PREEMPT
