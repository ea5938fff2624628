"""The one reducer: an event in, the cluster changed. Nothing else changes it.

Events come late, twice and out of order; one that no longer applies (a pod that isn't there, a
workload that ended) changes nothing, so that applying it again is harmless.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from weir.cluster import events
from weir.cluster.columns import NO_DEVICE
from weir.cluster.jobs import Job, PendingClass, Phase, Pod
from weir.cluster.ledger import Amounts, Ledger
from weir.cluster.runtimes import likenesses
from weir.cluster.shapes import GPU_ROW, Shape, model_row_name
from weir.cluster.state import Cluster
from weir.model.nodes import Node
from weir.model.resources import GPU
from weir.model.workloads import WHOLE_MILLI


def reduce(cluster: Cluster, event: events.Event) -> None:
    """Apply one event to the cluster."""
    cluster.now_s = max(cluster.now_s, getattr(event, "at_s", cluster.now_s))
    if type(event) not in (events.Checkpointed, events.Noted):
        cluster.changes += 1
        cluster.changed_s = cluster.now_s
    _REDUCERS[type(event)](cluster, event)


# Nodes


def _node_set(cluster: Cluster, event: events.NodeSet) -> None:
    node = event.node
    cluster.rows.see(node.capacity)
    if node.gpu_model is not None:
        cluster.rows.of(model_row_name(node.gpu_model))
    at = cluster.node_at.get(node.name)
    if at is None:
        at = cluster.node_at[node.name] = len(cluster.nodes)
        cluster.nodes.append(node)
        cluster.node_names.append(node.name)
        cluster.pods_on.append({})
        cluster.device_memory.append(node.gpu_memory)
    _grow(cluster, nodes=len(cluster.nodes), devices=node.gpus)
    promised = _promised_on(cluster, at)  # they count with the node's model and memory
    for pod in promised:
        _count(cluster, pod, -1)
    cluster.nodes[at] = node
    cluster.device_memory[at] = node.gpu_memory
    for pod in promised:
        _count(cluster, pod, 1)
    _set_room(cluster, at, node)


def _node_lost(cluster: Cluster, event: events.NodeLost) -> None:
    at = cluster.node_at.get(event.name)
    if at is None or cluster.nodes[at] is None:
        return
    # Promises go while the node is still known: they count with its model.
    for job in {pod.job.spec.name: pod.job for pod in _promised_on(cluster, at)}.values():
        _drop_promise(cluster, job)
        _settle(cluster, job, cluster.now_s)
    cluster.nodes[at] = None
    _set_room(cluster, at, None)


def _promised_on(cluster: Cluster, at: int) -> list[Pod]:
    """The pods that have room promised on a node."""
    return [
        pod
        for job in cluster.promised.values()
        for group in job.pods
        for pod in group
        if pod.promise is not None and pod.promise[0] == at
    ]


def _grow(cluster: Cluster, nodes: int, devices: int) -> None:
    rows = len(cluster.rows)
    have_rows, have_nodes = cluster.room.free.shape
    if rows > have_rows:
        cluster.ledger.fit(cluster.rows)
    if rows > have_rows or nodes > have_nodes or devices > cluster.room.share.shape[1]:
        space = nodes if nodes <= have_nodes else max(nodes, have_nodes + have_nodes // 2)
        cluster.room = cluster.room.grown(rows, space, devices)
        cluster.releasing = cluster.releasing.grown(rows, space, devices)
        capacity = np.zeros_like(cluster.room.free)
        capacity[:have_rows, :have_nodes] = cluster.capacity
        cluster.capacity = capacity
        cluster.static_version += 1


def _set_room(cluster: Cluster, at: int, node: Node | None) -> None:
    """Give a node its capacity, and take what its pods and promises hold from it again."""
    capacity = np.zeros(len(cluster.rows), np.int64)
    room = cluster.room
    room.share[at], room.memory[at] = NO_DEVICE, 0
    if node is not None:
        for name, amount in node.capacity.items():
            capacity[cluster.rows.of(name)] = amount
        capacity[cluster.rows.of(GPU)] = node.gpus * WHOLE_MILLI
        if node.gpu_model is not None:
            capacity[cluster.rows.of(model_row_name(node.gpu_model))] = node.gpus * WHOLE_MILLI
        room.share[at, : node.gpus] = WHOLE_MILLI
        room.memory[at, : node.gpus] = node.gpu_memory
    cluster.capacity[:, at] = capacity
    room.free[:, at] = capacity
    releasing = cluster.releasing
    releasing.free[:, at], releasing.share[at], releasing.memory[at] = 0, 0, 0
    for pod in cluster.pods_on[at]:
        _hold(cluster, pod, at, pod.devices)
        if pod.phase is Phase.STOPPING:
            releasing.hold(at, pod.shape, pod.devices, cluster.device_memory[at], -1)
    for pod in _promised_on(cluster, at):
        assert pod.promise is not None
        _hold(cluster, pod, at, pod.promise[1])
    for job in cluster.by_memory.values():
        _ask_anew(cluster, job)
    cluster.static_version += 1
    cluster.freed_version += 1
    cluster.changed(at)


def _ask_anew(cluster: Cluster, job: Job) -> None:
    """Devices came or went: a memory request may count with another smallest device."""
    asks = tuple(_asked(cluster, shape) for shape in job.shapes)
    if asks == job.asks:
        return
    pods = [pod for group in job.pods for pod in group]
    for pod in pods:
        _count(cluster, pod, -1)
    job.asks = asks
    for pod in pods:
        _count(cluster, pod, 1)
    _leave_class(cluster, job)
    _rank(cluster, job)


# Queues and topologies


def _queues_set(cluster: Cluster, event: events.QueuesSet) -> None:
    cluster.ledger = Ledger(event.queues, cluster.rows)
    _grow(cluster, nodes=len(cluster.nodes), devices=1)
    cluster.running.clear()
    cluster.priorities.clear()
    for job in cluster.jobs.values():
        _leave_class(cluster, job)
        job.path = cluster.ledger.path[cluster.ledger.position[job.spec.project]]
        cluster.ledger.add_sharing(job.path, job.sharing)
        for group in job.pods:
            for pod in group:
                _count(cluster, pod, 1)
        if job.started_s is not None:
            _runs(cluster, job, True)
        _rank(cluster, job)
    cluster.static_version += 1


def _topologies_set(cluster: Cluster, event: events.TopologiesSet) -> None:
    cluster.topologies = {topology.name: topology for topology in event.topologies}
    cluster.static_version += 1


# Workloads


def _submitted(cluster: Cluster, event: events.WorkloadSubmitted) -> None:
    spec = event.workload
    if spec.name in cluster.jobs:
        return
    shapes = tuple(cluster.shapes.of(group.request) for group in spec.groups)
    _grow(cluster, nodes=0, devices=1)
    asks = tuple(_asked(cluster, shape) for shape in shapes)
    devices_milli = sum(
        dict(ask).get(GPU_ROW, 0) * need for ask, need in zip(asks, spec.needed(), strict=True)
    )
    path = cluster.ledger.path[cluster.ledger.position[spec.project]]
    job = Job(spec, shapes, asks, path, likenesses(spec, devices_milli), devices_milli)
    job.ran_s = event.ran_s
    cluster.ledger.add_sharing(path, job.sharing)
    cluster.jobs[spec.name] = job
    if any(shape.gpu_memory for shape in shapes):
        cluster.by_memory[spec.name] = job
    for group, shape in enumerate(shapes):
        cluster.ledger.add_asked(path, asks[group], spec.groups[group].count)
        cluster.mix.asked(shape, spec.groups[group].count, cluster.room)
    _rank(cluster, job)


def _asked(cluster: Cluster, shape: Shape) -> Amounts:
    """What a pending pod counts with: a memory request as on the smallest device it may come to."""
    amounts = list(shape.needs)
    if shape.devices:
        models = shape.request.gpu_models
        memories = (
            [
                node.gpu_memory
                for node in cluster.nodes
                if node is not None and node.gpus and (not models or node.gpu_model in models)
            ]
            if shape.gpu_memory
            else [0]
        )
        milli = shape.devices * min(WHOLE_MILLI, shape.share_on(min(memories, default=0)))
        amounts.append((GPU_ROW, milli))
        if len(models) == 1 and (row := cluster.rows.known(model_row_name(models[0]))) is not None:
            amounts.append((row, milli))
    return tuple(amounts)


def _ended(cluster: Cluster, event: events.WorkloadEnded) -> None:
    job = cluster.jobs.get(event.workload)
    if job is None:
        return
    _drop_promise(cluster, job)
    for group in job.pods:
        for pod in group:
            if pod.phase in (Phase.RUNNING, Phase.STOPPING):
                _free(cluster, pod, event.at_s)
    if not job.held:
        for group_at, pending in enumerate(job.pending):
            cluster.ledger.add_asked(job.path, job.asks[group_at], -pending)
    cluster.ledger.add_sharing(job.path, -job.sharing)
    _leave_class(cluster, job)
    cluster.incomplete.pop(event.workload, None)
    del cluster.jobs[event.workload]
    cluster.by_memory.pop(event.workload, None)
    cluster.usage.holds(job.spec.project, cluster.ledger.allocated[job.project][GPU_ROW], event.at_s)
    if event.how is events.End.SUCCEEDED and event.ran_s > 0:
        cluster.runtimes.ended(job.likenesses, event.ran_s)


def _held(cluster: Cluster, event: events.WorkloadHeld) -> None:
    job = cluster.jobs.get(event.workload)
    if job is None:
        return
    if job.held == event.held:
        job.held_why, job.held_until_s = event.reason, event.until_s
        return
    pods = [pod for group in job.pods for pod in group]
    for pod in pods:
        _count(cluster, pod, -1)
    job.held, job.held_why, job.held_until_s = event.held, event.reason, event.until_s
    for pod in pods:
        _count(cluster, pod, 1)
    _rank(cluster, job)


def _checkpointed(cluster: Cluster, event: events.Checkpointed) -> None:
    job = cluster.jobs.get(event.workload)
    if job is not None and job.started_s is not None and event.at_s >= job.started_s:
        job.saved_s = job.since_s = max(event.at_s, job.since_s)
        cluster.running_pods.saved(job.running_pods(), job.saved_s)
        if cluster.saved and cluster.saved[-1].saved_s != job.saved_s:
            cluster.saved.clear()
        cluster.saved.append(job)


def _noted(_cluster: Cluster, _event: events.Noted) -> None:
    """It is for people."""


# Pods


def _assigned(cluster: Cluster, event: events.PodAssigned) -> None:
    pod, at = _pod(cluster, event.place.pod), cluster.node_at.get(event.place.node)
    if pod is None or at is None or pod.phase in (Phase.RUNNING, Phase.STOPPING):
        return
    job = pod.job
    if pod.promise is not None:
        _unpromise(cluster, pod)
    _count(cluster, pod, -1)
    job.pending[pod.group] -= 1
    job.placed[pod.group] += 1
    pod.phase, pod.node, pod.devices = Phase.RUNNING, at, event.place.devices
    pod.amounts = holding(cluster, pod.shape, at)
    _count(cluster, pod, 1)
    _hold(cluster, pod, at, pod.devices)
    cluster.pods_on[at][pod] = None
    cluster.changed(at)
    if job.started_s is None:
        job.started_s = job.since_s = event.at_s
        job.saved_s = None
        job.stopped_for.clear()
        _runs(cluster, job, True)
    cluster.running_pods.add(pod, job.since_s)
    _settle(cluster, job, event.at_s)


def _stopping(cluster: Cluster, event: events.PodStopping) -> None:
    pod = _pod(cluster, event.pod)
    if pod is None or pod.phase is not Phase.RUNNING:
        return
    job = pod.job
    _count(cluster, pod, -1)
    pod.phase = Phase.STOPPING
    job.placed[pod.group] -= 1
    job.stopping += 1
    cluster.running_pods.remove(pod)
    if event.cause is not None and event.cause.by is not None:
        job.stopped_for[event.cause.by] = event.at_s
    _count(cluster, pod, 1)
    cluster.releasing.hold(pod.node, pod.shape, pod.devices, cluster.device_memory[pod.node], -1)
    cluster.releasing_on[pod.node] = cluster.releasing_on.get(pod.node, 0) + 1
    cluster.changed(pod.node)
    _settle(cluster, job, event.at_s)


def _stopped(cluster: Cluster, event: events.PodStopped) -> None:
    pod = _pod(cluster, event.pod)
    if pod is None or pod.phase not in (Phase.RUNNING, Phase.STOPPING):
        return
    job = pod.job
    _free(cluster, pod, event.at_s)
    if event.kept_s is not None:
        job.ran_s = event.kept_s
    _settle(cluster, job, event.at_s)


def _free(cluster: Cluster, pod: Pod, at_s: float) -> None:
    """A pod that runs or is being stopped holds nothing any more."""
    job, at = pod.job, pod.node
    _count(cluster, pod, -1)
    _hold(cluster, pod, at, pod.devices, -1)
    if pod.phase is Phase.STOPPING:
        cluster.releasing.hold(at, pod.shape, pod.devices, cluster.device_memory[at], 1)
        cluster.releasing_on[at] -= 1
        if not cluster.releasing_on[at]:
            del cluster.releasing_on[at]
        job.stopping -= 1
    else:
        job.placed[pod.group] -= 1
        cluster.running_pods.remove(pod)
    del cluster.pods_on[at][pod]
    cluster.changed(at)
    cluster.freed_version += 1
    pod.node, pod.devices = -1, ()
    if pod.promise is None:
        pod.phase, pod.amounts = Phase.PENDING, ()
        job.pending[pod.group] += 1
    else:
        pod.phase = Phase.PROMISED
    _count(cluster, pod, 1)
    if not any(pod.phase in (Phase.RUNNING, Phase.STOPPING) for group in job.pods for pod in group):
        job.started_s = job.saved_s = None
        job.waits_since_s = at_s
        _runs(cluster, job, False)


def _runs(cluster: Cluster, job: Job, runs: bool) -> None:
    """A job now holds room on nodes, or no longer."""
    if not runs:
        del cluster.running[job.project][job.spec.name]
    else:
        cluster.running.setdefault(job.project, {})[job.spec.name] = job
    if job.spec.preemptible:
        counts = cluster.priorities.setdefault(job.project, {})
        counts[job.spec.priority] = counts.get(job.spec.priority, 0) + (1 if runs else -1)
        if not counts[job.spec.priority]:
            del counts[job.spec.priority]


# Promises


def _promised(cluster: Cluster, event: events.Promised) -> None:
    job = cluster.jobs.get(event.workload)
    if job is None:
        return
    for place in event.places:
        pod, at = _pod(cluster, place.pod), cluster.node_at.get(place.node)
        if pod is None or at is None or pod.promise is not None or pod.phase is Phase.RUNNING:
            continue
        _count(cluster, pod, -1)
        if pod.phase is Phase.PENDING:
            pod.phase = Phase.PROMISED
            job.pending[pod.group] -= 1
        pod.promise = (at, place.devices)
        job.placed[pod.group] += 1
        _count(cluster, pod, 1)
        _hold(cluster, pod, at, place.devices)
        cluster.changed(at)
        cluster.promised[job.spec.name] = job
    job.promised_by = event.freed_by
    _settle(cluster, job, event.at_s)


def _promise_dropped(cluster: Cluster, event: events.PromiseDropped) -> None:
    job = cluster.jobs.get(event.workload)
    if job is not None:
        _drop_promise(cluster, job)
        _settle(cluster, job, cluster.now_s)


def _drop_promise(cluster: Cluster, job: Job) -> None:
    for group in job.pods:
        for pod in group:
            if pod.promise is not None:
                _unpromise(cluster, pod)


def _unpromise(cluster: Cluster, pod: Pod) -> None:
    """Take the promise back: the pod is pending, or just being stopped, as it was without."""
    assert pod.promise is not None
    job, (at, devices) = pod.job, pod.promise
    _count(cluster, pod, -1)
    _hold(cluster, pod, at, devices, -1)
    cluster.changed(at)
    cluster.freed_version += 1
    pod.promise = None
    job.placed[pod.group] -= 1
    if pod.phase is Phase.PROMISED:
        pod.phase, pod.amounts = Phase.PENDING, ()
        job.pending[pod.group] += 1
    _count(cluster, pod, 1)
    if not any(pod.promise is not None for group in job.pods for pod in group):
        cluster.promised.pop(job.spec.name, None)
        job.promised_by = ()


# What pods count with


def _pod(cluster: Cluster, key: events.PodKey) -> Pod | None:
    job = cluster.jobs.get(key.workload)
    if job is None or not (0 <= key.group < len(job.pods) and 0 <= key.index < len(job.pods[key.group])):
        return None
    return job.pods[key.group][key.index]


def _hold(cluster: Cluster, pod: Pod, at: int, devices: tuple[int, ...], pods: int = 1) -> None:
    cluster.room.hold(at, pod.shape, devices, cluster.device_memory[at], pods)


def holding(cluster: Cluster, shape: Shape, at: int) -> Amounts:
    """What a pod of this shape counts with in the ledger while it holds room on a node."""
    if not shape.devices:
        return shape.needs
    milli = shape.devices * min(WHOLE_MILLI, shape.share_on(cluster.device_memory[at]))
    node = cluster.nodes[at]
    if node is None or node.gpu_model is None:
        return (*shape.needs, (GPU_ROW, milli))
    return (*shape.needs, (GPU_ROW, milli), (cluster.rows.of(model_row_name(node.gpu_model)), milli))


def _count(cluster: Cluster, pod: Pod, sign: int) -> None:
    """Count a pod in the ledger (sign -1: no more), as what it is now."""
    job, ledger = pod.job, cluster.ledger
    if pod.promise is not None:
        amounts = holding(cluster, pod.shape, pod.promise[0])
        ledger.add_allocated(job.path, amounts, not job.spec.preemptible, sign)
    elif pod.phase is Phase.RUNNING:
        ledger.add_allocated(job.path, pod.amounts, not job.spec.preemptible, sign)
    elif not job.held:
        ledger.add_asked(job.path, job.asks[pod.group], sign)


# Where a job stands


def _settle(cluster: Cluster, job: Job, at_s: float) -> None:
    """Bring a job's place among the waiting and the incomplete up to date."""
    name = job.spec.name
    job.price_terms = None
    cluster.usage.holds(job.spec.project, cluster.ledger.allocated[job.project][GPU_ROW], at_s)
    if job.started_s is not None and job.is_below():
        if job.below_since_s is None:
            job.below_since_s = at_s
        cluster.incomplete[name] = job
    else:
        job.below_since_s = None
        cluster.incomplete.pop(name, None)
    _rank(cluster, job)


