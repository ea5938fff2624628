"""Objects of a cluster converted to rows of a pool's answers."""

import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, get_args

from weir.api.answers import (
    EventRow,
    EvictionRow,
    Explanation,
    PodRow,
    QueueRow,
    Status,
    Type,
    WorkloadRow,
)
from weir.cli.cluster.objects import EventView, ListedQueue
from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.crd.objects import WorkloadObject
from weir.model.resources import UNLIMITED, amount, in_thousandths, quantity, seconds
from weir.model.workloads import DEFAULT_PRIORITY, WHOLE_MILLI, WorkloadType

_STATUSES: Mapping[str, Status] = {word.capitalize(): word for word in get_args(Status)}
_TYPES: tuple[Type, ...] = get_args(Type)
_PODS: Mapping[str, Status] = {"Running": "running", "Succeeded": "succeeded", "Failed": "failed"}
_TIMES = {"maxRuntime": "max_runtime", "idleLimit": "idle_limit", "stopGrace": "stop_grace"}
_PRIORITY = DEFAULT_PRIORITY[WorkloadType.TRAIN]
LEADER, WORKLOAD = "weir.dev/weir", "Workload"


def at_s(written: str | None) -> float | None:
    """Return a time of the API as seconds since the epoch."""
    return None if not written else datetime.fromisoformat(written).timestamp()


def name_of(thing: WorkloadObject) -> str:
    """Return the name of a workload: its namespace and its object."""
    return f"{thing.metadata.namespace}/{thing.metadata.name}"


def workload_row(thing: WorkloadObject) -> WorkloadRow:
    """Return the row of a Workload object."""
    spec, status, made_s = thing.spec, thing.status, at_s(thing.metadata.creation_timestamp) or 0.0
    life = status.life
    started_s, ended_s = at_s(status.started_at), at_s(status.ended_at)
    until_s = time.time() if ended_s is None else ended_s
    reason = None
    if status.reason is not None:
        reason = Explanation(
            why=status.reason.why, sentence=status.reason.sentence, numbers=status.reason.numbers
        )
    elif status.suspended and status.phase in ("", "Pending"):
        reason = Explanation(why="suspended", sentence="suspended")
    return WorkloadRow(
        uid=int(thing.metadata.uid.replace("-", "")[:15] or "0", 16),
        name=name_of(thing),
        project=spec.project or "-",
        user="",
        type=next((each for each in _TYPES if each == spec.type), "train"),
        status=_STATUSES.get(status.phase, "pending"),
        priority=_PRIORITY if spec.priority is None else spec.priority,
        preemptible=spec.preemptible is not False,
        devices=float(quantity(status.gpus)),
        pods=status.pods,
        pods_running=status.pods_running,
        submitted_s=at_s(status.submitted_at) or made_s,
        started_s=started_s,
        ended_s=ended_s,
        ran_s=0.0 if started_s is None else max(0.0, until_s - started_s),
        kept_s=life.ran_seconds if life else 0.0,
        restarts=life.restarts if life else 0,
        reason=reason,
        evicted=_evicted(thing),
        nodes=status.nodes,
    )


def _evicted(thing: WorkloadObject) -> EvictionRow | None:
    last = thing.status.last_eviction
    if last is None:
        return None
    return EvictionRow(
        at_s=at_s(last.at) or 0.0, rule=last.rule, sentence=last.sentence, by=last.by, choice=last.choice
    )


def pod_rows(thing: WorkloadObject, pods: Iterable[KubePod]) -> list[PodRow]:
    """Return the rows of a workload's pods, by name."""
    rows = []
    for pod in sorted(pods, key=lambda pod: pod.metadata.name):
        words = pod.metadata.annotations
        status: Status = _PODS.get(pod.status.phase, "pending")
        if pod.metadata.deletion_timestamp is not None and status in ("running", "pending"):
            status = "stopping"
        elif status == "pending" and pod.spec.node_name:
            status = "starting"
        devices = words.get("weir.dev/gpus", "")
        start = words.get("weir.dev/start", "")
        rows.append(
            PodRow(
                name=f"{thing.metadata.name}/{pod.metadata.name}",
                status=status,
                node=pod.spec.node_name or None,
                devices=[int(each) for each in devices.split(",") if each.isdigit()],
                start=int(start) if start.isdigit() else None,
                since_s=at_s(pod.status.start_time),
                exit=pod.status.reason or None,
            )
        )
    return rows


def queue_row(thing: ListedQueue, *, is_project: bool) -> QueueRow:
    """Return the row of a Department or Project."""
    spec, status = thing.spec, thing.status
    stated = _texts(spec.get("quota"))
    summed = "0" if is_project else status.quota.get("gpu", "0")
    return QueueRow(
        name=thing.metadata.name,
        kind="project" if is_project else "department",
        parent=spec.get("department" if is_project else "parent"),
        quota=_amounts({"gpu": summed, **stated}),
        follows=not is_project and "gpu" not in stated,
        limit=_amounts(_texts(spec.get("limit"))),
        weight={name: float(quantity(each)) for name, each in _texts(spec.get("weight")).items()},
        priority=spec.get("priority", 100),
        times={_TIMES.get(word, word): seconds(each) for word, each in (spec.get("times") or {}).items()},
        allocated=_amounts(status.allocated),
        share=_amounts(status.share),
        running=status.running,
        pending=status.pending,
    )


def _texts(amounts: Any) -> dict[str, str]:
    return {name: str(each) for name, each in (amounts or {}).items()}


def _amounts(written: Mapping[str, str]) -> dict[str, float]:
    """Return amounts in the units of answers, without unlimited ones."""
    counted = {name: amount(name, each) for name, each in written.items()}
    return {
        name: value / WHOLE_MILLI if in_thousandths(name) else float(value)
        for name, value in counted.items()
        if value < UNLIMITED
    }


def memory_isolation(workload: WorkloadObject) -> dict[str, Any]:
    """Return the fields that say whether nodes limit the memory of a workload's GPU shares."""
    stated = workload.status.gpu_memory_isolation
    if stated == "enforced":
        return {"gpu_memory": stated, "gpu_memory_by": "NVIDIA's container toolkit"}
    if stated is None:
        return {}
    return {
        "gpu_memory": "none",
        "gpu_memory_why": "its node has no weir.dev/gpu-memory-limits, or it has no limit",
    }


def event_rows(events: Iterable[EventView], workloads: Sequence[WorkloadObject]) -> list[EventRow]:
    """Return Weir's Events about the given workloads and their pods, oldest first."""
    projects = {name_of(each): each.spec.project for each in workloads}
    owners = {f"{each.metadata.namespace}/{each.spec.owner.name}": name_of(each) for each in workloads}
    rows = []
    for event in events:
        about = event.regarding
        key = f"{about.namespace}/{about.name}"
        name = key if about.kind == WORKLOAD else _owner_of(key, owners)
        rows.append(
            EventRow(
                id=zlib.crc32(event.metadata.uid.encode()),
                at_s=at_s(event.event_time or event.metadata.creation_timestamp) or 0.0,
                kind=event.reason.lower(),
                workload=name,
                project=projects.get(name or ""),
                pod=None if about.kind == WORKLOAD else about.name,
                sentence=event.note,
            )
        )
    rows.sort(key=lambda row: (row.at_s, row.id))
    return rows


def _owner_of(pod: str, owners: Mapping[str, str]) -> str | None:
    """Return the workload of a pod by its name, OWNER-SUFFIX with a suffix for each level."""
    stem = pod
    while stem not in owners:
        stem, dash, _ = stem.rpartition("-")
        if not dash:
            return None
    return owners[stem]
