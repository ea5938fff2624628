"""Bodies of a `Workload` object: its spec and its status, and the record of the last write.

An object is made together with its status, in one write. Every Job costs six other writes: itself, its pod,
the binding, the status of the pod, and two statuses of the Job. The seventh write shows the Job in `kubectl
get workloads.weir.dev`.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from weir.api.answers import Explanation
from weir.control.port import WorkloadProgress
from weir.kubernetes.api.object_numbers import moment
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.objects import WRITTEN_KEY, OwnerFields, WorkloadObject, WorkloadSpec, WorkloadStatus
from weir.kubernetes.crd.schemas import API_VERSION
from weir.kubernetes.crd.workload_spec import spec_of
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.state.gangs.gang import Gang, TrackedPod
from weir.kubernetes.state.gangs.owner_state import maker_is_gone, owner_is_gone
from weir.kubernetes.state.gangs.workload import counted_pods, minimum_of, pods_by_role, workload_of
from weir.kubernetes.state.nodes.states import NodeStates
from weir.kubernetes.writes.operations import UpsertWorkload
from weir.kubernetes.writes.statuses.fields import allocations, pause_of
from weir.kubernetes.writes.statuses.overcommit import overcommit_conditions
from weir.kubernetes.writes.statuses.pending_pods import PendingPods
from weir.kubernetes.writes.statuses.share_memory import memory_conditions, memory_isolation
from weir.kubernetes.writes.statuses.values import Words, cut, expected, life_of, plain
from weir.model.resources import GPU, quantity, written
from weir.model.workloads import WHOLE_MILLI, PodGroup, Request
from weir.state.events import WorkloadOutcome

PHASES = {
    WorkloadOutcome.SUCCEEDED: "Succeeded",
    WorkloadOutcome.FAILED: "Failed",
    WorkloadOutcome.STOPPED: "Stopped",
}
NODES_NAMED_MAX = 16
CLOCK_ERROR_S = 2.0
"""Time by which Weir's clock may be behind that of the API server."""

NO_LIFE = WorkloadProgress()


@dataclass(slots=True, eq=False)
class WrittenStatus:
    """Status of one workload as last written."""

    spec: str = ""  # digest of the written spec
    counts: tuple[int, ...] = ()  # pods of each group in it
    stored_digest: str = ""  # digest of the status at the API server, if an earlier leader wrote it
    missing_s: float | None = None  # time since which its object is missing
    status: bytes = b""
    status_s: float = float("-inf")  # time of the last written status
    life: WorkloadProgress = NO_LIFE
    most: tuple[int, int] = (0, 0)  # largest number of pods, and of thousandths of devices
    phase: str = ""
    shown: str = ""  # last written phase
    since_s: float = 0.0
    why: str = ""
    at_s: float = float("-inf")  # time of the last write
    # Time since which its pods are back after a stop, without a reason
    undecided_s: float | None = None
    pending: PendingPods = field(default_factory=PendingPods)


def phase_of(gang: Gang) -> str:
    """Return the phase of a workload."""
    pods = list(gang.pods())
    holding = [tracked for tracked in pods if tracked.holds]
    if holding:
        if all(tracked.stopping for tracked in holding):
            return "Stopping"
        return "Running" if any(tracked.phase == "Running" for tracked in holding) else "Starting"
    over = gang.is_over()
    if over is not None:
        return PHASES[over]
    return "Refused" if gang.project is None else "Pending"


def goes_with_its_owner(gang: Gang, done: WrittenStatus, state: ClusterState) -> bool:
    """Return True if its object was deleted with its owner, before its pods: it isn't created again."""
    is_going = any(pod.holds or pod.deleting for pod in gang.pods())
    has_begun = bool(done.spec) or done.missing_s is not None or is_going
    is_missing = not gang.key.uid or gang.name not in state.registry.objects
    return has_begun and is_missing and owner_is_gone(gang, state.resolver.owners, state.resolver.groups)


def may_change(gang: Gang, done: WrittenStatus, state: ClusterState) -> bool:
    """Return True if the spec of its object may change; after the deletion of its owner it may not."""
    return _left_object(gang, state) is None and bool(gang.count or gang.foreseen or not done.spec)


def _left_object(gang: Gang, state: ClusterState) -> WorkloadObject | None:
    """Return the object if the owner in it was deleted."""
    return state.registry.object_of(gang) if maker_is_gone(gang, state.resolver.owners) else None


