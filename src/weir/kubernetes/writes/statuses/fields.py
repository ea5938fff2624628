"""Fields of a workload's status, and the pods that they are about."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from weir.api.answers import Explanation
from weir.kubernetes.api.client import Patch
from weir.kubernetes.api.object_numbers import moment
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.schemas import API_VERSION
from weir.kubernetes.state.gangs.gang import AllocationOrigin, Gang, TrackedPod
from weir.kubernetes.state.gangs.owner_state import maker_of
from weir.kubernetes.state.gangs.workload import closed_gate, first_waiting, is_restarting
from weir.kubernetes.translate.gates import REFUSED
from weir.kubernetes.writes.operations import PatchStatus
from weir.kubernetes.writes.statuses.values import Words
from weir.model.reasons import ReasonCode, as_sentence
from weir.state.events import PodKey

ALLOCATED_BYTES_MAX = 1 << 19
"""Limit of the recorded allocations of one workload: an object of the API holds little more than a megabyte.
"""


def pending(gang: Gang) -> Iterator[TrackedPod]:
    """Yield its pods that have no node and could have one."""
    return (tracked for tracked in gang.pods() if not tracked.holds and not tracked.deleting)


def gate_of(gang: Gang) -> Explanation | None:
    """Return why a workload may not be started at all; None if it may."""
    gate = gang.reported_gate or (closed_gate(gang) if gang.adopted else None)
    if gate:
        return Explanation(why=_gate_code(gang), sentence=gate)
    first = next(iter(gang.reported_start_gates.values()), None)
    return None if first is None else Explanation(why=first.gate.value, sentence=as_sentence(first.reason))


def _gate_code(gang: Gang) -> str:
    assert gang.head is not None
    if is_restarting(gang):
        return ReasonCode.NOT_READY
    if gang.head.derived.suspended or gang.idle.is_ordered:
        return "suspended"
    if gang.refusal:
        return REFUSED
    waits = first_waiting(gang)
    if waits is None:
        return ReasonCode.NOT_READY
    return (waits.info.wait_why if waits.info is not None else "") or ReasonCode.RETRYING


def notices(gang: Gang) -> Iterator[tuple[str, str]]:
    """Yield the reasons and sentences of a new workload that people see, each once."""
    requested, counts = gang.priority_asked, gang.priority
    if counts < requested:
        highest = f"the highest of project {gang.project}"
        yield "PriorityCapped", f"Its priority {requested} counts as {counts}, {highest}."
    native = None if gang.head is None else gang.head.derived.native
    if native is not None and native.differences:
        yield "PodGroupCounts", native.differences
    remedy = "" if gang.head is None else gang.head.derived.remedy
    if remedy:
        kind = maker_of(gang).kind
        yield (
            "FailsWhenStopped",
            f"Its {kind} may fail for good when it is stopped for other work. Write {remedy}.",
        )


def allocations(holding: Iterable[TrackedPod], *, granted: bool) -> list[Words]:
    """Return the nodes and devices of pods, as far as Weir counts them and an object can hold them."""
    entries: list[Words] = []
    left = ALLOCATED_BYTES_MAX
    for tracked in sorted(holding, key=lambda pod: pod.name):
        if not tracked.settled or tracked.guessed:
            continue
        words: Words = {
            "pod": tracked.name,
            "uid": tracked.uid,
            "node": tracked.node,
            "devices": list(tracked.devices),
            "start": tracked.start,
        }
        if tracked.devices and tracked.info is not None:
            request = tracked.info.request
            words |= {"memory": request.gpu_memory} if request.gpu_memory else {"share": request.share_milli}
        if tracked.origin is not AllocationOrigin.WEIR:
            words["selfBound"] = True
        if granted:
            words["preemptible"] = False
        left -= len(msgspec.json.encode(words))
        if left < 0:
            break
        entries.append(words)
    return entries


def status_patch(gang: Gang, status: Words, *, urgent: bool = False) -> PatchStatus:
    """Return the change of its object's status, which is written together with its spec."""
    path = path_of(API_VERSION, "workloads", gang.key.namespace, gang.object_name)
    return PatchStatus(path, {"status": status}, urgent=urgent, about=gang, inside=True)


def nominations(gang: Gang, nodes: Mapping[PodKey, str | None]) -> Iterator[PatchStatus]:
    """Yield the nominated nodes of pods, for other schedulers and autoscalers."""
    for pod, node in nodes.items():
        tracked = gang.pod_at(pod)
        if tracked is not None and not tracked.holds:
            path = path_of("v1", "pods", gang.key.namespace, tracked.name)
            body = {"metadata": {"uid": tracked.uid}, "status": {"nominatedNodeName": node}}
            yield PatchStatus(path, body, kind=Patch.MERGE, until_bound=True)


def pause_of(gang: Gang) -> Words | None:
    """Return the values for the estimate of the Job controller's back-off; None without one."""
    backoff = gang.backoff
    if gang.key.kind != "Job" or not backoff.lost or gang.is_over() is not None:
        return None
    return {"lost": backoff.lost, "stopped": backoff.stopped, "at": moment(backoff.last_s)}
