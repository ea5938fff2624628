"""The rules of each namespace. A limited number of them is used; the others wait for a place."""

from collections.abc import Sequence

from weir.kubernetes.notifications.rule_state import RuleState

RULES_OF_NAMESPACE_MAX = 100
SURPLUS = f"its namespace has {RULES_OF_NAMESPACE_MAX} others, the maximum: remove one"


class NamespaceRules:
    """Rules by their namespaces, in the order in which they came."""

    def __init__(self) -> None:
        self._used: dict[str, list[RuleState]] = {}
        self._surplus: dict[str, dict[str, RuleState]] = {}  # rules beyond the limit, by namespace and uid

    def rules_of(self, namespace: str) -> Sequence[RuleState]:
        """Return the rules of a namespace that are used."""
        return self._used.get(namespace, ())

    def add(self, state: RuleState) -> None:
        """Add a rule; it stays unused if its namespace has the maximum of rules."""
        used = self._used.setdefault(state.namespace, [])
        if len(used) < RULES_OF_NAMESPACE_MAX:
            used.append(state)
        else:
            state.surplus = SURPLUS
            self._surplus.setdefault(state.namespace, {})[state.uid] = state

    def remove(self, state: RuleState) -> RuleState | None:
        """Remove a rule; return an unused one that replaces it, or None.

        The answer is None if there is none.
        """
        namespace = state.namespace
        surplus, used = self._surplus.get(namespace, {}), self._used[namespace]
        successor = None
        if surplus.pop(state.uid, None) is None:
            used.remove(state)
            if surplus:
                successor = surplus.pop(next(iter(surplus)))
                used.append(successor)
        if not surplus:
            self._surplus.pop(namespace, None)
        if not used:
            del self._used[namespace]
        return successor
