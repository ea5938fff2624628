"""Feasibility: the nodes a shape may use, and the number of its copies that fit."""

from collections.abc import Iterable, Sequence

import numpy as np

from weir.engine.placement.capacity import Capacity
from weir.model.nodes import Node, Taint
from weir.model.policy import AffinityPolicy
from weir.model.workloads import NODE_NAME, WHOLE_MILLI, NodeAffinityRule, NodeExpression, Request
from weir.state.capacity_columns import NO_DEVICE, Bools, CapacityColumns, Ints
from weir.state.cluster import Cluster
from weir.state.shapes import RequestShape

UNLIMITED_PODS = 1 << 40
"""Number of copies that fit of a request without any needs."""


def both(one: Bools | None, other: Bools | None) -> Bools | None:
    """Return the nodes in both masks; None is the mask of all nodes."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def feasible_nodes(
    cluster: Cluster, request: Request, affinity: Sequence[AffinityPolicy]
) -> tuple[Bools, Ints]:
    """Return the nodes that a request may ever use, and each node's weight of its preferences.

    Only conditions that don't change with the pods are evaluated, once for each distinct constraint.
    """
    size = cluster.free_capacity.free.shape[1]
    mask, preference = np.zeros(size, np.bool_), np.zeros(size, np.int64)
    for index, node in enumerate(cluster.nodes):
        if node is not None and refused_by(node, request, affinity) is None:
            mask[index] = True
            preference[index] = _preference(node, request.rules, affinity)
    return mask, preference


def refused_by(  # noqa: PLR0911 - one return for each constraint
    node: Node, request: Request, affinity: Sequence[AffinityPolicy]
) -> str | None:
    """Return the first constraint by which a node can never take the request; None if it may."""
    if request.nodes is not None and node.name not in request.nodes:
        return "nodes"
    if request.devices:
        if node.own_gpus < request.devices:
            if node.gpus >= request.devices:
                return "devices in use by others"
            return "devices" if node.gpus else "no devices"
        if request.gpu_models and node.gpu_model not in request.gpu_models:
            return "gpu_models"
        if request.gpu_memory > node.gpu_memory:
            return "gpu_memory"
    if not _has(node, request.node_selector):
        return "node_selector"
    if any(rule.weight == 0 and not matches_affinity(node, rule) for rule in request.rules):
        return "node rules"
    if any(rule.required and not _has(node, rule.node_labels.items()) for rule in affinity):
        return "affinity"
    taint = untolerated_taint(node, request)
    return None if taint is None else f"taint {taint.key}"


def untolerated_taint(node: Node, request: Request) -> Taint | None:
    """Return the first taint of a node that keeps a request off; None if it tolerates all."""
    for taint in node.taints:
        if taint.effect != "PreferNoSchedule" and not any(
            toleration.tolerates(taint) for toleration in request.tolerations
        ):
            return taint
    return None


def is_selected(node: Node, request: Request) -> bool:
    """Return True if a request selects a node by name, label and expression."""
    return (
        (request.nodes is None or node.name in request.nodes)
        and _has(node, request.node_selector)
        and all(rule.weight or matches_affinity(node, rule) for rule in request.rules)
    )


def _has(node: Node, labels: Iterable[tuple[str, str]]) -> bool:
    return all(node.labels.get(key) == value for key, value in labels)


def _preference(node: Node, rules: Sequence[NodeAffinityRule], affinity: Sequence[AffinityPolicy]) -> int:
    granted = sum(rule.weight for rule in rules if rule.weight and matches_affinity(node, rule))
    granted += sum(
        rule.weight for rule in affinity if not rule.required and _has(node, rule.node_labels.items())
    )
    return granted - 100 * sum(taint.effect == "PreferNoSchedule" for taint in node.taints)


def fits(capacity: Capacity, shape: RequestShape, nodes: Ints) -> Bools:
    """Return for each of these nodes whether one pod of the shape fits."""
    columns = capacity.columns
    ok = has_devices(capacity, shape, nodes)
    for row, amount in shape.needs:
        ok &= columns.free[row, nodes] >= amount
    return ok


def has_devices(capacity: Capacity, shape: RequestShape, nodes: Ints) -> Bools:
    """Return for each of these nodes whether it has free devices for one pod of the shape."""
    if shape.whole:
        enough: Bools = capacity.whole[nodes] >= shape.devices
        return enough
    if shape.devices:
        open_: Bools = _open_devices(capacity, shape, nodes).sum(axis=1) >= shape.devices
        return open_
    return np.ones(len(nodes), np.bool_)


def fits_on(capacity: Capacity, shape: RequestShape, node: int) -> bool:
    """Return True if one pod of the shape fits a node."""
    columns = capacity.columns
    for row, amount in shape.needs:
        if columns.free.item(row, node) < amount:
            return False
    if shape.whole:
        return capacity.whole.item(node) >= shape.devices
    return not shape.devices or bool(has_devices(capacity, shape, np.array([node]))[0])


def _open_devices(capacity: Capacity, shape: RequestShape, nodes: Ints) -> Bools:
    share, memory = capacity.columns.share[nodes], capacity.columns.memory[nodes]
    if not shape.gpu_memory:
        plain: Bools = share >= shape.share_milli
        return plain
    milli = shares_for_memory(shape, capacity.device_memory[nodes])
    open_: Bools = (share >= milli[:, None]) & (memory >= shape.gpu_memory)
    return open_


def shares_for_memory(shape: RequestShape, device_memory: Ints) -> Ints:
    """Return the thousandths of a device that a shape takes for its memory, by the memory of devices."""
    milli: Ints = np.maximum(1, shape.gpu_memory * WHOLE_MILLI // np.maximum(device_memory, 1))
    return milli


def pods_that_fit(capacity: Capacity, shape: RequestShape) -> Ints:
    """Return the number of pods of the shape that fit each node; a bound for several shared devices."""
    columns, device_memory = capacity.columns, capacity.device_memory
    count = np.full(columns.free.shape[1], UNLIMITED_PODS, np.int64)
    for row, amount in shape.needs:
        np.minimum(count, columns.free[row] // amount, out=count)
    if shape.whole:
        np.minimum(count, capacity.whole // shape.devices, out=count)
    elif shape.devices:
        size = len(device_memory)
        milli: Ints | int = shape.share_milli
        if shape.gpu_memory:
            milli = shares_for_memory(shape, device_memory)[:, None]
        by_device = np.maximum(columns.share[:size], 0) // milli
        if shape.gpu_memory:
            np.minimum(by_device, np.maximum(columns.memory[:size], 0) // shape.gpu_memory, out=by_device)
        np.minimum(count[:size], by_device.sum(axis=1) // shape.devices, out=count[:size])
        count[size:] = 0
    return np.maximum(count, 0)


def empty_capacity(cluster: Cluster) -> Capacity:
    """Return the capacity of all nodes without any pod."""
    gpus = np.zeros(cluster.free_capacity.share.shape[0], np.int64)
    gpus[: len(cluster.nodes)] = [0 if node is None else node.gpus for node in cluster.nodes]
    exists = np.arange(cluster.free_capacity.share.shape[1])[None, :] < gpus[:, None]
    for index, node in enumerate(cluster.nodes):
        if node is not None and node.foreign_devices:
            exists[index, list(node.foreign_devices)] = False
    memory = np.zeros(exists.shape[0], np.int64)
    memory[: len(cluster.device_memory)] = cluster.device_memory
    columns = CapacityColumns(
        cluster.capacity.copy(),
        np.where(exists, WHOLE_MILLI, NO_DEVICE),
        np.where(exists, memory[:, None], 0),
        np.zeros_like(cluster.free_capacity.marks),
    )
    return Capacity(columns, np.array(cluster.device_memory, np.int64))


def devices_for(
    capacity: Capacity, shape: RequestShape, node: int, links: Sequence[tuple[int, ...]]
) -> tuple[int, ...]:
    """Return the devices that a pod of the shape takes on a node that it fits.

    Whole devices come from the smallest linked set that holds them, then the lowest free. A share
    goes to a device already shared before a fresh one, the fullest first.
    """
    if not shape.devices:
        return ()
    share = capacity.columns.share[node].tolist()
    if shape.whole:
        free = [device for device, left in enumerate(share) if left == WHOLE_MILLI]
        return tuple(_closest(free, shape.devices, links)[: shape.devices])
    milli = shape.share_on(int(capacity.device_memory[node]))
    memory = capacity.columns.memory[node].tolist()
    open_ = [
        (left == WHOLE_MILLI, left, device)
        for device, left in enumerate(share)
        if left >= milli and memory[device] >= shape.gpu_memory
    ]
    open_.sort()
    return tuple(sorted(device for _, _, device in open_[: shape.devices]))


def _closest(free: list[int], wanted: int, links: Sequence[tuple[int, ...]]) -> list[int]:
    best: tuple[int, int, list[int]] | None = None
    for linked in links:
        among = [device for device in linked if device in free]
        if len(among) >= wanted and (best is None or (len(linked), len(among)) < best[:2]):
            best = (len(linked), len(among), sorted(among))
    return free if best is None else best[2]


def matches_affinity(node: Node, rule: NodeAffinityRule) -> bool:
    """Return True if a node matches a node affinity rule."""
    return any(all(_holds(node, requirement) for requirement in term) for term in rule.terms)


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
    """Return True if a Gt or Lt comparison holds: both sides have to be integers."""
    try:
        have, bound = int(value or ""), int(expression.values[0])
    except ValueError:
        return False
    return have > bound if expression.operator == "Gt" else have < bound
