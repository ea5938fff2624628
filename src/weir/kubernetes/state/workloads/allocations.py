"""Check the allocation of a bound pod; no other module trusts annotations or records about it.

A user may write any annotation on a pod, but only Weir writes the status of a Workload. So the status comes
first. Without it, a pod whose resource claim names a device is placed beside other parts of that device. Then
comes the annotation of the binding, and at last the lowest free devices. Each of them has to agree with the
pod's request, the devices of its node and the allocations of all other pods.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from weir.control.port import NOT_IDLE, IdleProgress, WorkloadProgress
from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.crd.objects import AllocationStatus, IdleStatus, LifecycleStatus
from weir.kubernetes.state.gangs.gang import AllocationOrigin, Gang, PodAllocation, TrackedPod
from weir.kubernetes.state.nodes.states import NodeStates
from weir.kubernetes.state.nodes.usage import PodUsage
from weir.kubernetes.translate.bound_pods import GPUS_KEY, START_KEY
from weir.kubernetes.translate.requests import DEVICE_MEMORY_MAX, DEVICES_MAX
from weir.model.workloads import WHOLE_MILLI

START_MAX = 1 << 31
"""Largest start number that is read from an annotation, far from an overflow."""
COUNT_MAX = 1 << 53
"""Largest count that is read from a status: every JSON parser keeps it exactly."""
SECONDS_MAX = 1e11
"""Longest time in seconds that is read from a status, some three thousand years."""
_TEXT_MAX = 8 * DEVICES_MAX
_DIGITS_MAX = 10


# Reading recorded allocations


def annotated(pod: KubePod) -> PodAllocation | None:
    """Return the allocation in a pod's annotations, None if it is malformed."""
    written = pod.metadata.annotations
    devices = _indices(written.get(GPUS_KEY, ""))
    start = _number(written.get(START_KEY, ""))
    if devices is None or start is None or not 1 <= start <= START_MAX:
        return None
    return PodAllocation(pod.spec.node_name, devices, start)


def recorded(allocation: AllocationStatus) -> PodAllocation | None:
    """Return the allocation in a Workload's status, None if it is malformed."""
    if len(allocation.devices) > DEVICES_MAX or not all(
        0 <= device < DEVICES_MAX for device in allocation.devices
    ):
        return None
    start = allocation.start if 1 <= allocation.start <= COUNT_MAX else 0
    return PodAllocation(allocation.node, tuple(sorted(allocation.devices)), start)


def is_sound(allocation: AllocationStatus) -> bool:
    """Return True if a record has devices and a valid part of them."""
    if recorded(allocation) is None or not allocation.devices:
        return False
    by_share = 0 < allocation.share <= WHOLE_MILLI and not allocation.memory
    return by_share or (0 < allocation.memory <= DEVICE_MEMORY_MAX and not allocation.share)


def life_of(status: LifecycleStatus) -> WorkloadProgress:
    """Return the progress that a Workload's status records, every number within its range."""
    retry_s = status.retry_at_seconds
    return WorkloadProgress(
        starts=_count(status.starts),
        settled=_count(status.settled),
        failures=_count(status.failures),
        ran_s=_seconds(status.ran_seconds),
        retry_at_s=None if retry_s is None else _seconds(retry_s),
        restarts=_count(status.restarts),
        idle=NOT_IDLE if status.idle is None else _idle_of(status.idle),
    )


def _idle_of(idle: IdleStatus) -> IdleProgress:
    until_s = idle.excused_until_seconds
    return IdleProgress(
        idle_s=_seconds(idle.idle_seconds),
        notices=_count(idle.notices),
        noticed_s=_seconds(idle.noticed_seconds),
        unprotected=idle.unprotected,
        is_idle=idle.is_idle,
        excused_until_s=None if until_s is None else _seconds(until_s),
        run=_count(idle.run),
    )


def _indices(text: str) -> tuple[int, ...] | None:
    if not text:
        return ()
    if len(text) > _TEXT_MAX:
        return None
    read = [_number(part) for part in text.split(",")]
    indices = tuple(sorted(index for index in read if index is not None and index < DEVICES_MAX))
    return indices if len(indices) == len(read) else None


def _number(text: str) -> int | None:
    if not text or len(text) > _DIGITS_MAX or not (text.isascii() and text.isdigit()):
        return None
    return int(text)


def _count(value: int) -> int:
    return value if 0 <= value <= COUNT_MAX else 0


def _seconds(value: float) -> float:
    return value if 0.0 <= value <= SECONDS_MAX else 0.0


# Choosing the valid allocation


@dataclass(frozen=True, slots=True)
class AllocationRecords:
    """The allocations in the status of one Workload, by the uid of the pod."""

    owner: str
    by_pod: Mapping[str, AllocationStatus]

    def for_owner(self, owner: str) -> Mapping[str, AllocationStatus]:
        """Return the allocations if the Workload is of this owner: an earlier owner may have had its name."""
        return self.by_pod if owner == self.owner else {}


@dataclass(frozen=True, slots=True)
class _Open:
    """A bound pod whose allocation isn't settled."""

    tracked: TrackedPod
    starts: set[int]  # start numbers of the other pods of its workload
    kept: AllocationStatus | None


