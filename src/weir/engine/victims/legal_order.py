"""Legal orders of victims: an order in which each eviction is allowed after those before it."""

from collections.abc import Sequence

from weir.engine.protection.preemption_rules import (
    PreemptionKind,
    PreemptionRules,
    PreemptionWay,
    QuotaProtection,
    divergence_level,
)
from weir.engine.victims.eviction_price import devices_of
from weir.engine.victims.preemption_context import PreemptionContext
from weir.engine.victims.victim_sets import Victim
from weir.model.reasons import EvictionRule
from weir.state.jobs import Pod

_TRIED_MAX = 5_000
"""Limit of victims that one search reorders: the search for a gang tries thousands of nodes."""


class LegalOrder:
    """Finds legal orders for one requester. The way of the preemption may override protection by quotas."""

    def __init__(self, context: PreemptionContext, rules: PreemptionRules, way: PreemptionWay) -> None:
        self._transaction = context.transaction
        self._accounting = context.accounting
        self._disruptions = context.accounting.disruptions
        self._rules = rules
        self._most = way.most
        self._overrides = way.kind is PreemptionKind.OVERRIDE
        self._tried = 0  # number of victims that were reordered
        self.refused = False  # True: no order of some set of victims is legal
        self.gave_up = False

    def may_stop(self, pods: Sequence[Pod], *, moves: bool = False) -> bool:
        """Return True if disruption budgets let all these pods be stopped at once."""
        return self._disruptions.allows(pods, overrides=self._overrides and not moves)

    def rule(self, victim: Victim) -> EvictionRule | None:
        """Return the rule by which a victim may be evicted now; None if no rule allows it."""
        if self._disruptions.any and not self.may_stop(victim.pods, moves=victim.moves):
            return None
        if victim.moves:
            return EvictionRule.CONSOLIDATE
        if victim.job.spec.unprotected:
            return EvictionRule.IDLE
        if (
            self._most < QuotaProtection.FULL
            and self._rules.protections.protection_of(victim.job.path) > self._most
        ):
            return None
        return self._rules.rule_for(victim.job)

    def find(
        self, victims: Sequence[Victim], taken: Sequence[tuple[Victim, EvictionRule]] = ()
    ) -> list[tuple[Victim, EvictionRule]] | None:
        """Return an order in which each of these victims may be evicted; None if there is none.

        Victims nearer to the requester in the tree go first, since they lower the usage of its own queues.
        The largest of a queue goes last, since a queue gives only while it is over its quota. A thorough
        attempt may also insert earlier victims between them.
        """
        if len(victims) == 1:
            rule = self.rule(victims[0])
            if rule is not None:
                return [(victims[0], rule)]
        else:
            with self._transaction.trial():
                going = self._ordered(victims)
            if going is not None:
                return going
        order = self._between(victims, taken) if taken else None
        self.refused |= order is None
        return order

    def _between(
        self, victims: Sequence[Victim], taken: Sequence[tuple[Victim, EvictionRule]]
    ) -> list[tuple[Victim, EvictionRule]] | None:
        """Return an order with some victims inserted before chosen ones; None after too many tries."""
        self._tried += len(taken)
        if self._tried > _TRIED_MAX:
            self.gave_up = True
            return None
        with self._transaction.trial():
            before = [victim for victim, _ in taken]
            for victim in before:
                self._accounting.resume(victim.pods)
            going = self._ordered([*before, *victims])
        stopped = set(map(id, before))
        return None if going is None else [pair for pair in going if id(pair[0]) not in stopped]

    def _ordered(self, victims: Sequence[Victim]) -> list[tuple[Victim, EvictionRule]] | None:
        going: list[tuple[Victim, EvictionRule]] = []
        path = self._rules.path
        left = sorted(
            victims,
            key=lambda victim: (-divergence_level(path, victim.job.path), devices_of(victim.pods)),
        )
        while left:
            for victim in left:
                rule = self.rule(victim)
                if rule is not None:
                    going.append((victim, rule))
                    left.remove(victim)
                    self._accounting.evict(victim.pods)
                    break
            else:
                return None
        return going
