"""Utilization of devices and pods, measured on request.

NVML reports real devices by process; the utilization of an exclusive device counts for its pod. Virtual
devices have no utilization: the processor time of the pod replaces it, and the reading is marked.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from weir.control.clock import Clock
from weir.local.cgroups import text_of
from weir.local.machine.devices import DeviceActivity
from weir.local.machine.machine import Machine
from weir.local.pods.running_pods import RunningPod
from weir.local.records import pod_files
from weir.local.usage import pod_counters
from weir.local.usage.foreign_usage import ForeignProcess, foreign_processes
from weir.local.usage.pod_counters import PodCounters, PodRates

_STATE_AT, _PARENT_AT, _TIMES_AT, _RSS_AT = 0, 1, slice(11, 15), 21
_BLOCKED = b"D"
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
BY_NVML, BY_CPU = "nvml", "cpu"
_NO_RATES = PodRates()


@dataclass(frozen=True, slots=True)
class PodReading:
    """Reading of one start of a pod.

    `use` is of the devices it holds, 0 to 1; None before it can be known, and of a pod without
    devices. `by` is the source: "nvml", or "cpu" as a stand-in. `peaks` are the highest uses of its devices
    since the reading before, in the order of its place. `blocked` processes wait for a device or a server;
    `entered` ones came into its control groups from outside, as `weir exec` and SSH do.
    """

    pod: RunningPod
    use: float | None
    by: str
    device_memory: int | None
    cores: float | None
    memory: int
    processes: int
    peaks: tuple[float | None, ...] = ()
    rates: PodRates = _NO_RATES
    blocked: int = 0
    entered: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MachineReading:
    """Readings of all devices and pods at one moment."""

    at_s: float
    devices: tuple[DeviceActivity, ...]
    pods: tuple[PodReading, ...]
    virtual: bool
    foreign: tuple[ForeignProcess, ...] = ()  # for each device with foreign processes, one of them
    faults: Mapping[int, str] = field(default_factory=dict)  # faults by device


@dataclass(slots=True)
class _Tree:
    """The processes below one supervisor."""

    cpu_s: float = 0.0
    memory: int = 0
    blocked: int = 0
    pids: tuple[int, ...] = ()
    entered: tuple[int, ...] = ()

    def add(self, pid: int, fields: Sequence[bytes]) -> None:
        """Add a process of the pod."""
        self.memory += int(fields[_RSS_AT]) * _PAGE
        self.blocked += fields[_STATE_AT] == _BLOCKED
        self.pids += (pid,)


@dataclass(frozen=True, slots=True)
class _Earlier:
    """The last look at a pod: when, its processor seconds and its counters until then."""

    at_s: float
    cpu_s: float
    counters: PodCounters


class UtilizationSampler:
    """Samples utilization; remembers the last processor times, to compute their difference."""

    def __init__(
        self,
        machine: Machine,
        running: Callable[[], Sequence[RunningPod]],
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._machine = machine
        self._running = running
        self._clock = clock or Clock()
        self._last: dict[str, _Earlier] = {}  # by directory

    def sample(self) -> MachineReading:
        """Look now; from one thread at a time."""
        running = self._running()
        doing = self._machine.nvml.doing() if self._machine.nvml is not None else []
        trees = _trees(running)
        now = time.monotonic()
        host = pod_counters.interfaces()
        looks = {
            pod.directory: _Earlier(
                now,
                trees[pod.directory].cpu_s,
                pod_counters.read_counters(pod.groups, trees[pod.directory].pids, host),
            )
            for pod in running
        }
        holders = Counter(device for pod in running for device in pod.place.devices)
        used = tuple(
            self._use(pod, trees[pod.directory], doing, looks[pod.directory], holders) for pod in running
        )
        self._last = looks
        devices = tuple(doing)
        if self._machine.virtual:
            devices = tuple(_virtual(device.index, used) for device in self._machine.devices)
        own = {pid for tree in trees.values() for pid in tree.pids}
        foreign = foreign_processes(doing, own, trees.keys()) if doing else ()
        faults = self._machine.nvml.faults() if self._machine.nvml is not None else {}
        return MachineReading(self._clock(), devices, used, self._machine.virtual, foreign, faults)

    def _use(
        self,
        pod: RunningPod,
        tree: _Tree,
        doing: list[DeviceActivity],
        look: _Earlier,
        holders: Mapping[int, int],
    ) -> PodReading:
        last, cores, rates = self._last.get(pod.directory), None, _NO_RATES
        if last is not None and look.at_s > last.at_s:
            passed_s = look.at_s - last.at_s
            cores = max(0.0, tree.cpu_s - last.cpu_s) / passed_s
            rates = pod_counters.rates(last.counters, look.counters, passed_s)
        use, memory, by = None, None, BY_CPU
        peaks: tuple[float | None, ...] = ()
        devices = pod.place.devices
        if devices and self._machine.nvml is not None:
            held = [activity for activity in doing if activity.index in devices]
            use, memory = _on_devices(held, tree.pids)
            by = BY_NVML
            peaks = tuple(
                _peak(activity, tree.pids, is_shared=holders[activity.index] > 1) for activity in held
            )
        elif devices and cores is not None:
            use = min(1.0, cores)
            peaks = (use,) * len(devices)
        return PodReading(
            *(pod, use, by, memory, cores, tree.memory, len(tree.pids), peaks, rates, tree.blocked),
            entered=tree.entered,
        )


def _on_devices(activities: list[DeviceActivity], pids: tuple[int, ...]) -> tuple[float | None, int]:
    """Return the utilization of a pod's devices, and the memory that the pod uses on them."""
    memory = sum(activity.memory_of.get(pid, 0) for activity in activities for pid in pids)
    uses = [
        activity.use if _is_alone(activity, pids) else _of_processes(activity, pids)
        for activity in activities
    ]
    measured = [use for use in uses if use is not None]
    return (sum(measured) / len(measured) if measured else None), memory


