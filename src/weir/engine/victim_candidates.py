"""Victim candidates: workloads that one search may stop or move, with tier and price."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from weir.engine.eviction_price import cheap_to_move, devices_of, price, price_of_all, price_of_move
from weir.engine.knapsack import VictimEntries
from weir.engine.node_scores import INFEASIBLE
from weir.engine.preemption_context import PreemptionContext
from weir.engine.preemption_rules import (
    PreemptionKind,
    PreemptionRules,
    QuotaProtection,
    divergence_level,
    is_past_min_runtime,
)
from weir.engine.quota_overlay import QuotaOverlay
from weir.engine.victim_sets import Permits, Tier, Victim
from weir.model.policy import AffinityPolicy
from weir.model.reasons import EvictionRule
from weir.model.workloads import WHOLE_MILLI
from weir.state.jobs import Job, Phase, Pod, devices_of_charge
from weir.state.shapes import GPU_ROW

_ANYONE = -1
_LAST: Tier = (len(QuotaProtection), (), _ANYONE)
"""The tier of what may only be moved: after everything that may be stopped."""


@dataclass(slots=True)
class CandidateSet:
    """State shared by all requesters with the same candidates.

    `jobs` are those, and whether only to be moved; `holes` says whether a shape has room somewhere;
    `takeable` is kept with nothing taken, by the nodes needed where that counts.
    """

    jobs: dict[Job, bool] = field(default_factory=dict)
    holes: dict[tuple[int, tuple[AffinityPolicy, ...]], bool] = field(default_factory=dict)
    takeable: dict[int, VictimEntries] = field(default_factory=dict)


class VictimCandidates:
    """Workloads that one search may stop or move. `taken` are its victims so far.

    What quotas protect more than `most` isn't stopped, and what disruption budgets protect neither is stopped
    nor moved, unless the kind is to override them.
    """

    def __init__(
        self,
        context: PreemptionContext,
        preemption_rules: PreemptionRules,
        kind: PreemptionKind,
        most: QuotaProtection,
        move_budget: float,
        found: CandidateSet | None = None,
    ) -> None:
        self._context = context
        self._cluster = context.cluster
        self._policy = context.policy
        self._overlay = context.overlay
        self._placer = context.placer
        self._affinity_of = context.affinity_of
        self._gone = context.gone
        self._coming = context.coming
        self._now_s = context.now_s
        self._disruptions = context.disruptions
        self._overrides = kind is PreemptionKind.OVERRIDE
        self.victims: list[tuple[Victim, EvictionRule]] | None = (
            None  # those taken so far by a thorough attempt
        )
        self.bounds = context.bounds
        self.preemption_rules = preemption_rules
        self.kind = kind
        self._most = most
        self.move_budget = move_budget
        charge = sum(amount for row, amount in preemption_rules.asks if row == GPU_ROW)
        self._needed = devices_of_charge(preemption_rules.job, charge) / WHOLE_MILLI  # devices
        self.taken: set[Pod] = set()
        self.nodes_needed = 1  # nodes the asker still lacks: what a victim gang's price is shared by
        self._kept = CandidateSet() if found is None else found
        if found is None:
            self._find()
        self.jobs = self._kept.jobs

    def asked_by(self, preemption_rules: PreemptionRules) -> "VictimCandidates":
        """Return the same candidates for another requester."""
        return VictimCandidates(
            self._context, preemption_rules, self.kind, self._most, self.move_budget, self._kept
        )

    # Who

    def _find(self) -> None:
        jobs = self._kept.jobs
        jobs.update(dict.fromkeys(self._found(), self.kind is PreemptionKind.CONSOLIDATE))
        if self.kind is not PreemptionKind.CONSOLIDATE and jobs and self._policy.consolidation.enabled:
            for job in self._movable():
                jobs.setdefault(job, True)

    def _found(self) -> list[Job]:
        """Return running preemptible workloads that are eligible, at the latest after other evictions."""
        preemption_rules, running = self.preemption_rules, self._cluster.running
        if self.kind is PreemptionKind.CONSOLIDATE:
            return self._movable()
        if self.kind is PreemptionKind.PREEMPT:
            return [
                job
                for job in self._of_project(preemption_rules.job.project)
                if preemption_rules.rule_for(job) is not None
            ]
        found: list[Job] = []
        lifted: list[Pod] = []
        asked = [
            project for project in running if project != preemption_rules.job.project and running[project]
        ]
        while more := [project for project in asked if self._may_ask(project)]:
            flat = len(preemption_rules.path) == 1
            for project in more:
                asked.remove(project)
                jobs = self._of_project(project)
                found += jobs
                if not flat:  # in a deep tree their going may open what lies further off
                    pods = [pod for job in jobs for pod in self.running(job)]
                    charge_pods(self._overlay, pods, -1)
                    lifted += pods
            if flat:
                break
        charge_pods(self._overlay, lifted, 1)
        return found

    def _may_ask(self, project: int) -> bool:
        """Return True if another project may be taken from as things stand."""
        path = self._cluster.ledger.path[project]
        return self.preemption_rules.protection(path) <= self._most and self.preemption_rules.may_ask(path)

    def _movable(self) -> list[Job]:
        """Return running preemptible workloads that are cheap to move and fit elsewhere."""
        rules, running = self._policy.price, self._cluster.running_pods
        jobs = running.jobs_saved_within(self._now_s, self.move_budget, rules.restart)
        if self._policy.consolidation.protect_in_quota and not self.preemption_rules.is_owner:
            jobs = [job for job in jobs if any(self._overlay.over_quota(queue) for queue in job.path)]
        cheap = cheap_to_move(self._within(jobs), self.move_budget, rules, self._now_s)
        return [job for job in cheap if self._has_holes(job)]

    def _has_holes(self, job: Job) -> bool:
        """Return True if each shape of a workload fits another node."""
        affinity = self._affinity_of(job)
        for shape, placed in zip(job.shapes, job.placed, strict=True):
            if placed:
                key = (shape.id, affinity)
                open_ = self._kept.holes.get(key)
                if open_ is None:
                    open_ = int(self._placer.plain_ranks(shape, affinity).min()) != INFEASIBLE
                    self._kept.holes[key] = open_
                if not open_:
                    return False
        return True

    def _of_project(self, project: int) -> list[Job]:
        return self._within([job for job in self._cluster.running[project].values() if job.preemptible])

    def _within(self, jobs: list[Job]) -> list[Job]:
        """Return the preemptible jobs that may be stopped or moved for the requester now."""
        asker, policy, now_s = self.preemption_rules.job, self._policy, self._now_s
        jobs = [job for job in jobs if job is not asker and job.name not in self._coming]
        if policy.min_runtime.any:
            jobs = [job for job in jobs if is_past_min_runtime(job, policy, now_s)]
        if asker.stopped_for:
            jobs = [job for job in jobs if not self._would_alternate(job)]
        if self._disruptions.any:
            jobs = [job for job in jobs if any(self._may_stop((pod,)) for pod in self.running(job))]
        return jobs

    def _may_stop(self, pods: Sequence[Pod], *, moves: bool = False) -> bool:
        """Return True if disruption budgets let all these pods be stopped at once."""
        budgets = self._disruptions
        return not budgets.any or budgets.allows(pods, overrides=self._overrides and not moves)

    def limits(self, victims: Sequence[Victim]) -> Permits | None:
        """Return which sets of these units may go; None if the usual search does.

        That is the case while budgets let all of them go at once. A thorough attempt asks quotas, too.
        """
        if self.victims is not None:
            return lambda some: self.legal_order(some) is not None
        if not self._disruptions.any or self._may_all_go(victims):
            return None
        return self._may_all_go

    def _may_all_go(self, victims: Sequence[Victim]) -> bool:
        pods = list(dict.fromkeys(pod for victim in victims for pod in victim.pods))
        moves = self._overrides and any(victim.moves for victim in victims)
        return self._may_stop(pods, moves=moves)

    def _would_alternate(self, victim: Job) -> bool:
        """Return True if the requester was recently stopped for this workload."""
        at_s = self.preemption_rules.job.stopped_for.get(victim.name)
        return at_s is not None and self._now_s - at_s < self._policy.reserve_after

    def running(self, job: Job) -> list[Pod]:
        """Return the pods of a job that the plan leaves running so far."""
        gone, taken = self._gone, self.taken
        pods = job.running_pods()
        if not gone and not taken:
            return pods
        return [pod for pod in pods if pod not in taken and pod not in gone]

    # What

    def takeable(self) -> VictimEntries:
        """Return every possible victim by node; kept for searches that start alike."""
        if self.taken:
            return self._takeable_now()
        key = 0 if self.kind is PreemptionKind.CONSOLIDATE else self.nodes_needed
        found = self._kept.takeable.get(key)
        if found is None:
            found = self._kept.takeable[key] = self._takeable_now()
        return found

    def _takeable_now(self) -> VictimEntries:
        found = VictimEntries()
        tiers: list[Tier] = []
        for job, only_moves in self.jobs.items():
            pods = self.running(job)
            if len(pods) == 1 and (job.needed[pods[0].group] or only_moves):
                pod = pods[0]
                if self._disruptions.any and not self._may_stop(pods, moves=only_moves):
                    continue
                if not pod.shape.devices:
                    found.bare.add(pod.node)
                else:
                    price_ = self._price_of(job, pods, only_moves)
                    found.add(pod.node, len(pod.devices), price_, only_moves and pod.shape.whole)
                    tiers.append(_LAST if only_moves else self._tier(job, pods, 1))
                    if not pod.shape.whole:
                        found.parts.add(pod.node)
                continue
            nodes = dict.fromkeys(pod.node for pod in pods)
            found.spans = found.spans or (len(nodes) > 1 and not only_moves)
            for node in nodes:
                for victim in self.victims_of(job, [pod for pod in pods if pod.node == node]):
                    devices = sum(len(pod.devices) for pod in victim.here)
                    if devices:
                        in_parts = any(pod.devices and not pod.shape.whole for pod in victim.here)
                        found.add(node, devices, victim.price, victim.moves and not in_parts)
                        tiers.append(victim.tier)
                        if in_parts:
                            found.parts.add(node)
                    else:
                        found.bare.add(node)
        found.rank(tiers)
        return found

    def _price_of(self, job: Job, pods: list[Pod], moves: bool) -> float:
        prices = self._policy.price
        return price_of_move(job, pods, prices, self._now_s) if moves else self._price_of_rest(job, pods)

    def victims_on(self, node: int) -> list[Victim]:
        """Return the victims with pods on a node."""
        here: dict[Job, list[Pod]] = {}
        for pod in self._cluster.pods_on[node]:
            if pod.phase is Phase.RUNNING and pod not in self.taken and pod not in self._gone:
                here.setdefault(pod.job, []).append(pod)
        return [
            victim for job, pods in here.items() if job in self.jobs for victim in self.victims_of(job, pods)
        ]

    def victims_of(self, job: Job, here: Sequence[Pod]) -> list[Victim]:
        """Return a job's pods on a node as victims: elastic pods first, then the rest as a whole."""
        if self.jobs[job]:
            pods = self.running(job) if _is_bound_together(job) else here
            if self._disruptions.any and not self._may_stop(pods, moves=True):
                return []
            cost = price_of_move(job, pods, self._policy.price, self._now_s)
            return [Victim(_LAST, cost, job, tuple(pods), tuple(here), False, moves=True)]
        victims = []
        running = self.running(job)
        spare = [-need for need in job.needed]
        for pod in running:
            spare[pod.group] += 1
        elastic: set[Pod] = set()
        if any(more > 0 for more in spare):
            groups = job.spec.groups
            kept = {pod for pod in here if not self._may_stop((pod,))} if self._disruptions.any else ()
            for pod in sorted(
                here, key=lambda pod: (pod in kept, groups[pod.group].order, -pod.group, -pod.index)
            ):
                if spare[pod.group] > 0:
                    if pod in kept:
                        continue
                    spare[pod.group] -= 1
                    elastic.add(pod)
                    cost = price(job, [pod], self._policy.price, self._now_s, self._needed)
                    victims.append(Victim(self._tier(job, [pod], 0), cost, job, (pod,), (pod,), False))
        if len(elastic) < len(here) and (not self._disruptions.any or self._may_stop(running)):
            rest = [pod for pod in running if pod not in elastic] if elastic else running
            staying = tuple(pod for pod in here if pod not in elastic)
            victims.append(
                Victim(
                    self._tier(job, rest, 1), self._price_of_rest(job, rest), job, tuple(rest), staying, True
                )
            )
        return victims

    def _price_of_rest(self, job: Job, pods: list[Pod]) -> float:
        """Return the price of a workload; a gang's is shared by the nodes that it frees."""
        if len(pods) == sum(job.placed) == 1:
            return price_of_all(job, self._policy.price, self._now_s, self._needed)
        cost = price(job, pods, self._policy.price, self._now_s, self._needed)
        return cost / max(1, min(self.nodes_needed, len({pod.node for pod in pods})))

    def _tier(self, job: Job, pods: Sequence[Pod], minimum: int) -> Tier:
        """Return the tier of a victim: what compares before the price."""
        own = job.project
        first = -1 if job.spec.overrun else int(self.preemption_rules.protection(job.path))
        if self._policy.victim_policy == "lowest_cost":
            return (first, (), _ANYONE, job.priority, minimum)
        return (first, self.giving(own), own, job.priority, minimum, self._pushes_below(own, pods))

    def giving(self, project: int) -> tuple[object, ...]:
        """Return the order in which projects give, level by level; smaller gives first."""
        if project == _ANYONE:
            return ()
        return tuple(self._overlay.giving_key(queue) for queue in self._overlay.ledger.path[project])

    def _pushes_below(self, queue: int, pods: Sequence[Pod]) -> bool:
        """Return True if a queue would hold less than its fair share without these pods."""
        overlay = self._overlay
        asked = {row for row, amount in self.preemption_rules.asks if amount}
        held, share = overlay.held[queue], overlay.share[queue]
        return any(
            held[row] - sum(amount for pod in pods for at, amount in pod.amounts if at == row)
            < share[row] - 1e-6
            for row, _ in overlay.ledger.bounded[queue]
            if row in asked
        )

    # Whether

    def rule(self, victim: Victim) -> EvictionRule | None:
        """Return the rule by which a victim may be evicted now."""
        if self._disruptions.any and not self._may_stop(victim.pods, moves=victim.moves):
            return None
        if victim.moves:
            return EvictionRule.CONSOLIDATE
        if (
            self._most < QuotaProtection.FULL
            and self.preemption_rules.protection(victim.job.path) > self._most
        ):
            return None
        return self.preemption_rules.rule_for(victim.job)

    def legal_order(self, victims: Sequence[Victim]) -> list[tuple[Victim, EvictionRule]] | None:
        """Return an order in which all of them may be evicted one after another; None without one.

        Those nearer to the asker in the tree go first, since they make room in its own queues; of one
        queue the largest goes last, since a queue gives as long as it is over. A thorough attempt may have
        those it has taken go between them.
        """
        taken = [victim for victim, _ in self.victims or ()]
        for victim in taken:
            self.count(victim.pods, -1)
        going = self._ordered([*taken, *victims])
        for victim in taken:
            self.count(victim.pods, 1)
        return None if going is None else [each for each in going if each[0] not in taken]

    def _ordered(self, victims: Sequence[Victim]) -> list[tuple[Victim, EvictionRule]] | None:
        going: list[tuple[Victim, EvictionRule]] = []
        left = list(victims)
        if len(left) > 1:
            left.sort(
                key=lambda victim: (
                    -divergence_level(self.preemption_rules.path, victim.job.path),
                    devices_of(victim.pods),
                )
            )
        while left:
            for victim in left:
                rule = self.rule(victim)
                if rule is not None:
                    going.append((victim, rule))
                    left.remove(victim)
                    self.count(victim.pods, 1)
                    break
            else:
                break
        for victim, _ in going:
            self.count(victim.pods, -1)
        return None if left else going

    def count(self, pods: Sequence[Pod], sign: int) -> None:
        """Release running pods in quota usage and budgets (sign -1: charge them again)."""
        charge_pods(self._overlay, pods, -sign)
        self._disruptions.count(pods, sign)


def charge_pods(overlay: QuotaOverlay, pods: Sequence[Pod], sign: int) -> None:
    """Charge running pods to the quota overlay (sign -1: release them)."""
    for pod in pods:
        overlay.add(pod.job.path, pod.amounts, not pod.job.preemptible, sign)


def _is_bound_together(job: Job) -> bool:
    """Return True if its pods share or prefer one domain and so move together."""
    return job.topology is not None and sum(job.placed) > 1
