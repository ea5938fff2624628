# ruff: noqa: N801, N802 - the names are the driver's
"""Means between two looks by GPM, from a driver that a test controls."""

from types import SimpleNamespace
from typing import Any

from weir.local.machine.devices import DeviceActivity
from weir.local.machine.gpm_means import GpmMeans
from weir.local.usage.gpu_sampling import _peak


class Refused(Exception):
    """An error of the driver."""


class Driver:
    """Devices with GPM; `busy_s` is what each has computed until `now_s`."""

    NVMLError = Refused
    NVML_SUCCESS = 0
    NVML_GPM_METRICS_GET_VERSION = 1
    NVML_GPM_METRIC_GRAPHICS_UTIL = 1

    def __init__(self) -> None:
        self.now_s, self.busy_s = 0.0, 0.0
        self.is_supported, self.refuses, self.status = 1, False, 0
        self.allocated = 0

    class c_nvmlGpmMetricsGet_t:
        """A request."""

        def __init__(self) -> None:
            self.version = self.numMetrics = 0
            self.sample1: Any = None
            self.sample2: Any = None
            self.metrics = [SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0)]

    def nvmlGpmQueryDeviceSupport(self, _: int) -> SimpleNamespace:
        return SimpleNamespace(isSupportedDevice=self.is_supported)

    def nvmlGpmSampleAlloc(self) -> SimpleNamespace:
        self.allocated += 1
        return SimpleNamespace(at_s=0.0, busy_s=0.0)

    def nvmlGpmSampleFree(self, _: SimpleNamespace) -> None:
        self.allocated -= 1

    def nvmlGpmSampleGet(self, _: int, sample: SimpleNamespace) -> SimpleNamespace:
        if self.refuses:
            raise Refused
        sample.at_s, sample.busy_s = self.now_s, self.busy_s
        return sample

    def nvmlGpmMetricsGet(self, asked: Any) -> Any:
        assert (asked.version, asked.numMetrics, asked.metrics[0].metricId) == (1, 1, 1)
        first, last = asked.sample1, asked.sample2
        asked.metrics[0].value = 100 * (last.busy_s - first.busy_s) / (last.at_s - first.at_s)
        asked.metrics[0].nvmlReturn = self.status
        return asked


def test_short_work_between_two_looks_counts() -> None:
    driver = Driver()
    means = GpmMeans(driver)
    assert means.read(0, 0) is None
    driver.now_s, driver.busy_s = 10.0, 2.5
    assert means.read(0, 0) == 0.25
    driver.now_s = 20.0
    assert means.read(0, 0) == 0.0
    assert driver.allocated == 1


def test_devices_without_support_and_failing_ones_have_no_mean_and_keep_nothing() -> None:
    driver = Driver()
    driver.is_supported = 0
    assert [GpmMeans(driver).read(0, 0) for _ in range(2)] == [None, None]
    driver.is_supported, driver.refuses = 1, True
    means = GpmMeans(driver)
    assert [means.read(0, 0) for _ in range(2)] == [None, None]
    assert driver.allocated == 0
    driver.refuses, driver.status = False, 7
    means.read(0, 0)
    driver.now_s = 1.0
    assert means.read(0, 0) is None
    assert GpmMeans(SimpleNamespace(NVMLError=Refused)).read(0, 0) is None


def test_highest_reading_since_the_look_before_counts_for_the_only_holder_of_a_device() -> None:
    for activity, peak in (
        (DeviceActivity(0, 0.0, mean=0.2), 0.2),
        (DeviceActivity(0, 0.1, use_of={7: 0.6}, memory_of={7: 1}), 0.6),
        (DeviceActivity(0, 0.8, memory_of={9: 1}), 0.8),  # a process that a person started beside the pod
        (DeviceActivity(0), None),
    ):
        assert _peak(activity, (7,), is_shared=False) == peak


def test_part_of_a_shared_device_is_unknown_if_the_driver_does_not_tell_processes_apart() -> None:
    shared = DeviceActivity(0, 0.9, memory_of={7: 1, 8: 1})
    assert _peak(shared, (7,), is_shared=True) is None
    told = DeviceActivity(0, 0.9, memory_of={7: 1, 8: 1}, use_of={8: 0.9})
    assert _peak(told, (7,), is_shared=True) == 0.0
    assert _peak(told, (8,), is_shared=True) == 0.9
    assert _peak(DeviceActivity(0, 0.0, memory_of={7: 1, 8: 1}), (7,), is_shared=True) == 0.0
