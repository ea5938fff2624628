"""Nodes set aside for shares of GPUs, by a label and a taint, and the rules of pods that ask for a share.

A device plugin hands out whole devices, and the kubelet chooses which. So a node serves either whole devices
or shares. An administrator labels the nodes for shares; Weir adds the taint, which keeps pods of every
scheduler off those nodes, and an admission policy refuses pods with whole devices that tolerate it.
"""

from collections.abc import Iterable, Mapping

from weir.kubernetes.api.objects import PodSpec
from weir.model.nodes import Taint, Toleration
from weir.model.workloads import NodeAffinityRule, NodeExpression, Request

GPU_SHARING = "weir.dev/gpu-sharing"
"""Key of the label and of the taint. Inside Weir, the label's value is one of the two states below."""
GPU_MEMORY_LIMITS = "weir.dev/gpu-memory-limits"
"""Label of nodes whose container runtime limits the memory of devices by the variables of a pod.

A device class has it if the DRA driver of its devices limits the memory of their parts.
"""
SET_ASIDE = "true"
"""Value of the taint, and of labels that people write. As a state of a node: it accepts shares."""
BY_POLICY = "auto"
"""Value of the label on nodes that Weir has reserved for shares itself, and may release."""
DRAINING = "draining"
"""State of a node that accepts neither use, because pods of its former use still run."""
SHARING_TAINT = Taint(GPU_SHARING, SET_ASIDE, "NoSchedule")
SHARING_TOLERATION = Toleration(GPU_SHARING, "Exists", "", "NoSchedule")
SHARE_RULE = NodeAffinityRule(((NodeExpression(GPU_SHARING, "In", (SET_ASIDE,)),),))
_WHOLE_RULE = NodeAffinityRule(((NodeExpression(GPU_SHARING, "NotIn", (SET_ASIDE, DRAINING)),),))

NO_SHARED_NODES = (
    "it asks for a share of a GPU, and no node is set aside for shares: an administrator sets one aside with "
    f"kubectl label node NAME {GPU_SHARING}={SET_ASIDE}. Where a DRA driver shares GPUs, an administrator "
    "labels a device class in the same way; fractions that are created afterwards run there"
)
SHARED_NODES_DRAIN = (
    "it asks for a share of a GPU, and pods with whole GPUs still run on every node that is set aside for "
    "shares: wait for them, or delete them"
)


def limits_memory(labels: Mapping[str, str]) -> bool:
    """Return True if the label of a node or a device class states that the memory of shares is limited."""
    return labels.get(GPU_MEMORY_LIMITS) == SET_ASIDE


def is_share(request: Request) -> bool:
    """Return True if a pod requests a share of its devices by an annotation, and not by a resource."""
    return SHARE_RULE in request.rules


def is_privileged(spec: PodSpec) -> bool:
    """Return True if a container of a pod is privileged: it sees all devices of its node."""
    containers = (*spec.containers, *spec.init_containers, *spec.ephemeral_containers)
    return any(
        container.security_context is not None and container.security_context.privileged
        for container in containers
    )


def sharing_rules(*, share: bool, tolerations: Iterable[Toleration]) -> tuple[NodeAffinityRule, ...]:
    """Return the node rules of a pod with devices. Pods with whole devices are kept off by the taint."""
    if share:
        return (SHARE_RULE,)
    return (_WHOLE_RULE,) if any(toleration.tolerates(SHARING_TAINT) for toleration in tolerations) else ()
