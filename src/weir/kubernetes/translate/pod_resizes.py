"""Requests of running pods that are resized in place.

The spec states what people want. Until a node has carried that out, it keeps what it allocated before, and a
request that it can't ever grant takes nothing of it. Kubernetes' own scheduler counts in the same way.
"""

from contextlib import suppress

from weir.kubernetes.api.objects import ContainerResources, ContainerStatus, KubePod, PodStatus
from weir.kubernetes.translate.quantities import exact

RESIZABLE = ("cpu", "memory")
PENDING, INFEASIBLE = "PodResizePending", "Infeasible"


def count_resizes(pod: KubePod) -> None:
    """Replace the requests in the spec of a pod on a node by the amounts that it takes of the node."""
    spec, status = pod.spec, pod.status
    if not spec.node_name:
        return
    refused = any(
        each.type == PENDING and each.status == "True" and each.reason == INFEASIBLE
        for each in status.conditions
    )
    if spec.resources is not None:
        _count(spec.resources, status, refused=refused)
    sidecars = [each for each in spec.init_containers if each.restart_policy == "Always"]
    for containers, statuses in (
        (spec.containers, status.container_statuses),
        (sidecars, status.init_container_statuses),
    ):
        by_name = {each.name: each for each in statuses}
        for container in containers:
            if (found := by_name.get(container.name)) is not None:
                _count(container.resources, found, refused=refused)


def _count(wanted: ContainerResources, status: ContainerStatus | PodStatus, *, refused: bool) -> None:
    """Count the largest of the amounts that are wanted, allocated and in use."""
    if status.resources is None:
        return
    stated = status.resources.requests, status.allocated_resources
    for name in RESIZABLE:
        there = [amounts[name] for amounts in stated if name in amounts]
        asked = wanted.requests.get(name, wanted.limits.get(name))
        if not there or all(each == asked for each in there):
            continue
        with suppress(ValueError):  # an unreadable amount is ignored
            most = max(there if refused or asked is None else [asked, *there], key=exact)
            if asked is None or exact(most) != exact(asked):
                wanted.requests = {**wanted.requests, name: most}
