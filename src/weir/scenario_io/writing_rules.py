"""Writing of a pod's affinity, spread and node rules."""

from itertools import chain, product
from typing import Any

from weir.model.workloads import NodeAffinityRule, NodeExpression, PodAffinityRule, Request

Terms = tuple[tuple[NodeExpression, ...], ...]


def rules_written(request: Request) -> dict[str, Any]:
    """Return the rules and label sets of a request by key; None where there are none."""
    must = [rule.terms for rule in request.rules if not rule.weight]
    wishes = [_wish(rule) for rule in request.rules if rule.weight]
    by_kind = {
        kind: [_pod_rule(rule) for rule in request.pod_rules if rule.kind == kind] or None
        for kind in ("affinity", "anti_affinity", "spread")
    }
    return {
        "node_affinity": _terms(_all_of(must)) if must else None,
        "preferred_nodes": wishes or None,
        "marks": list(request.marks) or None,
        "pod_affinity": by_kind["affinity"],
        "pod_anti_affinity": by_kind["anti_affinity"],
        "spread": by_kind["spread"],
    }


def _all_of(rules: list[Terms]) -> Terms:
    """Return terms of which one holds exactly where a term of each rule holds."""
    return tuple(tuple(chain.from_iterable(terms)) for terms in product(*rules))


def _terms(terms: Terms) -> list[list[dict[str, Any]]]:
    return [[_expression(expression) for expression in term] for term in terms]


def _expression(expression: NodeExpression) -> dict[str, Any]:
    written: dict[str, Any] = {"key": expression.key, "operator": expression.operator}
    return {**written, "values": list(expression.values)} if expression.values else written


def _wish(rule: NodeAffinityRule) -> dict[str, Any]:
    return {"weight": rule.weight, "terms": _terms(rule.terms)}


def _pod_rule(rule: PodAffinityRule) -> dict[str, Any]:
    written: dict[str, Any] = {"mark": rule.mark, "topology": rule.topology}
    if rule.max_skew != 1:
        written["max_skew"] = rule.max_skew
    if rule.min_domains != 1:
        written["min_domains"] = rule.min_domains
    return {**written, "weight": rule.weight} if rule.weight else written
