"""Preemption: free capacity for workloads that didn't fit, by consolidation, reclaim or preempt."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property

from weir.engine.allocate import Allocator
from weir.engine.cache import CandidateSets, ConsolidationKey, Eligibility, FailedReclaim, Sleeping
from weir.engine.feasibility import Bools
from weir.engine.placer import NodePlacement
from weir.engine.preemption_context import PreemptionContext
from weir.engine.preemption_rules import PreemptionKind, PreemptionRules, QuotaProtection
from weir.engine.queue_order import Candidate, QueueOrder
from weir.engine.quota_overlay import INFINITE
from weir.engine.reclaim_bounds import ReclaimBounds
from weir.engine.topology_placer import TopologyPlacer
from weir.engine.victim_candidates import VictimCandidates
from weir.engine.victim_search import PreemptionPlan, VictimSearch
from weir.model.policy import AffinityPolicy
from weir.state.jobs import EquivalenceClass, Job

_DOMAINS_MOST = 8
"""Domains in which it is tried to make room, those that lack least first."""


class Preemptor:
    """Frees capacity in one cycle. The context is built only if a workload is eligible."""

    def __init__(self, allocator: Allocator, lay_out: Callable[[], PreemptionContext]) -> None:
        self._allocator = allocator
        self._cluster = allocator.cluster
        self._policy = allocator.policy
        self._overlay = allocator.overlay
        self._lay_out = lay_out
        self._outlook = ReclaimBounds(allocator)
        self._candidate_sets: dict[
            tuple[float, PreemptionKind, QuotaProtection, PreemptionRules | bool], VictimCandidates
        ] = {}  # since room was last made
        # For what moves failed since room was last made, and whether they do till somebody saves
        self._in_vain: dict[tuple[object, ...], bool] = {}

    def gather(self) -> Iterator[tuple[Candidate, PreemptionPlan]]:
        """Yield scattered gangs with one domain cleared by moves, or else their first placement."""
        scattered = self._allocator.scattered
        if scattered:  # none of them is moved for another
            self._context.coming.update(candidate.job.name for candidate, _ in scattered)
        for candidate, placements in scattered:
            self._context.count(placements, -1)
            taken = self._instead(candidate, placements, self._context)
            if taken.kind is not None:
                self._allocator.give_back(placements)
            yield candidate, taken

    def take(self) -> Iterator[tuple[Candidate, PreemptionPlan]]:
        """Yield each workload for which capacity was freed, with the plan."""
        hopes = self._allocator.cache.hopes
        if hopes is None:
            hopes = self._allocator.cache.hopes = self._hopes()
        heads: list[Candidate] = []
        movers = self._outlook.movers
        for moves, waiting in hopes.items():
            if moves is None:
                heads += [self._allocator.candidate(*one) for one in waiting if self._may_wake(*one)]
            else:
                of, at = waiting[0]
                if movers.could_suffice(of.members[at][2], of.step.lacks, moves):
                    heads += [self._allocator.candidate(*one) for one in waiting if self._wakes(*one)]
        if not heads:
            return
        yield from self._take_for(heads)

    def take_again(self) -> Iterator[tuple[Candidate, PreemptionPlan]]:
        """Free capacity for workloads with refused evictions, before others use what is free."""
        heads: list[Candidate] = []
        for name, at_s in self._cluster.withdrawn.items():
            of = self._cluster.jobs[name].waiting
            if of is not None and self._allocator.now_s - at_s <= self._policy.budgets.retry:
                at = next(at for at, member in enumerate(of.members) if member[1] == name)
                heads.append(self._allocator.candidate(of, at))
        if heads:
            yield from self._take_for(heads)

    def _take_for(self, heads: Sequence[Candidate]) -> Iterator[tuple[Candidate, PreemptionPlan]]:
        context = self._context
        order = QueueOrder(self._overlay, heads)
        while (candidate := order.next()) is not None:
            taken = self._for(candidate, context)
            if taken is None:
                order.settle()
            else:
                self._allocator.note_taken(candidate)
                yield candidate, taken
                more = candidate.at + 1 < len(candidate.of.members)
                order.settle([Candidate(candidate.of, candidate.at + 1)] if more else [])

    def _hopes(self) -> CandidateSets:
        """Return the workloads for which preemption might succeed, by a cheap check of each class."""
        hopes: CandidateSets = {}
        frees, served = bool(self._cluster.releasing_on), self._allocator.projects_served()
        for project, classes in self._cluster.waiting_of.items():
            if frees:
                hopes.setdefault(None, []).extend(self._unserved(classes))
                continue
            able = self._able(project, classes, project in served)
            if able.takers:
                hopes.setdefault(None, []).extend(able.takers)
            for of, at, moves, free_milli in able.movers:
                if free_milli <= self._free_milli:
                    hopes.setdefault(moves, []).append((of, at))
        return hopes

    def _unserved(self, classes: Collection[EquivalenceClass]) -> list[tuple[EquivalenceClass, int]]:
        """Return the first unserved member of each class that could run on an empty cluster."""
        allocator, cache = self._allocator, self._allocator.cache
        first = [(of, allocator.served_of(of)) for of in classes]
        return [(of, at) for of, at in first if at < len(of.members) and cache.could_run(self._cluster, of)]

    def _able(self, project: int, classes: Collection[EquivalenceClass], served: bool) -> Eligibility:
        known, policy, now_s = self._allocator.cache.able, self._policy, self._allocator.now_s
        kept = known.get(project)
        if (
            kept is not None
            and not served
            and kept.touched == self._cluster.ledger.touched[project]
            and now_s - kept.since_s < policy.reclaim_share_after
            and now_s - kept.gang_since_s < policy.topology.patience
        ):
            return kept
        found = self._found_able(project, classes)
        if policy.oldest_first_in_quota and not served:
            known[project] = found
        return found

    def _found_able(self, project: int, classes: Collection[EquivalenceClass]) -> Eligibility:
        takers: list[tuple[EquivalenceClass, int]] = []
        movers: list[tuple[EquivalenceClass, int, ConsolidationKey, int]] = []
        since_s = gang_since_s = INFINITE
        lowest = self._lowest(project)
        for of, at in self._unserved(classes):
            job = of.members[at][2]
            if not job.can_preempt:
                continue
            owner = self._is_owner(of, at)
            if owner or lowest < job.priority or self._has_claim(job):
                takers.append((of, at))
                continue
            since_s = min(since_s, job.waits_since_s)
            free_milli = self._free_to_consolidate(of, owner)
            if free_milli is not None:
                movers.append((of, at, self._moves_for(of, at, owner), free_milli))
                if job.topology is not None and not self._allocator.may_scatter(job, of.step.lacks):
                    gang_since_s = min(gang_since_s, job.waits_since_s)
        return Eligibility(self._cluster.ledger.touched[project], since_s, gang_since_s, takers, movers)

    def _lowest(self, project: int) -> float:
        """Return the lowest priority of running preemptible work of a project; infinite without any."""
        priorities = self._cluster.priorities.get(project)
        if not priorities:
            return INFINITE
        return -INFINITE if self._policy.aging else min(priorities)

    def _may_wake(self, of: EquivalenceClass, at: int) -> bool:
        """Return True if an eligible workload may have more options than at the last check."""
        if self._wakes(of, at):
            return True
        owner = self._is_owner(of, at)
        return self._could_consolidate(of, owner, self._free_milli) and self._could_move(of, at, owner)

    def _wakes(self, of: EquivalenceClass, at: int) -> bool:
        """Return True if a possible victim has checkpointed since this request was put to sleep."""
        known = self._allocator.cache.asleep
        asleep = known.get((of, at))
        if asleep is None or self._allocator.now_s >= asleep.until_s:
            return True
        if self._outlook.more_may_go(asleep, of.members[at][2], of.step.lacks):
            return True
        known[of, at] = asleep._replace(saves=self._cluster.saves)
        return False

    def _could_move(self, of: EquivalenceClass, at: int, owner: bool) -> bool:
        job, lacks = of.members[at][2], of.step.lacks
        return self._outlook.movers.could_suffice(job, lacks, self._moves_for(of, at, owner))

    def _has_claim(self, job: Job) -> bool:
        """Return True if it may reclaim although it isn't in quota."""
        if not job.preemptible:
            return True
        return self._allocator.now_s - job.waits_since_s >= self._policy.reclaim_share_after

    def _is_owner(self, of: EquivalenceClass, at: int) -> bool:
        """Return True if its project's quota covers it, after older workloads of the project."""
        if self._policy.oldest_first_in_quota:
            return at < self._allocator.cache.owners(self._cluster, of.project).get(of, 0)
        return self._overlay.in_quota(of.project, of.step.asks)

    def _has_lower(self, of: EquivalenceClass) -> bool:
        """Return True if preemptible work of lower priority runs in its project."""
        return self._lowest(of.project) < of.first.priority

    def _could_consolidate(self, of: EquivalenceClass, owner: bool, free_milli: int) -> bool:
        """Return True if moves alone could free capacity for it."""
        needed = self._free_to_consolidate(of, owner)
        return needed is not None and free_milli >= needed

    def _free_to_consolidate(self, of: EquivalenceClass, owner: bool) -> int | None:
        """Return the free capacity that moves alone need for it; None if they aren't allowed."""
        if not self._policy.consolidation.enabled:
            return None
        if owner:
            return of.step.gpu_milli
        return of.step.gpu_milli + self._allocator.headroom_milli if of.first.preemptible else None

    def _moves_for(self, of: EquivalenceClass, at: int, owner: bool) -> ConsolidationKey:
        """Return the key that is equal for workloads that the same moves could help."""
        job = of.members[at][2]
        spares = job.preemptible and not owner and self._policy.consolidation.protect_in_quota
        topology = job.topology
        if topology is None:
            return ConsolidationKey(of.wants, None, True, False, spares)
        scattered = self._allocator.may_scatter(job, of.step.lacks)
        return ConsolidationKey(of.wants, topology, scattered, job.is_running, spares)

    @cached_property
    def _free_milli(self) -> int:
        return self._allocator.capacity.free_gpu_milli()

    @cached_property
    def _context(self) -> PreemptionContext:
        return self._lay_out()

    def _for(self, candidate: Candidate, context: PreemptionContext) -> PreemptionPlan | None:
        """Free capacity for a workload; None if no way succeeds."""
        job, overlay = candidate.job, self._overlay
        if context.gone and job.is_running and any(pod in context.gone for pod in job.running_pods()):
            return None  # what is being stopped or moved in this plan doesn't grow in it
        if not job.preemptible and overlay.fixed_over_quota(job.path, candidate.asks) is not None:
            return None
        over = overlay.over_limit(job.path, candidate.asks)
        free_milli = context.placer.capacity.free_gpu_milli()
        more_room = self._cluster.releasing_on or context.gone  # than there was when it was served
        if more_room and over is None and self._allocator.keeps_headroom(candidate, free_milli):
            placements = self._allocator.placed(candidate, context.placer)
            if placements is not None:
                return self._instead(candidate, placements, context)
        if not job.can_preempt:
            return None
        taken = self._by(over is None, free_milli, candidate, context)
        if taken is not None:
            self._in_vain.clear()
            self._candidate_sets.clear()
        return taken

    def _by(
        self, under_limits: bool, free_milli: int, candidate: Candidate, context: PreemptionContext
    ) -> PreemptionPlan | None:
        """Free capacity in the first way that succeeds; remember a failure that lasts."""
        preemption_rules, affinity = self._preemption_rules(candidate), context.affinity_of(candidate.job)
        until_s = INFINITE  # for how long there is none
        for kind, most in self._ways(candidate, preemption_rules, context, under_limits, free_milli):
            short_until_s = self._short_until_s(candidate, preemption_rules, context, kind, most)
            if short_until_s is not None:
                until_s = min(until_s, short_until_s)
                continue
            alike = (
                self._alike(candidate, preemption_rules, affinity)
                if kind is PreemptionKind.CONSOLIDATE
                else None
            )
            if alike is not None and alike in self._in_vain:
                until_s = until_s if self._in_vain[alike] else -INFINITE
                continue
            taken, is_final = self._taken(candidate, preemption_rules, context, affinity, kind, most)
            if taken is not None:
                return taken
            if alike is None or not is_final:
                until_s = -INFINITE
            if alike is not None:
                self._in_vain[alike] = is_final
        if until_s > context.now_s and not (context.gone or self._cluster.releasing_on):
            asleep = Sleeping(until_s, self._cluster.saves, self._outlook.asked(preemption_rules))
            self._allocator.cache.asleep[candidate.of, candidate.at] = asleep
        return None

    def _preemption_rules(self, candidate: Candidate) -> PreemptionRules:
        owner = self._is_owner(candidate.of, candidate.at)
        return PreemptionRules(self._overlay, self._policy, candidate, owner, self._allocator.now_s)

    def _short_until_s(
        self,
        candidate: Candidate,
        preemption_rules: PreemptionRules,
        context: PreemptionContext,
        kind: PreemptionKind,
        most: QuotaProtection,
    ) -> float | None:
        """Return the time until which a cached failure holds; None if it must be tried."""
        key = (candidate.of, candidate.at, preemption_rules.is_patient)
        known = self._allocator.cache.no_victims(self._cluster).get(key)
        if (
            known is None
            or kind in (PreemptionKind.CONSOLIDATE, PreemptionKind.OVERRIDE)
            or context.gone
            or context.now_s >= known.until_s
        ):
            return None
        victim_candidates = self._victim_candidates(
            preemption_rules, context, kind, most, self._policy.consolidation.budget
        )
        still = known.still(victim_candidates.jobs.keys(), self._allocator.open_to(candidate))
        return known.until_s if still else None

    def _note_short(
        self,
        candidate: Candidate,
        preemption_rules: PreemptionRules,
        context: PreemptionContext,
        victim_candidates: VictimCandidates,
    ) -> None:
        """Cache a failed reclaim if only a state change can make it succeed."""
        job, gone = candidate.job, context.gone
        if victim_candidates.kind is PreemptionKind.RECLAIM and not (
            gone or self._more_by_time or self._has_lower(candidate.of)
        ):
            until_s = self._alternates_until_s(job, context.now_s)
            known = self._allocator.cache.no_victims(self._cluster)
            open_ = self._allocator.open_to(candidate)
            known[candidate.of, candidate.at, preemption_rules.is_patient] = FailedReclaim(
                until_s, frozenset(victim_candidates.jobs), open_
            )

    @property
    def _more_by_time(self) -> bool:
        """Return True if time alone can add victims."""
        return bool(self._policy.min_runtime.any or self._policy.usage.k or self._cluster.refused)

    def _alternates_until_s(self, job: Job, now_s: float) -> float:
        """Return the time at which the next workload that preempted it becomes eligible as a victim."""
        ends = (at_s + self._policy.reserve_after for at_s in job.stopped_for.values())
        return min((end_s for end_s in ends if end_s > now_s), default=float("inf"))

    def _alike(
        self, candidate: Candidate, preemption_rules: PreemptionRules, affinity: tuple[AffinityPolicy, ...]
    ) -> tuple[object, ...] | None:
        """Return the key of workloads for which moves fail alike; None if more than the key matters."""
        job = candidate.job
        if job.is_running or job.stopped_for:
            return None
        if self._allocator.open_to(candidate) is not None:
            return None
        orders, scattered = tuple(group.order for group in job.spec.groups), None
        if job.topology is not None:
            scattered = self._allocator.may_scatter(job, candidate.lacks)
        return candidate.of.wants, orders, affinity, preemption_rules.is_owner, job.topology, scattered

    def _taken(
        self,
        candidate: Candidate,
        preemption_rules: PreemptionRules,
        context: PreemptionContext,
        affinity: tuple[AffinityPolicy, ...],
        kind: PreemptionKind,
        most: QuotaProtection,
    ) -> tuple[PreemptionPlan | None, bool]:
        """Free capacity in one way; if that fails, also return whether it fails until a checkpoint."""
        domains, anywhere = self._where(candidate, context, affinity, kind)
        taken = self._in_one(domains, candidate, preemption_rules, context, affinity, kind, most)
        if taken is not None or not anywhere:
            return taken, False
        victim_candidates = self._victim_candidates(
            preemption_rules, context, kind, most, self._policy.consolidation.budget
        )
        attempt = VictimSearch(
            context,
            candidate,
            preemption_rules,
            victim_candidates,
            affinity,
            self._allocator.open_to(candidate),
        )
        taken = attempt.run()
        if taken is None and not domains and attempt.fell_short:
            self._note_short(candidate, preemption_rules, context, victim_candidates)
        return taken, attempt.is_final and not domains and not self._more_by_time

    def _in_one(
        self,
        domains: Sequence[Bools],
        candidate: Candidate,
        preemption_rules: PreemptionRules,
        context: PreemptionContext,
        affinity: tuple[AffinityPolicy, ...],
        kind: PreemptionKind,
        most: QuotaProtection = QuotaProtection.NONE,
    ) -> PreemptionPlan | None:
        """Free capacity in the cheapest domain, which may cost more than anywhere."""
        if not domains:
            return None
        victim_candidates = self._victim_candidates(
            preemption_rules, context, kind, most, self._policy.topology.budget
        )
        attempts = [
            VictimSearch(context, candidate, preemption_rules, victim_candidates, affinity, within)
            for within in domains
        ]
        if len(attempts) > 1:
            attempts.sort(key=lambda attempt: attempt.least_price())
        return next((taken for attempt in attempts if (taken := attempt.run()) is not None), None)

    def _instead(
        self, candidate: Candidate, placements: list[NodePlacement], context: PreemptionContext
    ) -> PreemptionPlan:
        """Clear one domain by moves if these placements are scattered; else keep them."""
        job, placer, kind = candidate.job, context.placer, PreemptionKind.CONSOLIDATE
        if (
            self._allocator.is_scattered(job, placements)
            and job.can_preempt
            and self._policy.consolidation.enabled
        ):
            affinity, preemption_rules = context.affinity_of(job), self._preemption_rules(candidate)
            placer.give_back(placements)
            self._candidate_sets.clear()
            domains, _ = self._where(candidate, context, affinity, kind)
            taken = self._in_one(domains, candidate, preemption_rules, context, affinity, kind)
            if taken is not None:
                self._in_vain.clear()
                self._candidate_sets.clear()
                return taken
            for pod, node, devices in placements:
                placer.capacity.allocate(node, pod.shape, devices)
        context.count(placements, 1)
        self._candidate_sets.clear()
        return PreemptionPlan(None, placements)

    def _victim_candidates(
        self,
        preemption_rules: PreemptionRules,
        context: PreemptionContext,
        kind: PreemptionKind,
        most: QuotaProtection,
        budget: float,
    ) -> VictimCandidates:
        """Return the victim candidates; all who ask for moves share them until capacity is freed."""
        alone = (
            kind is not PreemptionKind.CONSOLIDATE
            or preemption_rules.job.is_running
            or bool(preemption_rules.job.stopped_for)
        )
        key = (budget, kind, most, preemption_rules if alone else preemption_rules.is_owner)
        found = self._candidate_sets.get(key)
        if found is None:
            found = self._candidate_sets[key] = VictimCandidates(
                context, preemption_rules, kind, most, budget
            )
        return found.asked_by(preemption_rules)

    def _where(
        self,
        candidate: Candidate,
        context: PreemptionContext,
        affinity: tuple[AffinityPolicy, ...],
        kind: PreemptionKind,
    ) -> tuple[list[Bools], bool]:
        """Return the domains to clear by its topology, and whether any node may be cleared."""
        job, open_ = candidate.job, self._allocator.open_to(candidate)
        asked = job.topology
        if asked is None or (sum(candidate.lacks) == 1 and asked.required is None):
            return [], True
        levels = self._allocator.cache.levels(self._cluster, asked.name)
        site = TopologyPlacer(context.placer, job, affinity, levels, open_)
        anywhere = asked.required is None and (
            kind is not PreemptionKind.CONSOLIDATE or self._allocator.may_scatter(job, candidate.lacks)
        )
        return site.domains_to_clear(candidate.pods())[:_DOMAINS_MOST], anywhere

    def _ways(
        self,
        candidate: Candidate,
        preemption_rules: PreemptionRules,
        context: PreemptionContext,
        under_limits: bool,
        free_milli: int,
    ) -> Iterator[tuple[PreemptionKind, QuotaProtection]]:
        """Yield how room may be made for a workload, in the order in which that is tried.

        All that is held over quota comes before anything within a quota: of other projects by reclaim, and
        of its own, where that is over its quota, by preemption.
        """
        of, owner = candidate.of, self._is_owner(candidate.of, candidate.at)
        if (
            under_limits
            and self._could_consolidate(of, owner, free_milli)
            and (self._cluster.releasing_on or context.gone or self._could_move(of, candidate.at, owner))
        ):
            yield PreemptionKind.CONSOLIDATE, QuotaProtection.NONE
        protections: list[QuotaProtection] = []
        if preemption_rules.any_reclaim and self._outlook.could_reclaim(
            preemption_rules, candidate.lacks, context
        ):
            protections = preemption_rules.protections()
            yield PreemptionKind.RECLAIM, QuotaProtection.NONE
        preempts = self._has_lower(of)
        if preempts and preemption_rules.own_over_quota:
            preempts = False
            yield PreemptionKind.PREEMPT, QuotaProtection.NONE
        for most in protections[1:]:
            yield PreemptionKind.RECLAIM, most
        if preempts:
            yield PreemptionKind.PREEMPT, QuotaProtection.NONE
        if protections and self._may_override(preemption_rules):
            yield PreemptionKind.OVERRIDE, QuotaProtection.NONE

    def _may_override(self, preemption_rules: PreemptionRules) -> bool:
        """Return True if budgets protect nothing any more that is held over quota from this workload."""
        rules = self._policy.budgets
        if not self._cluster.budgets or not preemption_rules.is_owner:
            return False
        if rules.borrowed == "grace_period":
            return self._any_lapsed
        waited_s = self._allocator.now_s - preemption_rules.job.waits_since_s
        return rules.borrowed == "override" and waited_s >= rules.grace

    @cached_property
    def _any_lapsed(self) -> bool:
        running = self._cluster.running.values()
        return any(job.spec.lapsed for jobs in running for job in jobs.values())
