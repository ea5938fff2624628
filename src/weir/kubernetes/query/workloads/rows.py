"""Objects of a cluster converted to rows of answers."""

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from msgspec import field

from weir.api.answers import (
    EventRow,
    EvictionRow,
    Explanation,
    PodRow,
    Status,
    Type,
    WorkloadRow,
)
from weir.api.reported_values import progress_of
from weir.api.workload_list import ActivityRow
from weir.control.activity import ActivityReading
from weir.kubernetes.api.object_numbers import at_s
from weir.kubernetes.api.objects import ApiStruct, Metadata
from weir.kubernetes.crd.objects import COOPERATIVE, ENFORCED, UNLIMITED, IdleStatus, WorkloadObject
from weir.kubernetes.state.gangs.gang import TrackedPod
from weir.model.resources import quantity, seconds
from weir.model.workloads import DEFAULT_PRIORITY, WorkloadType

_STATUSES: Mapping[str, Status] = {word.capitalize(): word for word in get_args(Status)}
_TYPES: tuple[Type, ...] = get_args(Type)
_PODS: Mapping[str, Status] = {"Running": "running", "Succeeded": "succeeded", "Failed": "failed"}
_PRIORITY = DEFAULT_PRIORITY[WorkloadType.TRAIN]
WORKLOAD = "Workload"
WATCHED = "nothing limits it; weir-node watches it, and names pods that use more"
UNWATCHED = (
    "no label says that its node or device class limits it, and no agent limits or watches it; or its bytes "
    "are unknown, or it is privileged"
)
_INNER_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_EVENT_BITS = 11
"""Bits of an event's number that distinguish events of one millisecond."""


class RegardingView(ApiStruct):
    """The object of an Event."""

    kind: str = ""
    namespace: str = ""
    name: str = ""


class EventView(ApiStruct):
    """An Event."""

    metadata: Metadata
    event_time: str | None = None
    reason: str = ""
    note: str = ""
    regarding: RegardingView = field(default_factory=RegardingView)


def gpus_of(workload_object: WorkloadObject) -> float:
    """Return the GPUs of all pods of a workload; 0 if they can't be read."""
    try:
        return float(quantity(workload_object.status.gpus))
    except ValueError:
        return 0.0


def max_runtime_s(workload_object: WorkloadObject) -> float | None:
    """Return the limit of a workload's run time; None without one, or if it can't be read."""
    try:
        return None if workload_object.spec.max_runtime is None else seconds(workload_object.spec.max_runtime)
    except ValueError:
        return None


def phase_status(workload_object: WorkloadObject) -> Status:
    """Return the status of a workload by the phase of its object."""
    return _STATUSES.get(workload_object.status.phase, "pending")


def workload_row(
    name: str,
    number: int,
    created: str | None,
    nodes: Sequence[str],
    workload_object: WorkloadObject,
    now_s: float,
) -> WorkloadRow:
    """Return the row of a workload; `name` is its namespace and the name of its object."""
    spec, status = workload_object.spec, workload_object.status
    life = status.life
    started_s, ended_s = at_s(status.started_at), at_s(status.ended_at)
    until_s = now_s if ended_s is None else ended_s
    reason = None
    if status.reason is not None:
        reason = Explanation(
            why=status.reason.why, sentence=status.reason.sentence, numbers=status.reason.numbers
        )
    elif status.suspended and status.phase in ("", "Pending"):
        reason = Explanation(why="suspended", sentence="suspended")
    return WorkloadRow(
        uid=number,
        name=name,
        project=spec.project or "-",
        user=spec.user,
        type=next((kind for kind in _TYPES if kind == spec.type), "train"),
        status=phase_status(workload_object),
        priority=_PRIORITY if spec.priority is None else spec.priority,
        preemptible=spec.preemptible is not False,
        devices=gpus_of(workload_object),
        pods=status.pods,
        pods_running=status.pods_running,
        submitted_s=at_s(status.submitted_at) or at_s(created) or 0.0,
        started_s=started_s,
        ended_s=ended_s,
        ran_s=0.0 if started_s is None else max(0.0, until_s - started_s),
        kept_s=life.ran_seconds if life else 0.0,
        restarts=life.restarts if life else 0,
        reason=reason,
        evicted=_evicted(workload_object),
        nodes=list(nodes),
        progress=progress_of(workload_object.report.values),
    )


