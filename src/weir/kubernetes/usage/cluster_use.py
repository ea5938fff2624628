"""Use of devices and states of workloads, made of measurements of pods. One thread calls.

The classifier is that of one machine. A cluster has fewer signals, so a workload is idle only if its
processors and its network were measured, too. Otherwise its devices may be quiet because it is starved.
Keys and connections of people are never known here.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from weir.control.activity import ActivityReading, ActivityWindow
from weir.kubernetes.usage.held_pods import DeviceHolder
from weir.kubernetes.usage.pod_metrics import DeviceMetrics, Pod, PodMetrics
from weir.model.activity import Activity, ActivitySample, DeviceUse
from weir.model.policy import LifecyclePolicy
from weir.model.workloads import WorkloadType

_UNKNOWN = PodMetrics()
Place = tuple[str, int]
"""Node and index of a device."""


@dataclass(frozen=True, slots=True)
class DeviceSighting:
    """Last known use of a device: 0 to 1, and bytes of memory; None: unknown.

    `activity` is the state of its workload, that it is quiet while its workload works on others, or unknown.
    """

    use: float | None
    memory_used: int | None
    activity: str = ""


@dataclass(frozen=True, slots=True)
class MeasuredUse:
    """Use of a workload over the time since the last reading: device seconds, of which `used_s` were used.

    `fraction` is its mean use, `since_s` when its state began. `memory` is that in use of all its devices, in
    bytes, and `cores` its processor time per second; None: unknown.
    """

    fraction: float | None
    seen_s: float
    used_s: float
    activity: ActivityReading
    since_s: float
    memory: float | None = None
    cores: float | None = None


@dataclass(frozen=True, slots=True)
class ClusterUse:
    """Use of a cluster at one moment."""

    at_s: float = 0.0
    devices: Mapping[Place, DeviceSighting] = field(default_factory=dict)
    workloads: Mapping[str, MeasuredUse] = field(default_factory=dict)


class _Use(NamedTuple):
    place: Place
    name: str
    metrics: DeviceMetrics


class UseClassifier:
    """Windows of the workloads that run, by their pods: other pods are another run."""

    def __init__(self) -> None:
        self._windows: dict[tuple[str, frozenset[str]], ActivityWindow] = {}
        self._states: dict[str, tuple[Activity | None, float]] = {}  # state, and time since which it lasts
        self._last_s: float | None = None

    def take(
        self,
        held: Iterable[DeviceHolder],
        pod_metrics: Mapping[Pod, PodMetrics],
        at_s: float,
        rules: LifecyclePolicy,
        *,
        ignores_interaction: bool,
    ) -> ClusterUse:
        """Process measurements, and return the use of all devices; without measurements it is unknown."""
        passed_s = 0.0 if self._last_s is None else max(0.0, at_s - self._last_s)
        self._last_s = at_s
        pods: defaultdict[str, list[DeviceHolder]] = defaultdict(list)
        for pod in held:
            pods[pod.workload].append(pod)
        devices: dict[Place, DeviceSighting] = {}
        windows, states, workloads = {}, {}, {}
        for name, members in pods.items():
            uses = _uses(members, pod_metrics)
            run = (name, frozenset(member.uid for member in members))
            window = windows[run] = self._windows.get(run) or ActivityWindow()
            kind = members[0].type
            interactive, below = kind is WorkloadType.BUILD, rules.idle_below.for_type(kind)
            sample = _sample(members, pod_metrics, uses, at_s)
            is_measured = sample.cores is not None and sample.network is not None
            if not is_measured or (interactive and not ignores_interaction):
                sample = _without_evidence(sample, below)
            reading = window.add(sample, window_s=rules.idle_window, below=below, interactive=interactive)
            before = self._states.get(name)
            states[name] = (
                before if before is not None and before[0] is reading.state else (reading.state, at_s)
            )
            workloads[name] = _workload_use(uses, passed_s, reading, states[name][1], sample.cores)
            devices.update(_sightings(uses, reading))
        self._windows, self._states = windows, states
        return ClusterUse(at_s, devices, workloads)


def _uses(members: Sequence[DeviceHolder], pod_metrics: Mapping[Pod, PodMetrics]) -> list[_Use]:
    """Return the measurement of each device of a workload."""
    uses = []
    for pod in members:
        measured = pod_metrics.get((pod.namespace, pod.name), _UNKNOWN).devices if pod.is_exclusive else ()
        if len(measured) > len(pod.devices):
            measured = ()  # an earlier pod had this name: the series can't be told apart
        for position, index in enumerate(pod.devices):
            one = measured[position] if position < len(measured) else DeviceMetrics(0, "")
            name = f"GPU {one.number} of {pod.name}" if one.uuid else f"a GPU of {pod.name}"
            uses.append(_Use((pod.node, index), name, one))
    return uses


def _sightings(uses: Sequence[_Use], reading: ActivityReading) -> Iterator[tuple[Place, DeviceSighting]]:
    state, quiet = "" if reading.state is None else reading.state.value, frozenset(reading.quiet_devices)
    for place, name, one in uses:
        own = "quiet" if name in quiet else state
        if state and one.peak is None:
            own = Activity.UNKNOWN.value
        yield place, DeviceSighting(one.use, one.memory_used, own)


def _sample(
    members: Sequence[DeviceHolder],
    pod_metrics: Mapping[Pod, PodMetrics],
    uses: Sequence[_Use],
    at_s: float,
) -> ActivitySample:
    metrics = [pod_metrics.get((member.namespace, member.name), _UNKNOWN) for member in members]
    disks = [measured.disk for measured in metrics if measured.disk is not None]
    return ActivitySample(
        at_s,
        tuple(DeviceUse(name, one.peak) for _, name, one in uses),
        _sum([measured.cores for measured in metrics]),
        sum(disks) if disks else None,
        _sum([measured.network for measured in metrics]),
    )


def _without_evidence(sample: ActivitySample, below: float) -> ActivitySample:
    """Return a sample in which a quiet device is no evidence: it may be quiet for want of data."""
    devices = tuple(
        replace(device, is_evidence=device.use is not None and device.use >= below)
        for device in sample.devices
    )
    return replace(sample, devices=devices)


def _sum(values: Sequence[float | None]) -> float | None:
    """Return the sum; None if one of them is unknown."""
    measured = [value for value in values if value is not None]
    return sum(measured) if len(measured) == len(values) else None


def _workload_use(
    uses: Sequence[_Use], passed_s: float, reading: ActivityReading, since_s: float, cores: float | None
) -> MeasuredUse:
    measured = [one.use for _, _, one in uses if one.use is not None]
    fraction = sum(measured) / len(measured) if measured and len(measured) == len(uses) else None
    memory = _sum([one.memory_used for _, _, one in uses]) if uses else None
    return MeasuredUse(
        fraction, len(measured) * passed_s, sum(measured) * passed_s, reading, since_s, memory, cores
    )