def spec_body(gang: Gang, done: WrittenStatus, is_node: Container[str]) -> Words:
    """Return the spec of a workload's object, after an update of `done.counts`."""
    key = gang.key
    workload = gang.reported or workload_of(gang, is_node)
    counts = _counts_without_replaced(gang, workload.groups, done.counts)
    done.counts = counts
    groups = tuple(
        replace(group, count=count) if group.count != count else group
        for group, count in zip(workload.groups, counts, strict=True)
    )
    owner = OwnerFields(key.uid, key.api_version, key.kind, key.name, key.gang)
    return spec_of(replace(workload, groups=_groups_in_use(gang, groups)), owner)


def _counts_without_replaced(
    gang: Gang, groups: tuple[PodGroup, ...], before: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the pods of each group, without terminating pods that have a replacement.

    `before` are the previous counts.
    """
    counts = []
    for index, group in enumerate(groups):
        slots = gang.groups[index].slots if index < len(gang.groups) else ()
        deleting = sum(tracked is not None and tracked.deleting for tracked in slots)
        was = before[index] if index < len(before) else group.count
        counts.append(was if group.count - deleting <= was < group.count else group.count)
    return tuple(counts)


def _groups_in_use(gang: Gang, groups: tuple[PodGroup, ...]) -> tuple[PodGroup, ...]:
    """Return the groups that have pods or are needed: pods may have moved to another group."""
    pairs = zip_longest(groups, gang.groups[: len(groups)])
    used = tuple(
        pod_group for pod_group, group in pairs if pod_group.min or group is None or not group.is_empty
    )
    return used or groups


def left_behind(gang: Gang, state: ClusterState) -> Words:
    """Return the patch that removes the status of an earlier owner of the name; empty without one.

    The object may outlive its owner: then it becomes the object of this workload.
    """
    is_anothers = gang.name in state.registry.objects and state.registry.object_of(gang) is None
    return dict.fromkeys(WorkloadStatus.__struct_encode_fields__) if is_anothers else {}


def _in_full(spec: Words) -> Words:
    """Return a complete spec: fields without a value are removed from the object."""
    topology = spec.get("topology")
    return {
        **dict.fromkeys(WorkloadSpec.__struct_encode_fields__),
        **spec,
        "owner": {**dict.fromkeys(OwnerFields.__struct_encode_fields__), **spec["owner"]},
        "topology": topology and {"required": None, "preferred": None, **topology},
    }


def upsert(gang: Gang, spec: Words, digest: str, *, exists: bool) -> UpsertWorkload:
    """Return the write of a workload's object; `exists`: the object exists already."""
    key = gang.key
    reference = {
        "apiVersion": key.api_version,
        "kind": key.kind,
        "name": key.name,
        "uid": key.uid,
        "blockOwnerDeletion": False,
    }
    meta = {
        "name": gang.object_name,
        "namespace": key.namespace,
        "annotations": {WRITTEN_KEY: digest},
        "ownerReferences": [reference],
    }
    body = {"apiVersion": API_VERSION, "kind": "Workload", "metadata": meta, "spec": _in_full(spec)}
    path = path_of(API_VERSION, "workloads", key.namespace)
    return UpsertWorkload(path, gang.object_name, body, exists=exists, about=gang)


def status_body(
    gang: Gang,
    phase: str,
    why: Explanation | None,
    cluster_state: ClusterState,
    *,
    done: WrittenStatus,
    eviction: Words | None,
) -> Words:
    """Return the status of a workload's object."""
    pods = list(gang.pods())
    running = [
        tracked for tracked in pods if tracked.bound and tracked.phase == "Running" and not tracked.deleting
    ]
    holding = [tracked for tracked in pods if tracked.holds]
    count = len(running) + gang.members.running
    total, milli = _size(gang, phase, done, cluster_state)
    head, left = gang.head, _left_object(gang, cluster_state)
    assert head is not None
    submitted_at = "" if left is None else left.status.submitted_at
    return {
        "phase": phase,
        "running": f"{count}/{total}",
        "pods": total,
        "podsRunning": count,
        **({} if gang.adopted and not gang.foreseen else {"gpus": written(GPU, milli)}),
        **memory_isolation(gang, holding, cluster_state),
        **({} if gang.time_to_gpu_s is None else {"timeToGpuSeconds": round(gang.time_to_gpu_s, 1)}),
        "nodes": sorted({tracked.node for tracked in holding})[:NODES_NAMED_MAX],
        "reason": None
        if why is None
        else {"why": why.why, "sentence": cut(why.sentence), "numbers": plain(why.numbers)},
        **({} if eviction is None else {"lastEviction": eviction}),
        "pause": pause_of(gang),
        "shortSince": moment(gang.short_since_s) if gang.short_since_s else None,
        "since": moment(done.since_s),
        "submittedAt": submitted_at or moment(head.submitted_s),
        "startedAt": _moment_of(gang, min(tracked.at_s for tracked in holding)) if holding else None,
        "endedAt": None if holding else _ended_at(gang, phase, done),
        "estimatedStart": expected(why),
        "suspended": head.derived.suspended and not head.derived.restarts,
        "suspendedFor": gang.idle.suspended_for or None,
        "idleWarning": gang.idle.warning or None,
        "conditions": _conditions(holding, cluster_state),
        "allocations": allocations(holding, granted=gang.granted),
        **({} if gang.life == NO_LIFE else {"life": life_of(gang.life, gang.idle)}),
        **_final_report(gang, phase, cluster_state),
    }


def _ended_at(gang: Gang, phase: str, done: WrittenStatus) -> str | None:
    """Return the end of a workload; None if it isn't over.

    Control knows when work ended that it stopped itself, or whose pods succeeded. For other work, whose pods
    were gone before, the time of its owner's condition is used. It is never later than the moment at which
    Weir saw the end. Control also ends work that leaves a project
    and waits in another one, which isn't over.
    """
    if phase not in PHASES.values():
        return None
    if gang.ending is not None:
        return _moment_of(gang, gang.ending.at_s)
    stated_s = 0.0 if gang.head is None else gang.head.derived.over_s
    return _moment_of(gang, min(stated_s or done.since_s, done.since_s))


def _moment_of(gang: Gang, at_s: float) -> str:
    """Return a time of a workload, not before its submission as far as that is the error of Weir's clock.

    The API server has dated the submission.
    """
    submitted_s = gang.submitted_s
    return moment(submitted_s if at_s < submitted_s <= at_s + CLOCK_ERROR_S else at_s)


def _final_report(gang: Gang, phase: str, cluster_state: ClusterState) -> Words:
    """Return the removal of an ended workload's recent values: they are large, and every replica has them."""
    stated = cluster_state.registry.objects.get(gang.name)
    is_over = phase in PHASES.values() and stated is not None and stated.status.report is not None
    return {"report": {"recent": None}} if is_over else {}


def _conditions(holding: Sequence[TrackedPod], cluster_state: ClusterState) -> list[Words] | None:
    """Return the conditions of a workload; None if there are none."""
    over = cluster_state.overcommitted.among(tracked.node for tracked in holding if tracked.devices)
    return [
        *overcommit_conditions(over),
        *memory_conditions(cluster_state.share_memory.excesses_of(holding)),
    ] or None


def _size(gang: Gang, phase: str, done: WrittenStatus, cluster_state: ClusterState) -> tuple[int, int]:
    """Return its number of pods and thousandths of devices.

    An ended workload has the most that it had or requested: its pods are gone, and after a change of the
    leader only its object has their number.
    """
    if gang.foreseen and gang.head is not None:
        first, follower = (
            gang.groups[0].request,
            gang.head.request,
        )  # a claim that all of them name counts once
        of_first, of_each = (_milli_of(request, cluster_state.node_states) for request in (first, follower))
        return gang.foreseen, of_first + (gang.foreseen - 1) * of_each
    if phase not in PHASES.values():
        pods = max(gang.count + gang.members.count, gang.whole)
        milli = _devices_milli(gang, cluster_state.node_states)
        done.most = max(pods, done.most[0]), max(milli, done.most[1])
        return pods, milli
    stated = cluster_state.registry.objects.get(gang.name)
    if done.most[0] or stated is None:
        return done.most
    try:
        return stated.status.pods, int(quantity(stated.status.gpus) * WHOLE_MILLI)
    except ValueError:
        return stated.status.pods, 0


def _devices_milli(gang: Gang, node_states: NodeStates) -> int:
    """Return the thousandths of devices of all its pods, absent ones included."""
    places = [(tracked.info.request, tracked.node) for tracked in gang.pods() if tracked.info is not None]
    places += [(request, "") for request in _absent_requests(gang)]
    return sum(_milli_of(request, node_states, node) for request, node in places)


def _milli_of(request: Request, node_states: NodeStates, node: str = "") -> int:
    """Return thousandths of the devices of one pod."""
    if not request.devices:
        return 0
    return request.devices * min(WHOLE_MILLI, request.share_on(node_states.device_memory(node)))


def _absent_requests(gang: Gang) -> Iterator[Request]:
    """Return the requests of pods that it needs and that don't exist, as far as they are known."""
    assert gang.head is not None
    existing, minima = pods_by_role(gang), minimum_of(gang, gang.head).minima
    left = gang.whole - counted_pods(existing, minima, gang.whole) - gang.members.pending
    by_role = {group.role: group.request for group in reversed(gang.groups)}
    for role, least in minima.items():
        lacking = max(0, min(least - existing[role], left))
        left -= lacking
        if role in by_role:
            yield from [by_role[role]] * lacking
    yield from [gang.head.request] * max(0, left)
