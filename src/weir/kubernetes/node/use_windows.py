"""Use of GPUs over the time between two reports."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from weir.kubernetes.node.gpu_holders import PodDevice, WholeGpu
from weir.kubernetes.node.kubelet_metrics import PodLoad
from weir.kubernetes.usage.node_reports import NodeReport, PodReport
from weir.kubernetes.usage.pod_metrics import DeviceMetrics


class GpuActivity(Protocol):
    """Activity of a GPU now, as the driver reports it."""

    @property
    def index(self) -> int: ...  # noqa: D102 - of the driver's list
    @property
    def use(self) -> float | None: ...  # noqa: D102 - 0 to 1, of the last second or so
    @property
    def mean(self) -> float | None: ...  # noqa: D102 - 0 to 1, since the reading before
    @property
    def memory_used(self) -> int | None: ...  # noqa: D102


class GpuDriver(Protocol):
    """The driver of the node's GPUs."""

    def whole_gpus(self) -> Sequence[WholeGpu]:
        """Return the GPUs that aren't divided."""
        ...

    def activities(self) -> Iterable[tuple[str, GpuActivity]]:
        """Return the activity of each of them, by uuid."""
        ...


@dataclass(slots=True)
class _Window:
    total: float = 0.0
    count: int = 0
    peak: float = 0.0
    memory: int | None = None
    is_unknown: bool = False

    def add(self, activity: GpuActivity) -> None:
        measured = [value for value in (activity.mean, activity.use) if value is not None]
        self.memory = activity.memory_used
        if not measured or not all(0.0 <= value <= 1.01 for value in measured):
            self.is_unknown = True
            return
        self.total += min(1.0, measured[0])
        self.count += 1
        self.peak = max(self.peak, *(min(1.0, value) for value in measured))


class UseWindows:
    """Samples of all GPUs since the last report."""

    def __init__(self) -> None:
        self._windows: defaultdict[str, _Window] = defaultdict(_Window)
        self._before: frozenset[PodDevice] = frozenset()

    def sample(self, driver: GpuDriver) -> None:
        """Add a sample of every GPU."""
        for uuid, activity in driver.activities():
            self._windows[uuid].add(activity)

    def report(
        self, devices: Sequence[PodDevice], loads: Mapping[tuple[str, str], PodLoad] | None = None
    ) -> NodeReport:
        """Return the report of the samples, and begin with none.

        A device counts only if the same pod has held it all the time: else its use may be that of another.
        """
        windows, before = self._windows, self._before
        self._windows, self._before = defaultdict(_Window), frozenset(devices)
        pods: defaultdict[tuple[str, str], list[DeviceMetrics]] = defaultdict(list)
        for place, device in enumerate(devices):
            window = None
            if device.gpu is not None and device in before:
                window = windows.get(device.gpu.uuid)
            number = place if device.gpu is None else device.gpu.index
            pods[device.namespace, device.pod].append(_device_metrics(number, device.name, window))
        pod_loads = loads or {}
        return NodeReport(
            [PodReport(*pod, metrics, *pod_loads.get(pod, PodLoad())) for pod, metrics in pods.items()]
        )


def _device_metrics(number: int, name: str, window: _Window | None) -> DeviceMetrics:
    if window is None or window.is_unknown or not window.count:
        return DeviceMetrics(number, name)
    return DeviceMetrics(number, name, window.total / window.count, window.peak, window.memory)