def _is_alone(activity: DeviceActivity, pids: tuple[int, ...]) -> bool:
    """Return True if no other process uses the device."""
    return all(pid in pids for pid in activity.memory_of)


def _of_processes(activity: DeviceActivity, pids: tuple[int, ...]) -> float | None:
    """Return the part of a shared device that processes use; None if the driver doesn't tell them apart."""
    if activity.use is None or (activity.use and not activity.use_of):
        return None
    return min(1.0, sum(activity.use_of.get(pid, 0.0) for pid in pids))


def _peak(activity: DeviceActivity, pids: tuple[int, ...], *, is_shared: bool) -> float | None:
    """Return the highest use of a device by a pod since the look before; None if it can't be measured.

    Any process on a device that one pod holds counts for it: a person may have started it beside the pod.
    """
    if is_shared and not _is_alone(activity, pids):
        return _of_processes(activity, pids)
    measured = [use for use in (activity.use, activity.mean, *activity.use_of.values()) if use is not None]
    return min(1.0, max(measured)) if measured else None


def _virtual(index: int, used: tuple[PodReading, ...]) -> DeviceActivity:
    """Return the activity of a virtual device: the sum of the pods on it; unknown until they are measured."""
    uses = [reading.use for reading in used if index in reading.pod.place.devices]
    measured = [use for use in uses if use is not None]
    return DeviceActivity(index, None if uses and not measured else min(1.0, sum(measured)))


def _trees(running: Sequence[RunningPod]) -> dict[str, _Tree]:
    """Return the processes of each pod: below its supervisor, which adopts orphans, and entered ones."""
    trees = {pod.directory: _Tree() for pod in running}
    supervisors = {}
    for pod in running:
        supervisor = pod_files.signed(pod.directory)
        if supervisor is not None:
            supervisors[supervisor.pid] = trees[pod.directory]
    stats = (
        {pid: fields for pid in pod_files.processes() if (fields := pod_files.stat_of(pid))}
        if supervisors
        else {}
    )
    for pid, fields in stats.items():
        tree, above, steps = None, pid, 0
        while tree is None and above in stats and steps < len(stats):
            tree = supervisors.get(above)
            above, steps = int(stats[above][_PARENT_AT]), steps + 1
        if tree is None:
            continue
        own, children = fields[_TIMES_AT][:2], fields[_TIMES_AT][2:]
        of_the_job = children if pid in supervisors else [*own, *children]
        tree.cpu_s += sum(map(int, of_the_job)) / _TICKS_A_SECOND
        if pid not in supervisors:
            tree.add(pid, fields)
    of_trees = {pid for tree in trees.values() for pid in tree.pids}
    for pod in running:
        tree = trees[pod.directory]
        for pid in _in_groups(pod):
            if pid in stats and pid not in of_trees and pid not in supervisors:
                tree.cpu_s += sum(map(int, stats[pid][_TIMES_AT])) / _TICKS_A_SECOND
                tree.add(pid, stats[pid])
                tree.entered += (pid,)
    return trees


def _in_groups(pod: RunningPod) -> list[int]:
    """Return the processes in the control groups of a pod; any of its groups has all of them."""
    texts = (text_of(f"{group[0]}/cgroup.procs") for group in pod.groups)
    return [int(pid) for pid in next(filter(None, texts), "").split()]
