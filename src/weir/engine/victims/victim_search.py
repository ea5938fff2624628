"""Victim search: free capacity for one workload in one trial, completely or not at all.

Each pod that doesn't fit goes to the node on which victims are cheapest. Then victims that aren't needed are
spared, and a victim that fits elsewhere is moved instead of stopped.
"""

from collections.abc import Sequence

from weir.engine.placement.pod_placer import NodePlacement
from weir.engine.protection.preemption_rules import PreemptionKind, PreemptionRules, divergence_level
from weir.engine.refusals.refusals import QuotaRefusal, SearchEnd
from weir.engine.usage.quota_overlay import INFINITE
from weir.engine.victims.cheapest_node import CheapestByShape, runner_up
from weir.engine.victims.eviction_price import devices_of
from weir.engine.victims.preemption_context import PreemptionContext, PreemptionPlan, RunnerUp
from weir.engine.victims.victim_candidates import VictimCandidates
from weir.engine.victims.victim_sets import Tier, Victim
from weir.engine.victims.victim_settlement import ChosenVictims, VictimSettlement
from weir.model.reasons import EvictionRule
from weir.state.capacity_columns import Bools
from weir.state.jobs import Job, Pod

_FIRSTS_MAX = 4
"""Number of large victims tried as the first one when the search for a gang has failed."""


class VictimSearch:
    """Search for victims of one kind, on all nodes or `within` some; a failure changes nothing."""

    def __init__(
        self, context: PreemptionContext, candidates: VictimCandidates, within: Bools | None
    ) -> None:
        self._context = context
        self._transaction = context.transaction
        self._placer = context.placer
        self._capacity = context.placer.capacity
        self._candidates = candidates
        self._rules = candidates.rules
        self._kind = candidates.way.kind
        self._candidate = candidates.rules.candidate
        self._job = self._candidate.job
        self._affinity = context.affinity_of(self._job)
        self._settlement = VictimSettlement(context, candidates)
        self._within = within
        self.nodes = CheapestByShape(context, candidates, within)
        self._placements: list[NodePlacement] = []
        self._victims: ChosenVictims = []
        self._runner_up: RunnerUp | None = None  # the next choice of victims for its only pod
        self._end = SearchEnd.NO_SET

    def run(self) -> PreemptionPlan | SearchEnd:
        """Return placements and victims; else the end of the search, with capacity and quotas unchanged."""
        if self.nodes.least_price() == INFINITE:
            return SearchEnd.SHORT
        taken = self._from(None)
        if (
            taken is None
            and self._kind in (PreemptionKind.RECLAIM, PreemptionKind.OVERRIDE)
            and sum(self._candidate.lacks) > 1
        ):
            for first in largest_victims(self._candidates):
                taken = self._from(first)
                if taken is not None:
                    break
        if taken is None and self._kind is not PreemptionKind.CONSOLIDATE:
            has_budgets = self._candidates.have_budgets()
            if has_budgets or self._candidates.order.refused:
                taken = self._thoroughly(has_budgets)
        return self._end if taken is None else taken

    def _thoroughly(self, has_budgets: bool) -> PreemptionPlan | None:
        """Repeat the search with every permitted set of victims on each node, if quotas or budgets bind.

        The victims for the first pod of a gang may use up an allowance of a budget that only the next pod
        can't do without. So a gang gets another attempt, which prefers victims that use up few allowances.
        """
        self._candidates.victims = self._victims
        taken = self._from(None)
        if taken is None and has_budgets and sum(self._candidate.lacks) > 1:
            self._candidates.victims, self._candidates.spares_budgets = self._victims, True
            taken = self._from(None)
            self._candidates.spares_budgets = False
        self._candidates.victims = None
        return taken

    def _from(self, first: Job | None) -> PreemptionPlan | None:
        """Search once from the initial state; `first` is evicted before any other workload.

        The answer is None if it fails.
        """
        with self._transaction.trial() as trial:
            if self._stop_first(first) and self._under_limits() and self._place_all():
                self._settlement.spare(self._victims, self._placements)
                plan = PreemptionPlan(self._kind, self._placements, runner_up=self._runner_up)
                if _overtakes(self._rules, self._victims):
                    self._end = max(self._end, SearchEnd.OVERTAKES)
                elif self._settlement.settle(self._victims, plan):
                    trial.commit()
                    return plan
        self._placements, self._victims = [], []
        self._runner_up = None
        self.nodes.clear()
        return None

    def _stop_first(self, first: Job | None) -> bool:
        if first is not None:
            going = self._candidates.legal_order(
                self._candidates.victims_of(first, self._context.running(first))
            )
            if going is None:
                return False
            self._remove(going)
        return True

    def _under_limits(self) -> bool:
        """Stop work under every limit that the workload would exceed."""
        while (over := self._context.checks.quota_refusal(self._job, self._candidate.request)) is not None:
            going = first_under_limit(self._candidates, over)
            if going is None:
                return False
            self._remove(going)
        return True

    def _place_all(self) -> bool:
        pods = self._candidate.pods()
        left = sum(len(some) for some in pods.values())
        for group in sorted(pods, key=lambda group: (-self._job.spec.groups[group].order, group)):
            for pod in pods[group]:
                self._candidates.nodes_needed = left
                placement = self._place(pod)
                if placement is None:
                    return False
                self._placements.append(placement)
                left -= 1
        return True

    def _place(self, pod: Pod) -> NodePlacement | None:
        node = self._placer.best_node(pod.shape, self._affinity, self._within)
        if node < 0:
            cheapest = self.nodes.search_for(pod.shape).best(
                lambda node, chosen: self._settlement.is_possible(
                    pod, node, chosen, self._victims, self._placements
                ),
                self._context.policy.search_steps,
            )
            if cheapest is None:
                gave_up = self.nodes.gave_up or self._candidates.order.gave_up
                self._end = max(self._end, SearchEnd.GAVE_UP if gave_up else SearchEnd.NO_SET)
                return None
            node, going = cheapest
            stops = self._kind is not PreemptionKind.CONSOLIDATE
            if stops and sum(self._candidate.lacks) == 1 and not self._victims:
                nodes = self.nodes.search_for(pod.shape)
                self._runner_up = runner_up(nodes, self._candidates, self._capacity, pod.shape)
            self._remove(going)
            if self._placer.rules.refusal(self._capacity.columns, pod.shape, node) is not None:
                return None
        placement = self._placer.put(pod, node, self._affinity)
        self.nodes.changed({node})
        return placement

    def _remove(self, going: Sequence[tuple[Victim, EvictionRule]]) -> None:
        touched: set[int] = set()
        for victim, rule in going:
            self._victims.append((victim, rule))
            self._transaction.stop(victim.pods)
            touched.update([pod.node for pod in victim.pods])
        self.nodes.changed(touched)


