"""Queues and nodes in numbers for people: devices, cores and bytes, instead of rows of thousandths."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.api.answers import DeviceRow, NodeRow, PersonLimitsRow, QueueDetail, QueueRow, WorkloadDefaultsRow
from weir.engine.usage.fair_share import Excess
from weir.engine.usage.quota_overlay import QuotaOverlay, usage_of
from weir.model.nodes import DRAINED, Node, Outage
from weir.model.policy import Policy
from weir.model.queues import PersonLimits, Queue, WorkloadDefaults
from weir.model.resources import GPU, UNLIMITED, plain_amount
from weir.model.workloads import WHOLE_MILLI
from weir.service.quota_warnings import quota_warnings
from weir.state.cluster import Cluster
from weir.state.jobs import Phase

VIRTUAL_LABEL = "weir/virtual"
_COUNTED = {"allocated", "share", "running", "pending", "warnings"}
"""Fields of a row that are counted, and aren't settings of its queue."""
_VERSION_BYTES = 8


@dataclass(frozen=True, slots=True)
class DeviceUtilization:
    """Activity of a device; None if unknown."""

    use: float | None = None
    memory_used: int | None = None
    foreign: str = ""  # foreign process on the device
    temperature_c: int | None = None
    power_w: float | None = None
    errors: int | None = None
    drained: str = ""  # user and reason of the drain
    activity: str = ""  # activity of its workloads; quiet: the workload uses its other devices


def _bounds(bounds: Mapping[str, int]) -> dict[str, float]:
    return {name: plain_amount(name, value) for name, value in bounds.items() if value < UNLIMITED}


def _times(queue: Queue) -> dict[str, float]:
    times = queue.times
    stated = {
        "max_runtime": times.max_runtime_s,
        "idle_notice": times.idle_notice_s,
        "idle_unprotect": times.idle_unprotect_s,
        "idle_suspend": times.idle_suspend_s,
        "idle_limit": times.idle_limit_s,
        "lifetime": times.lifetime_s,
        "stop_grace": times.stop_grace_s,
    }
    return {word: value for word, value in stated.items() if value is not None}


def queue_rows(
    cluster: Cluster,
    policy: Policy,
    now_s: float,
    running: Mapping[str, int],
    pending: Mapping[str, int],
    excess: Excess | None = None,
    *,
    only: str | None = None,
) -> dict[str, QueueRow]:
    """Return every department and project by name, parents first.

    `running` and `pending` are workloads by project, `excess` requests that no node can ever satisfy.
    With `only`, that queue and its ancestors are returned.
    """
    ledger, names = cluster.ledger, cluster.rows.names
    share = QuotaOverlay(cluster, policy, usage_of(cluster, policy, now_s), excess=lambda: excess or {}).share
    wanted = None if only is None else ledger.path[ledger.position[only]]
    runs, waits = _summed(cluster, running), _summed(cluster, pending)
    stopping = stopping_usage(cluster)
    warnings = quota_warnings(cluster)
    rows = {}
    for position, queue in enumerate(ledger.queues):
        if wanted is not None and position not in wanted:
            continue
        rows[queue.name] = QueueRow.model_construct(
            **_stated(queue),
            allocated=_amounts(names, _with(ledger.allocated[position], stopping.get(position))),
            share=_amounts(names, share[position]),
            running=runs[position],
            pending=waits[position],
            warnings=warnings.get(queue.name, []),
        )
    return rows


def stopping_usage(cluster: Cluster) -> dict[int, dict[int, int]]:
    """Return the devices of stopping pods, by queue and resource row.

    The engine no longer charges these devices to the queue, because they are being released. People see them
    as in use. A pod that is moved isn't included: it is charged already for its new place.
    """
    milli: dict[int, dict[int, int]] = {}
    for node in cluster.releasing_on:
        for pod in cluster.pods_on[node]:
            if pod.phase is Phase.STOPPING and pod.nomination is None:
                for queue in pod.job.path:
                    line = milli.setdefault(queue, {})
                    for row, amount in pod.amounts:
                        line[row] = line.get(row, 0) + amount
    return milli


def _with(line: Sequence[int], extra: Mapping[int, int] | None) -> Sequence[int]:
    return line if not extra else [amount + extra.get(row, 0) for row, amount in enumerate(line)]


def bare_queue_row(queue: Queue) -> QueueRow:
    """Return the row of a queue that the control loop hasn't seen yet."""
    return QueueRow(**_stated(queue))


def queue_detail(row: QueueRow) -> QueueDetail:
    """Return a row with the version of its settings, which changes with them and with nothing else."""
    settings = row.model_dump_json(exclude=_COUNTED)
    version = hashlib.blake2b(settings.encode(), digest_size=_VERSION_BYTES).hexdigest()
    return QueueDetail(**{**dict(row), "version": version})


def _stated(queue: Queue) -> dict[str, Any]:
    """Return the fields of a row that the settings of its queue determine."""
    return {
        "name": queue.name,
        "kind": "project" if queue.is_project else "department",
        "parent": queue.parent,
        "quota": _bounds(queue.quota),
        "follows": queue.follows,
        "limit": _bounds(queue.limit),
        "weight": {name: float(value) for name, value in queue.weight.items()},
        "priority": queue.priority,
        "max_priority": queue.max_priority,
        "max_priority_of": dict(queue.max_priority_of),
        "person_limits": _limits(queue.person_limits),
        "person_limits_of": {user: _limits(limits) for user, limits in queue.person_limits_of.items()},
        "defaults": _defaults(queue.defaults),
        "times": _times(queue),
    }