def reported_fields(workload_object: WorkloadObject) -> dict[str, Any]:
    """Return the fields with the values and the last checkpoint that a workload's pods report."""
    report = workload_object.report
    return {
        "checkpointed_s": at_s(report.checkpointed_at),
        "step": report.step,
        "reported": dict(report.values),
    }


def _evicted(workload_object: WorkloadObject) -> EvictionRow | None:
    last = workload_object.status.last_eviction
    if last is None:
        return None
    return EvictionRow(
        at_s=at_s(last.at) or 0.0,
        rule=last.rule,
        sentence=last.sentence,
        by=last.by,
        choice=last.choice,
        lost_gpu_s=last.lost_gpu_seconds,
    )


def pod_row(workload: str, tracked: TrackedPod) -> PodRow:
    """Return the row of a pod. Its node and devices are those that it is bound to, or is about to be."""
    status: Status = _PODS.get(tracked.phase, "pending")
    if tracked.over:
        status = _PODS.get(tracked.over, "stopped")
    elif tracked.stopping and status in ("running", "pending"):
        status = "stopping"
    elif status == "pending" and tracked.holds:
        status = "starting"
    return PodRow(
        name=f"{workload}/{tracked.name}",
        status=status,
        node=tracked.node or None,
        devices=list(tracked.devices),
        start=tracked.start or None,
        since_s=tracked.at_s or None,
        exit=tracked.over or None,
    )


def activity_row(reading: ActivityReading, since_s: float, workload_object: WorkloadObject) -> ActivityRow:
    """Return the activity of a workload, since when it is in this state, and its last idle step."""
    life = workload_object.status.life
    idle = IdleStatus() if life is None or life.idle is None else life.idle
    return ActivityRow(
        state=None if reading.state is None else reading.state.value,
        since_s=since_s - reading.quiet_s,
        signals=[signal.value for signal in reading.signals],
        quiet=list(reading.quiet_devices),
        warning=workload_object.status.idle_warning or None,
        unprotected=idle.unprotected,
        extended_until_s=idle.excused_until_seconds,
    )


def memory_isolation(workload: WorkloadObject) -> dict[str, Any]:
    """Return the fields that say whether something limits the memory of a workload's GPU shares."""
    stated = workload.status.gpu_memory_isolation
    if stated == ENFORCED:
        return {"gpu_memory": ENFORCED, "gpu_memory_by": "the GPU driver"}
    if stated == COOPERATIVE:
        return {"gpu_memory": COOPERATIVE, "gpu_memory_why": WATCHED}
    if stated is None:
        return {}
    return {"gpu_memory": UNLIMITED, "gpu_memory_why": UNWATCHED}


def event_row(event: EventView, workload: str | None, project: str | None) -> EventRow:
    """Return the row of an Event about a workload or one of its pods."""
    about = event.regarding
    return EventRow(
        id=event_number(event, stated_s(event)),
        at_s=event_at_s(event),
        kind=event_kind(event.reason),
        workload=workload,
        project=project,
        pod=None if about.kind == WORKLOAD else about.name,
        sentence=event.note,
    )


def event_kind(reason: str) -> str:
    """Return the reason of an Event as a kind, such as `over_quota` for `OverQuota`."""
    return _INNER_CAPITAL.sub("_", reason).lower()


def stated_s(event: EventView) -> float:
    """Return the time that an Event states, by the clock of its reporter."""
    return at_s(event.event_time or event.metadata.creation_timestamp) or 0.0


def event_at_s(event: EventView) -> float:
    """Return the time of an Event, by the API server's clock as far as that is known.

    A reporter's clock may be half a second behind. The Event of a new namespace would then seem older than
    the namespace, and would be hidden as one of an earlier tenant.
    """
    return max(stated_s(event), at_s(event.metadata.creation_timestamp) or 0.0)


def event_number(event: EventView, stamp_s: float) -> int:
    """Return the number of an Event: later ones have higher numbers, which a float holds exactly."""
    number = int(stamp_s * 1000) << _EVENT_BITS
    return number | zlib.crc32(event.metadata.uid.encode()) >> (32 - _EVENT_BITS)
