"""Victim candidates: the running workloads that one requester may stop or move, with tier and price."""

from collections.abc import Sequence
from functools import cache

from weir.engine.protection.preemption_rules import (
    PreemptionKind,
    PreemptionRules,
    PreemptionWay,
    QuotaProtection,
)
from weir.engine.usage.quota_overlay import INFINITE
from weir.engine.victims.eviction_price import VictimTiers, lost_work, price_of_move
from weir.engine.victims.legal_order import LegalOrder
from weir.engine.victims.move_bounds import CheapestMoves
from weir.engine.victims.preemption_context import PreemptionContext
from weir.engine.victims.victim_entries import VictimEntries
from weir.engine.victims.victim_sets import ANY_PROJECT, Permits, Tier, Victim
from weir.model.reasons import EvictionRule
from weir.model.workloads import WorkloadType
from weir.state.capacity_columns import Ints
from weir.state.jobs import Job, Phase, Pod

LAST: Tier = (len(QuotaProtection), (), ANY_PROJECT)
"""Tier of workloads that may only be moved: they come after all that may be stopped."""


class EligibleVictims:
    """Eligible workloads of one kind of preemption.

    Workloads that quotas protect more than `most` aren't stopped. Workloads that disruption budgets protect
    are neither stopped nor moved, unless the kind is to override the budgets. `rows` are the movable pods to
    examine, where not all are.
    """

    def __init__(
        self,
        context: PreemptionContext,
        rules: PreemptionRules,
        way: PreemptionWay,
        move_budget: float,
        rows: Ints | None,
    ) -> None:
        self._context = context
        self._cluster = context.cluster
        self._policy = context.policy
        self._accounting = context.accounting
        self._disruptions = context.accounting.disruptions
        self._now_s = context.now_s
        self._rules = rules
        self._kind, self._most = way
        self._move_budget = move_budget
        self._rows = rows
        self._has_capacity = cache(context.placer.has_capacity)

    def find(self) -> dict[Job, bool]:
        """Return the eligible workloads, with True for each that may only be moved."""
        if self._kind is PreemptionKind.CONSOLIDATE:
            return dict.fromkeys(self._movable(), True)
        idle = self._allowed(list(self._cluster.unprotected.values()))
        if self._kind is PreemptionKind.IDLE:
            return dict.fromkeys(idle, False)
        victims = dict.fromkeys((*idle, *self._stoppable()), False)
        if victims and self._policy.consolidation.enabled:
            for job in self._movable():
                victims.setdefault(job, True)
        return victims

    def _stoppable(self) -> list[Job]:
        """Return running preemptible workloads that are eligible now or after other evictions."""
        rules, running = self._rules, self._cluster.running
        if self._kind is PreemptionKind.PREEMPT:
            own = self._of_project(rules.job.project)
            return [job for job in own if rules.rule_for(job) is not None]
        stoppable: list[Job] = []
        others = [project for project in running if project != rules.job.project and running[project]]
        if len(rules.path) == 1:
            for project in others:
                if self._may_reclaim_from(project):
                    stoppable += self._of_project(project)
            return stoppable
        with self._context.transaction.trial():
            while eligible := [project for project in others if self._may_reclaim_from(project)]:
                for project in eligible:
                    others.remove(project)
                    jobs = self._of_project(project)
                    stoppable += jobs
                    for job in jobs:  # in a deep tree, these evictions may make other projects eligible
                        self._accounting.release(self._context.running(job))
        return stoppable

    def _may_reclaim_from(self, project: int) -> bool:
        """Return True if a project's workloads may be reclaimed with its present usage."""
        path = self._cluster.ledger.path[project]
        return self._rules.protections.protection_of(path) <= self._most and self._rules.may_ask(path)

    def _movable(self) -> list[Job]:
        """Return running preemptible workloads that are cheap to move and fit elsewhere."""
        prices, overlay = self._policy.price, self._accounting.overlay
        running, rows = self._cluster.running_pods, self._rows
        if rows is None:
            free_block = self._context.placer.capacity.totals.largest_free_blocks()[0]
            rows = running.saved_within(self._now_s, self._move_budget, prices.restart, free_block)
        jobs = running.jobs_of(rows)
        if self._policy.consolidation.protect_in_quota and not self._rules.is_owner:
            projects = {job.project: job.path for job in jobs}
            over = {project for project, path in projects.items() if overlay.over_any_quota(path)}
            jobs = [job for job in jobs if job.project in over]
        most, now_s = self._move_budget, self._now_s
        movable = [job for job in self._allowed(jobs) if self._could_move(job)]
        return [job for job in movable if lost_work(job, job.devices_held()[0], prices, now_s) <= most]

    def _could_move(self, job: Job) -> bool:
        """Return True if each shape of a workload fits any node."""
        affinity = self._context.affinity_of(job)
        for group, shape in enumerate(job.shapes):
            if job.placed[group] and not self._has_capacity(shape, affinity):
                return False
        return True

    def _of_project(self, project: int) -> list[Job]:
        running = self._cluster.running.get(project, {}).values()
        return self._allowed([job for job in running if job.preemptible])

    def _allowed(self, jobs: list[Job]) -> list[Job]:
        """Return the preemptible jobs that may be stopped or moved for the requester now."""
        requester, coming = self._rules.job, self._accounting.coming
        jobs = [job for job in jobs if job is not requester and job.name not in coming]
        jobs = self._context.protections.open_to(self._rules, jobs)
        if self._disruptions.any:
            allows, overrides = self._disruptions.allows, self._kind is PreemptionKind.OVERRIDE
            running = self._context.running
            jobs = [job for job in jobs if any(allows((pod,), overrides=overrides) for pod in running(job))]
        return jobs


