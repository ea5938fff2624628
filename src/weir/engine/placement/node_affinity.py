"""Node affinity: the labels of a node against the rules of a request."""

from weir.model.nodes import Node
from weir.model.workloads import NODE_NAME, NodeAffinityRule, NodeExpression


def matches_affinity(node: Node, rule: NodeAffinityRule) -> bool:
    """Return True if a node matches a node affinity rule."""
    return any(all(_holds(node, each) for each in term) for term in rule.terms)


def _holds(node: Node, expression: NodeExpression) -> bool:
    """Return True if a node matches an expression, by the rules of Kubernetes."""
    value = node.name if expression.key == NODE_NAME else node.labels.get(expression.key)
    match expression.operator:
        case "In":
            return value in expression.values
        case "NotIn":
            return value not in expression.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _passes(value, expression)


def _passes(value: str | None, expression: NodeExpression) -> bool:
    """Compare by Gt or Lt: both sides have to be integers."""
    try:
        have, bound = int(value or ""), int(expression.values[0])
    except ValueError:
        return False
    return have > bound if expression.operator == "Gt" else have < bound
