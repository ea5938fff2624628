"""Utilization of workloads, measured every few seconds and reported to control, metrics and usage.

Control uses it for the idle rules, the meter for the history; metrics and rows show the last reading. A pool
of virtual devices takes no readings while nothing runs.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from structlog import get_logger

from weir.control.activity import ActivityReading
from weir.control.metric_series import CPU, GPU, GPU_MEMORY, MEMORY
from weir.control.port import ActivitySampled
from weir.local.server.pool import PoolService
from weir.local.server.views.activity import WorkloadActivities, device_activities
from weir.local.usage.foreign_usage import ForeignProcess
from weir.local.usage.gpu_sampling import MachineReading, PodReading
from weir.model.resources import span
from weir.service.queue_rows import DeviceUtilization

EVERY_S = 10.0
FIRST_S = 0.5
TIDY_EVERY_S = 3600.0
STUCK_AFTER_S = 300.0
"""A thread that is later than this counts as stuck; deleting a large history takes its time."""
_LOG = get_logger(__name__)


class UtilizationSource(Protocol):
    """Looks at devices and processes."""

    def sample(self) -> MachineReading:
        """Look now."""
        ...


class UtilizationTask:
    """Measures the use of devices every few seconds, in a thread."""

    def __init__(
        self,
        pool: PoolService,
        sampler: UtilizationSource,
        busy: Callable[[], bool],
        tidy: Callable[[float], None],
        every_s: float = EVERY_S,
    ) -> None:
        """Create the task. `busy` returns True if there is work; `tidy` is called every hour."""
        self._pool = pool
        self._sampler = sampler
        self._busy = busy
        self._tidy = tidy
        self._every_s = every_s
        self._activities = WorkloadActivities(pool.interactions)
        self._last_s: float | None = None
        self._foreign: dict[int, ForeignProcess] = {}
        self._faults: dict[int, str] = {}
        self._closing = threading.Event()
        self._beat_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="weir-uses", daemon=True)

    def start(self) -> None:
        """Start the checks."""
        self._thread.start()

    def close(self) -> None:
        """Stop the checks."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def trouble(self) -> str | None:
        """Return why use isn't measured; None if it is."""
        if not self._thread.is_alive():
            return "The thread that measures use has ended."
        late_s = time.monotonic() - self._beat_s - self._every_s
        if late_s > STUCK_AFTER_S:
            return f"The thread that measures use is late by {span(late_s)}: the driver may hang."
        return None

    def _run(self) -> None:
        tidied_s = self._pool.clock()
        wait_s = min(FIRST_S, self._every_s)
        while not self._closing.wait(wait_s):
            wait_s = self._every_s
            self._beat_s = time.monotonic()
            try:
                if self._pool.clock() - tidied_s > TIDY_EVERY_S:
                    tidied_s = self._pool.clock()
                    self._tidy(tidied_s)
                self._pool.series.flush(list(self._pool.view.rows))
                if self._busy():
                    self.look()
                else:
                    self._last_s = None
                    self._pool.device_use = {}
            except Exception as error:  # noqa: BLE001 - a look that fails costs that look
                _LOG.warning("look_failed", kind=type(error).__name__, why=str(error))

    def look(self) -> None:
        """Sample all devices once, and pass the readings to control, the meter and the views."""
        sample = self._sampler.sample()
        node = self._pool.node.name
        passed_s = self._every_s if self._last_s is None else sample.at_s - self._last_s
        self._last_s = sample.at_s
        readings = self._activities.classify(sample, self._pool.view.workloads, self._pool.policy.life)
        states = device_activities(sample, readings)
        self._pool.device_use = {
            (node, device.index): DeviceUtilization(
                device.use,
                device.memory_used,
                _words(sample.foreign, device.index),
                device.temperature_c,
                device.power_w,
                device.errors,
                activity=states.get(device.index, ""),
            )
            for device in sample.devices
        }
        for uid, values in _measured(sample).items():
            self._pool.series.add(uid, sample.at_s, values)
        self._see_foreign({process.device: process for process in sample.foreign})
        self._see_faults(sample.faults)
        fractions = _by_workload(sample)
        for name, (fraction, devices) in fractions.items():
            line = self._pool.view.workloads.get(name)
            if line is not None:
                line.add_utilization(fraction, devices, passed_s)
        self._pool.control_thread.query(lambda _: self._meter(sample, fractions, readings))
        for name, reading in readings.items():
            self._pool.backend.tell(
                ActivitySampled(name, reading.state, sample.at_s, quiet_s=reading.quiet_s)
            )

    def _see_foreign(self, processes: dict[int, ForeignProcess]) -> None:
        """Report processes outside the pool once; keep work off their devices unless they are ignored."""
        before, self._foreign = self._foreign, processes
        self._pool.foreign_commands = {
            index: process.command for index, process in processes.items() if process.command
        }
        if processes.keys() == before.keys():
            return
        node = self._pool.node.name
        ignored = self._pool.ignores_foreign
        effect = "work is started on it all the same" if ignored else "nothing is started on it"
        for index in sorted(processes.keys() - before.keys()):
            sentence = f"GPU {index} of {node} is used by {processes[index].sentence}: {effect}."
            self._pool.add_pool_event("foreign_use", sentence, device=index)
        for index in sorted(before.keys() - processes.keys()):
            sentence = f"GPU {index} of {node} is no longer used outside Weir."
            self._pool.add_pool_event("foreign_use", sentence, device=index)
        if not ignored:
            self._pool.backend.close_devices(tuple(sorted(processes)), drained=False)

    def _see_faults(self, faults: Mapping[int, str]) -> None:
        """Drain GPUs that have become faulty; an administrator who undrains one knows better."""
        before, self._faults = self._faults, dict(faults)
        for index, fault in faults.items():
            if before.get(index) != fault and index not in self._pool.drained_gpus:
                self._pool.node_changes.drain_faulty_gpu(index, fault)

    def _meter(
        self,
        sample: MachineReading,
        fractions: dict[str, tuple[float, float]],
        activities: dict[str, ActivityReading],
    ) -> None:
        """Add readings to the history and the view, on the control thread."""
        self._pool.activity_view.add(activities, sample.at_s)
        meter, node = self._pool.meter, self._pool.node.name
        for name, (fraction, _) in fractions.items():
            reading = activities.get(name)
            meter.used(name, node, fraction, sample.at_s, None if reading is None else reading.state)
        for device in sample.devices:
            if device.use is not None:
                meter.device_used(node, device.index, device.use, device.memory_used or 0, sample.at_s)


