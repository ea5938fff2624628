"""Terms of node selectors, which pods and volumes write in the same form."""

from collections.abc import Sequence

from weir.kubernetes.api.objects import NodeSelectorRequirement, NodeSelectorTerm
from weir.model.workloads import NodeExpression


def terms(written: Sequence[NodeSelectorTerm]) -> tuple[tuple[NodeExpression, ...], ...]:
    """Return the terms of a node selector; an empty one matches nothing, so it is left out."""
    return tuple(
        tuple(map(_expression, [*term.match_expressions, *term.match_fields]))
        for term in written
        if term.match_expressions or term.match_fields
    )


def _expression(written: NodeSelectorRequirement) -> NodeExpression:
    return NodeExpression(written.key, written.operator, tuple(written.values))