def _overtakes(rules: PreemptionRules, victims: ChosenVictims) -> bool:
    """Return True if the requester's dominant share would end above that of a victim's queue."""
    return any(
        rule is EvictionRule.RECLAIM_SHARE and rules.overtakes(level, victim.job.path[level])
        for victim, rule in victims
        for level in (divergence_level(rules.path, victim.job.path),)
    )


def first_under_limit(
    candidates: VictimCandidates, over: QuotaRefusal
) -> list[tuple[Victim, EvictionRule]] | None:
    """Return the cheapest victim that releases the resource of an exceeded limit; None if there is none.

    If the workload of the victim can't run without it, all pods of that workload are returned.
    """
    best: tuple[Tier, Victim, EvictionRule] | None = None
    for job in candidates.jobs:
        if over.queue in job.path:
            for victim in candidates.victims_of(job, candidates.running(job)):
                rule = candidates.order.rule(victim)
                key = (*victim.tier, victim.price, victim.younger)
                if (
                    rule is not None
                    and not victim.moves  # a moved workload stays under the limit
                    and (best is None or key < best[0])
                    and any(row == over.row for pod in victim.pods for row, _ in pod.amounts)
                ):
                    best = (key, victim, rule)
    if best is None:
        return None
    _, first, rule = best
    if not first.whole:
        return [(first, rule)]
    return [(one, rule) for one in candidates.victims_of(first.job, candidates.running(first.job))]


def largest_victims(candidates: VictimCandidates) -> list[Job]:
    """Return workloads that each free capacity for several pods of a gang, the largest first.

    The usual search may stop smaller workloads of a queue first. Then the queue is no longer over its share,
    its large workload is protected, and the gang gets no capacity.
    """
    pods = candidates.rules.candidate.pods().values()
    per_pod = max((pod.shape.devices for some in pods for pod in some), default=0)
    sizes = {
        job: devices_of(candidates.running(job))
        for job, only_moves in candidates.jobs.items()
        if not only_moves
    }
    large = [job for job, devices in sizes.items() if devices > per_pod]
    large.sort(key=lambda job: (-sizes[job], -job.submitted_s, job.name))
    return large[:_FIRSTS_MAX]
