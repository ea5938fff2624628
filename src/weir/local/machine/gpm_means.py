"""Mean use of devices between two readings, by the counters of Hopper and later devices (GPM).

The driver's plain reading covers the last second at most, so it misses short work between two readings.
"""

from contextlib import suppress
from typing import Any


class GpmMeans:
    """Part of the time in which anything computed on a device, since the look before."""

    def __init__(self, library: Any) -> None:
        self._nvml = library
        self._supported: dict[int, bool] = {}
        self._samples: dict[int, Any] = {}  # last sample by device

    def read(self, index: int, handle: Any) -> float | None:
        """Return the mean of a device, 0 to 1; None at the first look and without support."""
        if not self._is_supported(index, handle):
            return None
        nvml = self._nvml
        sample = None
        try:
            sample = nvml.nvmlGpmSampleAlloc()
            nvml.nvmlGpmSampleGet(handle, sample)
        except nvml.NVMLError:
            self._free(sample)
            return None
        last, self._samples[index] = self._samples.get(index), sample
        if last is None:
            return None
        try:
            return self._between(last, sample)
        finally:
            self._free(last)

    def _is_supported(self, index: int, handle: Any) -> bool:
        is_supported = self._supported.get(index)
        if is_supported is None:
            is_supported = False
            # Older versions of the library don't have the call
            with suppress(self._nvml.NVMLError, AttributeError):
                is_supported = bool(self._nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)
            self._supported[index] = is_supported
        return is_supported

    def _between(self, first: Any, last: Any) -> float | None:
        nvml = self._nvml
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version, asked.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, 1
        asked.sample1, asked.sample2 = first, last
        asked.metrics[0].metricId = nvml.NVML_GPM_METRIC_GRAPHICS_UTIL
        try:
            metric = nvml.nvmlGpmMetricsGet(asked).metrics[0]
        except nvml.NVMLError:
            return None
        value = float(metric.value)
        return min(1.0, value / 100) if metric.nvmlReturn == nvml.NVML_SUCCESS and value >= 0 else None

    def _free(self, sample: Any) -> None:
        if sample is not None:
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlGpmSampleFree(sample)