class VictimCandidates:
    """Workloads that one search may stop or move.

    Quota protection and budgets are those of `EligibleVictims`.
    """

    def __init__(
        self,
        context: PreemptionContext,
        rules: PreemptionRules,
        way: PreemptionWay,
        move_budget: float,
        cheapest: CheapestMoves | None = None,
    ) -> None:
        self._context = context
        self.running = context.running
        self._cluster = context.cluster
        self._policy = context.policy
        self._leaving = context.accounting.leaving
        self._now_s = context.now_s
        self._disruptions = context.accounting.disruptions
        self._overrides = way.kind is PreemptionKind.OVERRIDE
        # Victims chosen so far by an exhaustive attempt
        self.victims: list[tuple[Victim, EvictionRule]] | None = None
        self.spares_budgets = False  # True: prefer victims that use few disruption allowances to cheap ones
        self.bounds = context.bounds
        self.rules = rules
        self.way = way
        self.move_budget = move_budget
        # Price limit of one pod
        self.price_max = move_budget if way.kind is PreemptionKind.CONSOLIDATE else INFINITE
        self.cheapest = cheapest
        self.tiers = VictimTiers(context, rules)
        self.order = LegalOrder(context, rules, way)
        self.nodes_needed = 1  # nodes the requester still lacks; the price of a gang is divided by it
        # The eligible workloads, and whether each may only be moved
        rows = None if cheapest is None else cheapest.rows
        self.jobs = EligibleVictims(context, rules, way, move_budget, rows).find()
        self._leaving_before = len(self._leaving)
        self._takeable: VictimEntries | None = None  # those at the beginning

    def legal_order(self, victims: Sequence[Victim]) -> list[tuple[Victim, EvictionRule]] | None:
        """Return a legal order of these victims and those chosen so far; None if there is none."""
        return self.order.find(victims, self.victims or ())

    def limits(self, victims: Sequence[Victim]) -> Permits | None:
        """Return the permitted sets of these victims; None if the usual search applies.

        The usual search applies while budgets allow all of them to be stopped at once. A thorough attempt
        also checks quotas. If all victims of one project may be stopped, fewer may be stopped, too; then sets
        are only sorted by the allowances that they use up.
        """
        if self.victims is not None:
            if len({victim.job.project for victim in victims}) == 1 and self.legal_order(victims) is not None:
                return (lambda _: True) if self.allowances(victims) else None
            return lambda some: self.legal_order(some) is not None
        if not self._disruptions.any or self._may_all_go(victims):
            return None
        return self._may_all_go

    def have_budgets(self) -> bool:
        """Return True if a disruption budget covers one of their pods."""
        return self._disruptions.any and any(pod.budgets for job in self.jobs for pod in self.running(job))

    def allowances(self, victims: Sequence[Victim]) -> int:
        """Return the allowances that these evictions use; 0 unless the attempt prefers to spare them."""
        if not self.spares_budgets:
            return 0
        return sum(len(pod.budgets) for victim in victims for pod in victim.pods)

    def _may_all_go(self, victims: Sequence[Victim]) -> bool:
        pods = list(dict.fromkeys(pod for victim in victims for pod in victim.pods))
        moves = self._overrides and any(victim.moves for victim in victims)
        return self.order.may_stop(pods, moves=moves)

    def marks(self) -> frozenset[int]:
        """Return the label sets of the pods that may be stopped or moved."""
        pods = (pod for job in self.jobs for pod in self.running(job))
        return frozenset(mark for pod in pods for mark in pod.shape.marks)

    def takeable(self) -> VictimEntries:
        """Return every possible victim by node; cached for searches that start from the same state."""
        if len(self._leaving) != self._leaving_before:
            return _entries(self, self._context)
        if self._takeable is None:
            self._takeable = _entries(self, self._context)
        return self._takeable

    def victims_on(self, node: int) -> list[Victim]:
        """Return the victims with pods on a node."""
        pods_by_job: dict[Job, list[Pod]] = {}
        for pod in self._cluster.pods_on[node]:
            if pod.phase is Phase.RUNNING and pod not in self._leaving:
                pods_by_job.setdefault(pod.job, []).append(pod)
        return [
            victim
            for job, pods in pods_by_job.items()
            if job in self.jobs
            for victim in self.victims_of(job, pods)
        ]

    def victims_of(self, job: Job, on_node: Sequence[Pod]) -> list[Victim]:
        """Return a job's pods on a node as victims: elastic pods first, then the rest as a whole.

        Services lose one replica at a time, first the service with the most replicas above its minimum.
        """
        if self.jobs[job]:
            together = job.topology is not None and sum(job.placed) > 1  # they share or prefer one domain
            pods = self.running(job) if together else on_node
            if self._disruptions.any and not self.order.may_stop(pods, moves=True):
                return []
            cost = price_of_move(job, pods, self._policy.price, self._now_s)
            return [Victim(LAST, cost, job, tuple(pods), tuple(on_node), False, moves=True)]
        victims = []
        running = self.running(job)
        spare = [-need for need in job.needed]
        for pod in running:
            spare[pod.group] += 1
        elastic: set[Pod] = set()
        if any(count > 0 for count in spare):
            groups = job.spec.groups
            kept = (
                {pod for pod in on_node if not self.order.may_stop((pod,))} if self._disruptions.any else ()
            )
            for pod in sorted(
                on_node, key=lambda pod: (pod in kept, groups[pod.group].order, -pod.group, -pod.index)
            ):
                if spare[pod.group] > 0:
                    if pod in kept:
                        continue
                    level = -spare[pod.group] if job.type is WorkloadType.INFERENCE else 0
                    spare[pod.group] -= 1
                    elastic.add(pod)
                    tier, cost = self.tiers.tier(job, [pod], level), self.tiers.price(job, [pod], 1)
                    victims.append(Victim(tier, cost, job, (pod,), (pod,), False))
        if len(elastic) < len(on_node) and (not self._disruptions.any or self.order.may_stop(running)):
            rest = [pod for pod in running if pod not in elastic] if elastic else running
            staying = tuple(pod for pod in on_node if pod not in elastic)
            tier, cost = self.tiers.tier(job, rest, 1), self.tiers.price(job, rest, self.nodes_needed)
            victims.append(Victim(tier, cost, job, tuple(rest), staying, True))
        return victims


