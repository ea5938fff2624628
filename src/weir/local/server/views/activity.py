"""Activity of running workloads: readings of pods go through the classifier, one window for each run."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from weir.control.activity import ActivityReading, ActivityWindow
from weir.control.idle_lifecycle import IDLE_WARNING, PROTECTION_LOST
from weir.control.outbox import EventObserver
from weir.local.server.views.interactions import Interactions
from weir.local.server.views.pool_view import PoolView
from weir.local.server.views.workload_view import WorkloadView
from weir.local.usage.gpu_sampling import MachineReading, PodReading
from weir.model.activity import Activity, ActivitySample, DeviceUse
from weir.model.policy import LifecyclePolicy
from weir.model.workloads import Workload, WorkloadType
from weir.state.events import NoteAdded

Run = tuple[int, int]
"""Number of a workload, and how often it was restarted."""


class WorkloadActivities:
    """Windows of the workloads that run. One thread reads and classifies."""

    def __init__(self, interactions: Interactions) -> None:
        self._interactions = interactions
        self._windows: dict[Run, ActivityWindow] = {}

    def classify(
        self, sample: MachineReading, lines: Mapping[str, WorkloadView], rules: LifecyclePolicy
    ) -> dict[str, ActivityReading]:
        """Return the state of each workload that holds devices, by its name; forget those that are gone."""
        pods: defaultdict[str, list[PodReading]] = defaultdict(list)
        for reading in sample.pods:
            pods[reading.pod.place.pod.workload].append(reading)
        windows: dict[Run, ActivityWindow] = {}
        activities = {}
        for name, readings in pods.items():
            line = lines.get(name)
            if line is None or line.uid != readings[0].pod.uid or _not_measured_yet(readings, sample.virtual):
                continue
            run = (line.uid, line.restarts)
            window = windows[run] = self._windows.get(run) or ActivityWindow()
            devices = _devices(line.spec, readings)
            entered = [pid for reading in readings for pid in reading.entered]
            if devices:
                activities[name] = window.add(
                    ActivitySample(
                        sample.at_s,
                        devices,
                        _sum([reading.cores for reading in readings]),
                        _sum([reading.rates.disk for reading in readings]),
                        _sum([reading.rates.network for reading in readings]),
                        sum(reading.blocked for reading in readings),
                        self._interactions.look(line.uid, entered, sample.at_s),
                    ),
                    window_s=rules.idle_window,
                    below=rules.idle_below.for_type(line.spec.type),
                    interactive=line.spec.type is WorkloadType.BUILD,
                )
        self._windows = windows
        self._interactions.keep(uid for uid, _ in windows)
        return activities


class ActivityView(EventObserver):
    """Keeps warnings, and takes readings in."""

    def __init__(self, view: PoolView) -> None:
        self._view = view
        self.handlers = {NoteAdded: self._on_note}

    def _on_note(self, note: NoteAdded) -> None:
        """Keep the last warning that a workload is idle."""
        if note.kind in (IDLE_WARNING, PROTECTION_LOST):
            line = self._view.touch(note.workload)
            if line is not None:
                line.idle_warning = note.sentence

    def add(self, readings: Mapping[str, ActivityReading], at_s: float) -> None:
        """Process the activity of workloads."""
        for name, reading in readings.items():
            line = self._view.workloads.get(name)
            if line is not None and line.pods and line.add_activity(reading, at_s):
                self._view.touch(name)


def device_activities(sample: MachineReading, readings: Mapping[str, ActivityReading]) -> dict[int, str]:
    """Return the states of the workloads on each device.

    A device may be quiet while its workload works on others; one without a measurement is unknown.
    """
    states: defaultdict[int, dict[str, None]] = defaultdict(dict)
    for pod_reading in sample.pods:
        place = pod_reading.pod.place
        reading = readings.get(place.pod.workload)
        if reading is None or reading.state is None:
            continue
        for device, peak in zip(place.devices, _peaks(pod_reading), strict=False):
            quiet = any(name.split()[1] == str(device) for name in reading.quiet_devices)
            state = Activity.UNKNOWN if peak is None else reading.state
            states[device]["quiet" if quiet else state.value] = None
    return {device: ", ".join(words) for device, words in states.items()}


def _not_measured_yet(readings: Sequence[PodReading], virtual: bool) -> bool:
    """Return True at the first reading of a pod on virtual devices, which has no difference yet."""
    return virtual and any(reading.cores is None for reading in readings)


def _peaks(reading: PodReading) -> tuple[float | None, ...]:
    """Return the highest use of each device of a pod; None: not measured."""
    return reading.peaks or (None,) * len(reading.pod.place.devices)


def _devices(spec: Workload, readings: Sequence[PodReading]) -> tuple[DeviceUse, ...]:
    """Return the use of each device, named by pod and device where there are several."""
    uses = []
    for reading in readings:
        place = reading.pod.place
        for device, peak in zip(place.devices, _peaks(reading), strict=False):
            pod = f"{spec.groups[place.pod.group].name}/{place.pod.index}"
            name = f"GPU {device}" if len(readings) == 1 else f"GPU {device} of {pod}"
            uses.append(DeviceUse(name, peak))
    return tuple(uses)


def _sum(values: Sequence[float | None]) -> float | None:
    """Return the sum of the known values; None without any."""
    measured = [value for value in values if value is not None]
    return sum(measured) if measured else None
