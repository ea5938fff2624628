"""The label and the taint by which a node serves shares of its GPUs instead of whole ones."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weir.kubernetes.api.objects import KubeNode
from weir.kubernetes.translate.gpu_sharing import BY_POLICY, GPU_SHARING, SET_ASIDE, SHARING_TAINT
from weir.model.nodes import Node


@dataclass(frozen=True, slots=True)
class SharedNode:
    """A node with the label, the taint, or both."""

    set_aside: bool  # True: it has the label
    by_policy: bool  # True: Weir wrote the label
    tainted: bool
    taints: tuple[Mapping[str, str], ...]  # all its other taints
    version: str  # resource version, so that a concurrent change refuses the write


def shared_node_of(node: KubeNode) -> SharedNode | None:
    """Return a node's label and taint for shares; None if it has neither."""
    label = node.metadata.labels.get(GPU_SHARING)
    set_aside, by_policy = label in (SET_ASIDE, BY_POLICY), label == BY_POLICY
    taints = [taint for taint in node.spec.taints if taint.key != GPU_SHARING]
    tainted = any(
        taint.key == GPU_SHARING and taint.effect == SHARING_TAINT.effect for taint in node.spec.taints
    )
    if not set_aside and len(taints) == len(node.spec.taints):
        return None
    others = tuple(
        {
            key: value
            for key, value in (
                ("key", taint.key),
                ("value", taint.value),
                ("effect", taint.effect),
                ("timeAdded", taint.time_added),
            )
            if value
        }
        for taint in taints
    )
    return SharedNode(set_aside, by_policy, tainted, others, node.metadata.resource_version)


def taints_with(shared: SharedNode, *, taint: bool) -> list[Mapping[str, str]]:
    """Return the taints that a node has to have, with or without the one for shares."""
    own = {"key": GPU_SHARING, "value": SET_ASIDE, "effect": SHARING_TAINT.effect}
    return [*shared.taints, *([own] if taint else [])]


def as_shared(node: Node, state: str) -> Node:
    """Return a node with this state of shares as its label; with a state it also has the taint."""
    labels = {key: value for key, value in node.labels.items() if key != GPU_SHARING}
    taints = tuple(taint for taint in node.taints if taint.key != GPU_SHARING)
    if state:
        return replace(node, labels={**labels, GPU_SHARING: state}, taints=(*taints, SHARING_TAINT))
    return replace(node, labels=labels, taints=taints)