def _limits(limits: PersonLimits) -> PersonLimitsRow:
    gpus = limits.gpus_milli
    return PersonLimitsRow(
        gpus=None if gpus is None else gpus / WHOLE_MILLI,
        running=limits.running,
        sessions=limits.sessions,
        pending=limits.pending,
        max_runtime=limits.max_runtime_s,
    )


def _defaults(defaults: WorkloadDefaults) -> WorkloadDefaultsRow:
    gpus = defaults.gpus_milli
    return WorkloadDefaultsRow(
        type=None if defaults.type is None else defaults.type.value,
        priority=defaults.priority,
        preemptible=defaults.preemptible,
        gpus=None if gpus is None else gpus / WHOLE_MILLI,
        max_runtime=defaults.max_runtime_s,
        grace=defaults.grace_s,
    )


def _amounts(names: Sequence[str], line: Sequence[float]) -> dict[str, float]:
    """Return amounts by name, without zeros except for devices."""
    return {
        name: plain_amount(name, value)
        for name, value in zip(names, line, strict=False)
        if value or name == GPU
    }


def _summed(cluster: Cluster, count_by_project: Mapping[str, int]) -> list[int]:
    ledger = cluster.ledger
    total = [0] * len(ledger.queues)
    for project, count in count_by_project.items():
        position = ledger.position.get(project)
        for queue in ledger.path[position] if position is not None else ():
            total[queue] += count
    return total


def node_rows(
    cluster: Cluster,
    seen: Mapping[tuple[str, int], DeviceUtilization],
    positions: Sequence[int] | None = None,
) -> list[NodeRow]:
    """Return a row for every node, or for those at these positions, with the usage of its pods."""
    rows = []
    for position in range(len(cluster.nodes)) if positions is None else positions:
        node = cluster.nodes[position]
        if node is None:
            continue
        device_milli: Counter[int] = Counter()
        on: dict[int, dict[str, None]] = {}
        for pod in cluster.pods_on[position]:
            milli = min(WHOLE_MILLI, pod.shape.share_on(node.gpu_memory))
            for device in pod.devices:
                device_milli[device] += milli
                on.setdefault(device, {})[pod.job.spec.name] = None
        devices = [
            DeviceRow.model_construct(
                index=index,
                model=node.gpu_model,
                memory=node.gpu_memory,
                allocated=device_milli[index] / WHOLE_MILLI,
                use=use.use,
                memory_used=use.memory_used,
                workloads=list(on.get(index, ())),
                foreign=use.foreign or None,
                temperature_c=use.temperature_c,
                power_w=use.power_w,
                errors=use.errors,
                drained=use.drained or None,
                # Measured before the present allocation
                activity=(use.activity or None) if index in on else None,
            )
            for index in range(node.gpus)
            for use in (seen.get((node.name, index), DeviceUtilization()),)
            if index not in node.foreign_devices or use.foreign or use.drained
        ]
        allocated = _allocated(cluster, position, node.capacity)
        leaving = sum(device_milli[index] > 0 for index in node.foreign_devices)  # drained, and in use
        rows.append(
            NodeRow(
                name=node.name,
                devices=devices,
                capacity={
                    GPU: float(node.own_gpus + leaving),
                    **{k: plain_amount(k, v) for k, v in node.capacity.items()},
                },
                allocated={
                    GPU: sum(device_milli.values()) / WHOLE_MILLI,
                    **{name: plain_amount(name, value) for name, value in allocated.items()},
                },
                labels=dict(node.labels),
                pods=sum(pod.phase in _HOLDING for pod in cluster.pods_on[position]),
                virtual=node.labels.get(VIRTUAL_LABEL) == "true",
                state=_states(node),
            )
        )
    return rows


def _states(node: Node) -> list[str]:
    """Return the drain of a node, and its times out of service."""
    drains = [taint.value for taint in node.taints if taint.key == DRAINED]
    return [*drains, *[outage_phrase(outage) for outage in node.outages]]


def outage_phrase(outage: Outage) -> str:
    """Return a time out of service in words: `GPUs 0, 1: maintenance from ...`."""
    if outage.devices is None:
        return outage.sentence
    indices = ", ".join([str(device) for device in outage.devices])
    return f"GPU{'' if len(outage.devices) == 1 else 's'} {indices}: {outage.sentence}"


def _allocated(cluster: Cluster, position: int, capacity: Mapping[str, int]) -> dict[str, int]:
    """Return the usage of a node besides devices; assumed requests are added up to its capacity."""
    reserved: Counter[str] = Counter()
    charged: Counter[str] = Counter()
    for pod in cluster.pods_on[position]:
        for needs, amounts in ((pod.shape.needs, reserved), (pod.shape.charges, charged)):
            for row, amount in needs:
                amounts[cluster.rows.names[row]] += amount
    return {name: min(charge, max(reserved[name], capacity.get(name, 0))) for name, charge in charged.items()}


_HOLDING = (Phase.RUNNING, Phase.STOPPING)


def ancestor_rows(rows: Mapping[str, QueueRow], name: str) -> list[QueueRow]:
    """Return a queue and its ancestors."""
    ancestors = []
    current: str | None = name
    while current is not None and current in rows:
        ancestors.append(rows[current])
        current = rows[current].parent
    return ancestors