def _rank(cluster: Cluster, job: Job) -> None:
    """Put a job into the class of those that wait like it, if it waits."""
    waits = any(job.pending) and not job.held and not job.stopping
    if not waits:
        _leave_class(cluster, job)
        return
    key = _class_key(job)
    if job.waiting is not None:
        if job.waiting.key == key:
            return
        _leave_class(cluster, job)
    found = cluster.waiting.get(key)
    if found is None:
        found = cluster.waiting[key] = PendingClass(key, job, cluster.classes_made)
        cluster.classes_made += 1
        cluster.waiting_of.setdefault(job.project, {})[found] = None
        for shape in found.shapes:
            cluster.waiting_by_shape.setdefault(shape, {})[found] = None
    found.add(job)
    job.waiting = found


def _class_key(job: Job) -> tuple[object, ...]:
    spec = job.spec
    key = (
        job.project,
        tuple(
            (shape.id, group.count, group.min, group.order)
            for shape, group in zip(job.shapes, spec.groups, strict=True)
        ),
        spec.min_pods,
        spec.type,
        spec.priority,
        spec.preemptible,
        spec.topology,
        spec.max_runtime_s,
        job.likenesses[0],
        job.ran_s,
    )
    return (*key, spec.name, tuple(job.placed)) if any(job.placed) else key


def _leave_class(cluster: Cluster, job: Job) -> None:
    waiting = job.waiting
    if waiting is None:
        return
    job.waiting = None
    waiting.remove(job)
    if not waiting.members:
        del cluster.waiting[waiting.key]
        del cluster.waiting_of[waiting.project][waiting]
        for shape in waiting.shapes:
            of_shape = cluster.waiting_by_shape[shape]
            del of_shape[waiting]
            if not of_shape:
                del cluster.waiting_by_shape[shape]


_REDUCERS: dict[type, Callable[[Cluster, Any], None]] = {
    events.NodeSet: _node_set,
    events.NodeLost: _node_lost,
    events.QueuesSet: _queues_set,
    events.TopologiesSet: _topologies_set,
    events.WorkloadSubmitted: _submitted,
    events.WorkloadEnded: _ended,
    events.WorkloadHeld: _held,
    events.Checkpointed: _checkpointed,
    events.PodAssigned: _assigned,
    events.PodStopping: _stopping,
    events.PodStopped: _stopped,
    events.Promised: _promised,
    events.PromiseDropped: _promise_dropped,
    events.Noted: _noted,
}