def _words(foreign: Sequence[ForeignProcess], index: int) -> str:
    return next((process.sentence for process in foreign if process.device == index), "")


def _measured(sample: MachineReading) -> dict[int, dict[str, float]]:
    """Return the values of each workload's curves, over all its pods."""
    pods: defaultdict[int, list[PodReading]] = defaultdict(list)
    for reading in sample.pods:
        pods[reading.pod.uid].append(reading)
    curves = {}
    for uid, readings in pods.items():
        values = {MEMORY: float(sum(reading.memory for reading in readings))}
        cores = [reading.cores for reading in readings if reading.cores is not None]
        if cores:
            values[CPU] = sum(cores)
        uses = [
            (reading.use, len(reading.pod.place.devices)) for reading in readings if reading.use is not None
        ]
        if uses:
            values[GPU] = sum(use * count for use, count in uses) / sum(count for _, count in uses)
        memories = [reading.device_memory for reading in readings if reading.device_memory is not None]
        if memories:
            values[GPU_MEMORY] = float(sum(memories))
        curves[uid] = values
    return curves


def _by_workload(sample: MachineReading) -> dict[str, tuple[float, float]]:
    """Return each workload's mean utilization and number of devices, leaving out unknown ones."""
    pods: defaultdict[str, list[PodReading]] = defaultdict(list)
    for reading in sample.pods:
        if reading.pod.place.devices:
            pods[reading.pod.place.pod.workload].append(reading)
    fractions = {}
    for name, uses in pods.items():
        devices = float(sum(len(reading.pod.place.devices) for reading in uses))
        measured = [
            (reading.use, len(reading.pod.place.devices)) for reading in uses if reading.use is not None
        ]
        if len(measured) == len(uses):
            fractions[name] = (sum(use * count for use, count in measured) / devices, devices)
    return fractions
