"""Requests of running pods that are resized in place.

The spec states what people want. Until a node has carried out the resize, the pod holds the previous
allocation. A resize that the node can never grant counts nothing. Kubernetes' own scheduler counts in the
same way.
"""

from contextlib import suppress

from weir.kubernetes.api.objects import ContainerResources, ContainerStatus, KubePod, PodStatus
from weir.kubernetes.translate.quantities import exact

RESIZABLE = ("cpu", "memory")
PENDING, INFEASIBLE = "PodResizePending", "Infeasible"


def count_resizes(pod: KubePod) -> None:
    """Replace the requests in the spec of a pod on a node by the amounts that it uses of the node."""
    spec, status = pod.spec, pod.status
    if not spec.node_name:
        return
    refused = any(
        condition.type == PENDING and condition.status == "True" and condition.reason == INFEASIBLE
        for condition in status.conditions
    )
    if spec.resources is not None:
        _count(spec.resources, status, refused=refused)
    sidecars = [container for container in spec.init_containers if container.restart_policy == "Always"]
    for containers, statuses in (
        (spec.containers, status.container_statuses),
        (sidecars, status.init_container_statuses),
    ):
        by_name = {container_status.name: container_status for container_status in statuses}
        for container in containers:
            if (container_status := by_name.get(container.name)) is not None:
                _count(container.resources, container_status, refused=refused)


def _count(wanted: ContainerResources, status: ContainerStatus | PodStatus, *, refused: bool) -> None:
    """Return the largest of the amounts that are requested, allocated and in use."""
    if status.resources is None:
        return
    stated = status.resources.requests, status.allocated_resources
    for name in RESIZABLE:
        stated_amounts = [amounts[name] for amounts in stated if name in amounts]
        asked = wanted.requests.get(name, wanted.limits.get(name))
        if not stated_amounts or all(amount == asked for amount in stated_amounts):
            continue
        with suppress(ValueError):  # an unreadable amount is ignored
            most = max(stated_amounts if refused or asked is None else [asked, *stated_amounts], key=exact)
            if asked is None or exact(most) != exact(asked):
                wanted.requests = {**wanted.requests, name: most}
