"""Use of GPUs between two reports: what counts, and what stays unknown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weir.kubernetes.node.gpu_holders import PodDevice, WholeGpu
from weir.kubernetes.node.use_windows import UseWindows
from weir.kubernetes.usage.node_reports import NodeReport
from weir.kubernetes.usage.pod_metrics import DeviceMetrics

GPU = WholeGpu("GPU-a", 3, 3)
HELD = PodDevice("team", "runs", "GPU-a", GPU)


@dataclass
class Activity:
    use: float | None = None
    mean: float | None = None
    memory_used: int | None = None
    index: int = 3


class Driver:
    def __init__(self) -> None:
        self.now = Activity()

    def whole_gpus(self) -> Sequence[WholeGpu]:
        return [GPU]

    def activities(self) -> Iterable[tuple[str, Activity]]:
        return [(GPU.uuid, self.now)]


def reported(windows: UseWindows, *samples: Activity, held: PodDevice = HELD) -> DeviceMetrics:
    driver = Driver()
    for driver.now in samples:
        windows.sample(driver)
    (pod,) = windows.report([held]).pods
    assert (pod.namespace, pod.name) == (held.namespace, held.pod)
    (device,) = pod.devices
    return device


def begun() -> UseWindows:
    windows = UseWindows()
    windows.report([HELD])
    return windows


def test_the_use_is_the_mean_of_the_samples_and_the_peak_the_highest() -> None:
    device = reported(begun(), Activity(0.2), Activity(0.6, memory_used=7))
    assert device == DeviceMetrics(3, "GPU-a", 0.4, 0.6, 7)
    measured = reported(begun(), Activity(1.0, mean=0.1), Activity(0.0, mean=0.3))
    assert (measured.use, measured.peak) == (0.2, 1.0), "the mean over the time counts before a look"


def test_quiet_is_zero_and_unmeasured_is_unknown() -> None:
    assert reported(begun(), Activity(0.0)).use == 0.0
    for samples in (
        (),
        (Activity(None),),
        (Activity(0.5), Activity(None)),
        (Activity(-1.0),),
        (Activity(7.0),),
    ):
        assert reported(begun(), *samples) == DeviceMetrics(3, "GPU-a"), samples


def test_a_device_counts_only_if_its_pod_held_it_all_the_time() -> None:
    windows = UseWindows()
    assert reported(windows, Activity(0.9)).use is None, "its pod may have come a moment ago"
    assert reported(windows, Activity(0.9)).use == 0.9
    other = HELD._replace(pod="next")
    assert reported(windows, Activity(0.9), held=other).use is None
    assert reported(windows, Activity(0.4), held=other).use == 0.4


def test_a_device_without_a_gpu_is_unknown_and_nothing_held_is_nothing_reported() -> None:
    part = PodDevice("team", "runs", "MIG-1", None)
    windows = UseWindows()
    windows.report([part])
    assert reported(windows, Activity(0.5), held=part) == DeviceMetrics(0, "MIG-1")
    assert windows.report([]) == NodeReport([])
