"""Clearing of topology domains for a gang, and the victim candidates that its searches share."""

from collections.abc import Sequence

from weir.engine.order.queue_order import Candidate
from weir.engine.placement.topology_placer import TopologyPlacer
from weir.engine.protection.preemption_rules import PreemptionKind, PreemptionRules, PreemptionWay
from weir.engine.refusals.refusals import SearchEnd
from weir.engine.victims.preemption_context import PreemptionContext
from weir.engine.victims.preemption_plan import PreemptionPlan
from weir.engine.victims.victim_candidates import VictimCandidates
from weir.engine.victims.victim_search import VictimSearch
from weir.state.capacity_columns import Bools

_DOMAINS_MOST = 8
"""Number of domains that may be cleared, those that lack least first."""


class DomainClearing:
    """Domains that moves may clear in one cycle, and the candidates tried since capacity was last freed."""

    def __init__(self, context: PreemptionContext) -> None:
        self._context = context
        self._victims: dict[tuple[float, PreemptionWay, PreemptionRules | bool], VictimCandidates] = {}

    def forget(self) -> None:
        """Forget the candidates: capacity was freed, or a trial begins."""
        self._victims.clear()

    def find(self, candidate: Candidate, kind: PreemptionKind) -> tuple[list[Bools], bool]:
        """Return the domains to clear by its topology, and whether any node may be cleared."""
        context, job = self._context, candidate.job
        asked, open_ = job.topology, context.placement.open_to(candidate)
        if asked is None or (sum(candidate.lacks) == 1 and asked.required is None):
            return [], True
        levels, affinity = context.levels_of(asked.name), context.affinity_of(job)
        placer = TopologyPlacer(context.placer, job, affinity, levels, open_)
        anywhere = asked.required is None and (
            kind is not PreemptionKind.CONSOLIDATE or context.placement.may_scatter(job, candidate.lacks)
        )
        return placer.domains_to_clear(candidate.pods())[:_DOMAINS_MOST], anywhere

    def clear_one(
        self, domains: Sequence[Bools], rules: PreemptionRules, way: PreemptionWay
    ) -> PreemptionPlan | SearchEnd | None:
        """Free capacity in the cheapest domain, even if other nodes were cheaper; None without domains."""
        if not domains:
            return None
        victims = self.candidates(rules, way, self._context.policy.topology.budget)
        searches = [VictimSearch(self._context, victims, within) for within in domains]
        if len(searches) > 1:
            searches.sort(key=lambda search: search.nodes.least_price())
        failed = None
        for search in searches:
            found = search.run()
            if isinstance(found, PreemptionPlan):
                return found
            failed = found if failed is None else max(failed, found)
        return failed

    def candidates(self, rules: PreemptionRules, way: PreemptionWay, budget: float) -> VictimCandidates:
        """Return the victim candidates; requesters that need moves share them until capacity is freed."""
        alone = (
            way.kind is not PreemptionKind.CONSOLIDATE or rules.job.is_running or bool(rules.job.stopped_for)
        )
        key = (budget, way, rules if alone else rules.is_owner)
        found = self._victims.get(key)
        if found is None:
            found = self._victims[key] = VictimCandidates(self._context, rules, way, budget)
        return found.asked_by(rules)
