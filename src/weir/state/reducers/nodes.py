"""Nodes: set, changed, lost; their capacity columns are computed again."""

import numpy as np

from weir.model.nodes import Node
from weir.model.resources import GPU
from weir.model.workloads import WHOLE_MILLI
from weir.state import events
from weir.state.capacity_columns import NO_DEVICE
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Phase, devices_asked
from weir.state.reducers.accounting import allocate, charge, recharged, request_of
from weir.state.reducers.column_growth import grow
from weir.state.reducers.nominations import nominated_on, release_nominations
from weir.state.reducers.pending_index import dequeue, enqueue, update_status
from weir.state.shapes import model_row_name


def node_set(cluster: Cluster, event: events.NodeSet) -> None:
    """Add or change a node."""
    node = event.node
    cluster.rows.see(node.capacity)
    cluster.marks.see(node.foreign_marks)
    if node.gpu_model is not None:
        cluster.rows.row_of(model_row_name(node.gpu_model))
    index = cluster.node_at.get(node.name)
    if index is None:
        index = cluster.node_at[node.name] = len(cluster.nodes)
        cluster.nodes.append(node)
        cluster.node_names.append(node.name)
        cluster.pods_on.append({})
        cluster.device_memory.append(node.gpu_memory)
    grow(cluster, nodes=len(cluster.nodes), devices=node.gpus)
    nominated = nominated_on(cluster, index)  # their charge depends on the node's model and memory
    for pod in nominated:
        charge(cluster, pod, -1)
    cluster.nodes[index] = node
    cluster.device_memory[index] = node.gpu_memory
    for pod in nominated:
        charge(cluster, pod, 1)
    _set_capacity(cluster, index, node)


def node_lost(cluster: Cluster, event: events.NodeLost) -> None:
    """Remove a node and the nominations on it."""
    index = cluster.node_at.get(event.name)
    if index is None or cluster.nodes[index] is None:
        return
    # Release nominations while the node is known: their charge depends on its model.
    for job in {pod.job.name: pod.job for pod in nominated_on(cluster, index)}.values():
        release_nominations(cluster, job)
        update_status(cluster, job, cluster.now_s)
    cluster.nodes[index] = None
    _set_capacity(cluster, index, None)


def _set_capacity(cluster: Cluster, index: int, node: Node | None) -> None:
    """Set the capacity of a node, and charge its pods and nominations again."""
    capacity = np.zeros(len(cluster.rows), np.int64)
    free_capacity = cluster.free_capacity
    free_capacity.share[index], free_capacity.memory[index] = NO_DEVICE, 0
    cluster.weighted_nodes.pop(index, None)
    cluster.outage_nodes.pop(index, None)
    if node is not None and node.outages:
        cluster.outage_nodes[index] = None
    if node is not None and node.gpu_weight_milli != WHOLE_MILLI:
        cluster.weighted_nodes[index] = None
    if node is not None:
        for name, amount in node.capacity.items():
            capacity[cluster.rows.row_of(name)] = amount
        capacity[cluster.rows.row_of(GPU)] = node.own_gpus * WHOLE_MILLI
        if node.gpu_model is not None:
            capacity[cluster.rows.row_of(model_row_name(node.gpu_model))] = node.own_gpus * WHOLE_MILLI
        free_capacity.share[index, : node.gpus] = WHOLE_MILLI
        free_capacity.memory[index, : node.gpus] = node.gpu_memory
        foreign = list(node.foreign_devices)
        free_capacity.share[index, foreign] = free_capacity.memory[index, foreign] = 0
    free_capacity.marks[:, index] = 0
    for mark, pods in node.foreign_marks.items() if node is not None else ():
        free_capacity.marks[cluster.marks.row_of(mark), index] = pods
    cluster.capacity[:, index] = capacity
    free_capacity.free[:, index] = capacity
    releasing = cluster.releasing
    releasing.free[:, index], releasing.share[index], releasing.memory[index], releasing.marks[:, index] = (
        0,
        0,
        0,
        0,
    )
    for pod in cluster.pods_on[index]:
        allocate(cluster, pod, index, pod.devices)
        if pod.phase is Phase.STOPPING:
            releasing.hold(index, pod.shape, pod.devices, cluster.device_memory[index], -1)
    for pod in nominated_on(cluster, index):
        assert pod.nomination is not None
        allocate(cluster, pod, index, pod.nomination[1])
    for job in cluster.by_memory.values():
        _recharge(cluster, job)
    cluster.static_version += 1
    cluster.changed(index)


def _recharge(cluster: Cluster, job: Job) -> None:
    """Charge a job again: after a change of nodes, its memory may be that of another smallest device."""
    requests = tuple(request_of(cluster, shape) for shape in job.shapes)
    if requests == job.requests:
        return
    with recharged(cluster, job):
        job.requests, job.pod_milli = requests, devices_asked(job.shapes, requests)
    dequeue(cluster, job)
    enqueue(cluster, job)
