"""Utilization of devices and pods, measured on request.

NVML reports real devices by process; the utilization of an exclusive device counts for its pod. Virtual
devices have no utilization: the processor time of the pod stands for it, and the reading says so.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from weir.control.clock import Clock
from weir.local import pod_files
from weir.local.devices import DeviceActivity
from weir.local.foreign_usage import ForeignProcess, foreign_processes
from weir.local.machine import Machine
from weir.local.running_pods import RunningPod

_PARENT_AT, _TIMES_AT, _RSS_AT = 1, slice(11, 15), 21
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
BY_NVML, BY_CPU = "nvml", "cpu"


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """Reading of one device. `use` is 0 to 1, None if unknown."""

    index: int
    use: float | None
    memory_used: int | None
    temperature_c: int | None = None
    power_w: float | None = None
    errors: int | None = None


@dataclass(frozen=True, slots=True)
class PodReading:
    """Reading of one start of a pod.

    `use` is of the devices it holds, 0 to 1; None before it can be known, and of a pod without
    devices. `by` is the source: "nvml", or "cpu" as a stand-in.
    """

    pod: RunningPod
    use: float | None
    by: str
    device_memory: int | None
    cores: float | None
    memory: int
    processes: int


@dataclass(frozen=True, slots=True)
class MachineReading:
    """Readings of all devices and pods at one moment."""

    at_s: float
    devices: tuple[DeviceReading, ...]
    pods: tuple[PodReading, ...]
    virtual: bool
    foreign: tuple[ForeignProcess, ...] = ()  # processes outside the pool, one for each device that has any
    faults: Mapping[int, str] = field(default_factory=dict)  # of devices that can't be trusted


@dataclass(slots=True)
class _Tree:
    """The processes below one supervisor."""

    cpu_s: float = 0.0
    memory: int = 0
    pids: tuple[int, ...] = ()


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
        self._last: dict[
            str, tuple[float, float]
        ] = {}  # by directory: when, and processor seconds until then

    def sample(self) -> MachineReading:
        """Look now; from one thread at a time."""
        running = self._running()
        doing = self._machine.nvml.doing() if self._machine.nvml is not None else []
        trees = _trees(running)
        now = time.monotonic()
        used = tuple(self._use(pod, trees[pod.directory], doing, now) for pod in running)
        self._last = {pod.directory: (now, trees[pod.directory].cpu_s) for pod in running}
        devices = tuple(
            DeviceReading(
                activity.index,
                activity.use,
                activity.memory_used,
                activity.temperature_c,
                activity.power_w,
                activity.errors,
            )
            for activity in doing
        )
        if self._machine.virtual:
            devices = tuple(_virtual(device.index, used) for device in self._machine.devices)
        own = {pid for tree in trees.values() for pid in tree.pids}
        foreign = foreign_processes(doing, own, trees.keys()) if doing else ()
        faults = self._machine.nvml.faults() if self._machine.nvml is not None else {}
        return MachineReading(self._clock(), devices, used, self._machine.virtual, foreign, faults)

    def _use(self, pod: RunningPod, tree: _Tree, doing: list[DeviceActivity], now: float) -> PodReading:
        last = self._last.get(pod.directory)
        cores = (
            max(0.0, tree.cpu_s - last[1]) / (now - last[0]) if last is not None and now > last[0] else None
        )
        use, memory, by = None, None, BY_CPU
        devices = pod.place.devices
        if devices and self._machine.nvml is not None:
            use, memory = _on_devices(
                [activity for activity in doing if activity.index in devices], tree.pids
            )
            by = BY_NVML
        elif devices and cores is not None:
            use = min(1.0, cores)
        return PodReading(pod, use, by, memory, cores, tree.memory, len(tree.pids))


def _on_devices(activities: list[DeviceActivity], pids: tuple[int, ...]) -> tuple[float | None, int]:
    """Return the utilization of a pod's devices, and the memory that the pod uses on them."""
    memory = sum(activity.memory_of.get(pid, 0) for activity in activities for pid in pids)
    uses = []
    for activity in activities:
        others = [pid for pid in activity.memory_of if pid not in pids]
        if activity.use is None or not others:
            uses.append(activity.use)  # no other process uses it
        else:
            uses.append(min(1.0, sum(activity.use_of.get(pid, 0.0) for pid in pids)))
    known = [use for use in uses if use is not None]
    return (sum(known) / len(known) if known else None), memory


def _virtual(index: int, used: tuple[PodReading, ...]) -> DeviceReading:
    """Return the reading of a virtual device: the sum of the pods on it."""
    on_it = [use.use for use in used if index in use.pod.place.devices and use.use is not None]
    return DeviceReading(index, min(1.0, sum(on_it)) if on_it else 0.0, None)


def _trees(running: Sequence[RunningPod]) -> dict[str, _Tree]:
    """Return the processes of each pod: all descendants of its supervisor, which adopts orphans."""
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
            tree.memory += int(fields[_RSS_AT]) * _PAGE
            tree.pids += (pid,)
    return trees