def _entries(candidates: VictimCandidates, context: PreemptionContext) -> VictimEntries:
    """Return every possible victim by node."""
    entries = VictimEntries()
    tier_of: dict[tuple[int, int, bool], Tier] | None = None
    if context.policy.victim_policy == "lowest_cost":
        tier_of = {}
    for job, only_moves in candidates.jobs.items():
        pods = context.running(job)
        if len(pods) == 1 and (job.needed[pods[0].group] or only_moves):
            _add_only_pod(entries, candidates, context, job, pods, tier_of)
            continue
        for node in dict.fromkeys(pod.node for pod in pods):
            for victim in candidates.victims_of(job, [pod for pod in pods if pod.node == node]):
                devices = sum(len(pod.devices) for pod in victim.on_node)
                if devices or victim.price < 0.0:
                    entries.add(victim.on_node, devices, victim.price, victim.tier, victim.younger)
                if not devices:
                    entries.bare.add(node)
    entries.rank(context.placer.capacity)
    return entries


def _add_only_pod(
    entries: VictimEntries,
    candidates: VictimCandidates,
    context: PreemptionContext,
    job: Job,
    pods: list[Pod],
    tier_of: dict[tuple[int, int, bool], Tier] | None,
) -> None:
    """Add the only pod of a workload.

    Its price is the same for every requester. By lowest cost, its tier depends on its project, its priority,
    and whether quotas protect it.
    """
    pod, only_moves = pods[0], candidates.jobs[job]
    if context.accounting.disruptions.any and not candidates.order.may_stop(pods, moves=only_moves):
        return
    if not pod.devices:
        entries.bare.add(pod.node)
        return
    if only_moves:
        tier, price = LAST, price_of_move(job, pods, context.policy.price, context.now_s)
    else:
        kind = job.project, job.priority, job.spec.overrun or job.spec.unprotected
        if tier_of is None:
            tier = candidates.tiers.tier(job, pods, 1)
        elif kind in tier_of:
            tier = tier_of[kind]
        else:
            tier = tier_of[kind] = candidates.tiers.tier(job, pods, 1)
        if pod not in context.single_prices:  # by pod: of an elastic workload each may be the last one left
            context.single_prices[pod] = candidates.tiers.price(job, pods, candidates.nodes_needed)
        price = context.single_prices[pod]
    entries.add(pods, len(pod.devices), price, tier, (-job.submitted_s, job.name))