Beside = Callable[[TrackedPod], Iterable[TrackedPod]]
"""Finds the other pods whose claims hold the device of a pod's claim."""
_Source = Callable[[_Open], PodAllocation | None]


def settle(
    gangs: Iterable[Gang],
    node_states: NodeStates,
    records: Mapping[str, AllocationRecords],
    beside: Beside,
) -> None:
    """Give every bound pod of these workloads its devices and its start number.

    All records come before all annotations, and those before all that is inferred. So no claim takes a device
    that Weir gave to another pod.
    """
    left = [
        open_pod
        for gang in gangs
        for open_pod in _open_of(gang, _records_of(gang, records))
        if node_states.node(open_pod.tracked.node) is not None
    ]
    left.sort(key=lambda open_pod: (open_pod.tracked.created_s, open_pod.tracked.key))
    for open_pod in left:
        node_states.set_own_pod(open_pod.tracked.key, None)
    sources: Sequence[tuple[_Source, AllocationOrigin | None]] = (
        (_from_status, None),
        (_from_memory, None),
        (lambda open_pod: _from_others(open_pod, beside), AllocationOrigin.ANNOTATION),
        (_from_annotation, AllocationOrigin.ANNOTATION),
        # A second time, for pods whose annotated start number is taken
        (lambda open_pod: _from_others(open_pod, beside), AllocationOrigin.ANNOTATION),
    )
    for source, origin in sources:
        left = [open_pod for open_pod in left if not _takes(open_pod, source(open_pod), origin, node_states)]
    for open_pod in left:
        _infer(open_pod.tracked, node_states)


def _open_of(gang: Gang, allocations: Mapping[str, AllocationStatus]) -> Iterator[_Open]:
    """Return the bound pods of a workload that aren't settled."""
    left = [tracked for tracked in gang.pods() if tracked.bound and not tracked.settled]
    if left:
        starts = {tracked.start for tracked in gang.pods() if tracked.settled}
        yield from (_Open(tracked, starts, allocations.get(tracked.uid)) for tracked in left)


def _records_of(gang: Gang, records: Mapping[str, AllocationRecords]) -> Mapping[str, AllocationStatus]:
    gang_records = records.get(gang.name)
    return {} if gang_records is None else gang_records.for_owner(gang.key.uid)


def _from_status(open_pod: _Open) -> PodAllocation | None:
    return None if open_pod.kept is None else recorded(open_pod.kept)


def _from_memory(open_pod: _Open) -> PodAllocation | None:
    tracked = open_pod.tracked
    return PodAllocation(tracked.node, tracked.devices, tracked.start) if tracked.origin is not None else None


def _from_annotation(open_pod: _Open) -> PodAllocation | None:
    return open_pod.tracked.claimed


def _from_others(open_pod: _Open, beside: Beside) -> PodAllocation | None:
    """Return an allocation on the device of which other pods hold parts; None if there are no others.

    The answer is None if there is none.
    """
    tracked, written = open_pod.tracked, open_pod.tracked.claimed
    if written is None or not _is_part(tracked):
        return None
    for other in beside(tracked):
        if other.settled and other.node == tracked.node and _is_part(other):
            return PodAllocation(tracked.node, other.devices, written.start)
    return None


def _is_part(tracked: TrackedPod) -> bool:
    request = None if tracked.info is None else tracked.info.request
    return request is not None and request.devices == 1 and request.share_milli < WHOLE_MILLI


def _takes(
    open_pod: _Open,
    allocation: PodAllocation | None,
    origin: AllocationOrigin | None,
    node_states: NodeStates,
) -> bool:
    """Settle a pod with this allocation if it is entirely valid; return True if it is."""
    tracked = open_pod.tracked
    assert tracked.info is not None
    if allocation is None or allocation.node != tracked.node:
        return False
    place = PodUsage(tracked.node, tracked.info.request, allocation.devices)
    if not node_states.fits(place, recorded=origin is None):
        return False
    if origin is None:
        by_weir = tracked.origin is AllocationOrigin.WEIR or (
            open_pod.kept is not None and not open_pod.kept.self_bound
        )
        origin = AllocationOrigin.WEIR if by_weir else tracked.origin or AllocationOrigin.POD
    start = 0 if allocation.start in open_pod.starts else allocation.start
    open_pod.starts.add(start)
    is_recorded = allocation == _from_status(open_pod)
    _settle(tracked, allocation.devices, start, origin, node_states, is_recorded=is_recorded)
    return True


def _infer(tracked: TrackedPod, node_states: NodeStates) -> None:
    """Settle a pod on the lowest free devices.

    On an over-committed node it shares some devices with other pods until enough are free.
    """
    assert tracked.info is not None
    request = tracked.info.request
    devices = node_states.free_devices(tracked.node, request)
    _settle(tracked, devices, 0, AllocationOrigin.POD, node_states, is_recorded=False)


def _settle(
    tracked: TrackedPod,
    devices: tuple[int, ...],
    start: int,
    origin: AllocationOrigin,
    node_states: NodeStates,
    *,
    is_recorded: bool,
) -> None:
    assert tracked.info is not None
    tracked.devices, tracked.start, tracked.origin, tracked.settled = devices, start, origin, True
    tracked.guessed = tracked.info.is_guess and not is_recorded
    node_states.set_own_pod(tracked.key, PodUsage(tracked.node, tracked.info.request, devices))
