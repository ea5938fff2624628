"""GPUs of this machine. The only module that uses NVML; a machine without a driver has no GPUs.

The devices are listed once; their activity, by process, can be read at any time.
"""

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from weir.local.machine.gpm_means import GpmMeans
from weir.local.machine.gpu_faults import FaultWatch

_VIRTUAL_MEMORY = 16 << 30
_SAMPLES_US = 60_000_000
"""Samples are at most this old."""
_SHARED_SWITCH = 30
"""NVML_TOPOLOGY_HOSTBRIDGE: devices no farther from one another share a host bridge."""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU. `name` is its CUDA name; `parent` is the index of the physical GPU that holds a MIG instance."""

    index: int
    name: str
    uuid: str
    model: str
    memory: int
    handle: int = 0
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceActivity:
    """Activity of a device now. `use` is a fraction of time, 0 to 1; None if unknown."""

    index: int
    use: float | None = None
    memory_used: int | None = None
    memory_of: dict[int, int] = field(default_factory=dict)  # by process
    use_of: dict[int, float] = field(default_factory=dict)  # by process
    temperature_c: int | None = None
    power_w: float | None = None
    errors: int | None = None  # uncorrectable memory errors since the driver was loaded
    mean: float | None = None  # mean activity since the previous reading, by GPM


class Nvml:
    """Reads devices, faults and links from the driver by its library."""

    def __init__(self, library: Any) -> None:
        self._nvml = library
        self._handles: dict[int, Any] = {}
        self._boards: dict[int, Any] = {}  # parent GPU of a MIG instance
        self._seen_us: dict[int, int] = {}
        self._faults: FaultWatch | None = None
        self._means = GpmMeans(library)

    def devices(self) -> tuple[Device, ...]:
        """Return the devices in the order of their bus, as far as this process may see them.

        A MIG device counts as its instances.
        """
        devices: list[Device] = []
        allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
        names = None if allowed is None else [name.strip() for name in allowed.split(",")]
        for index in range(self._nvml.nvmlDeviceGetCount()):
            handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
            parts = self._parts(handle)
            for part in parts or [handle]:
                uuid = _text(self._nvml.nvmlDeviceGetUUID(part))
                name = uuid if parts else str(index)
                if names is not None and name not in names and uuid not in names:
                    continue
                memory = int(self._nvml.nvmlDeviceGetMemoryInfo(part).total)
                model = _text(self._nvml.nvmlDeviceGetName(part))
                self._handles[len(devices)], self._boards[len(devices)] = part, handle
                devices.append(
                    Device(len(devices), name, uuid, model, memory, index, index if parts else None)
                )
        return tuple(devices)

    def faults(self) -> dict[int, str]:
        """Return the fault of each device that can't be trusted; an instance has its GPU's faults."""
        if self._faults is None:
            self._faults = FaultWatch(self._nvml, self._boards)
        return self._faults.faults()

    def minor(self, index: int) -> int | None:
        """Return the number of the device file of a GPU; None if the driver doesn't report it."""
        with suppress(self._nvml.NVMLError):
            return int(self._nvml.nvmlDeviceGetMinorNumber(self._boards[index]))
        return None

    def links(self, devices: tuple[Device, ...]) -> tuple[tuple[int, ...], ...]:
        """Return sets of close whole devices by index: joined by NVLink, then behind one host bridge.

        Sets of one device, or of all, are left out.
        """
        whole = [device for device in devices if device.parent is None]
        near = _sets(whole, self._are_linked) + _sets(whole, self._are_near)
        return tuple(dict.fromkeys(indices for indices in near if 1 < len(indices) < len(devices)))

    def doing(self) -> list[DeviceActivity]:
        """Return the activity of every device."""
        return [self._doing(index, handle) for index, handle in self._handles.items()]

    def memory_used(self, index: int) -> int | None:
        """Return the bytes of a device in use; None if the driver doesn't report it."""
        with suppress(self._nvml.NVMLError):
            return int(self._nvml.nvmlDeviceGetMemoryInfo(self._handles[index]).used)
        return None

    def process_memory(self, index: int) -> dict[int, int] | None:
        """Return the bytes of a device by process; None if the driver doesn't report all of them."""
        nvml, handle = self._nvml, self._handles[index]
        try:
            processes = list(nvml.nvmlDeviceGetComputeRunningProcesses(handle))
        except nvml.NVMLError:
            return None
        with suppress(nvml.NVMLError):  # data centre GPUs may have no graphics processes
            processes += nvml.nvmlDeviceGetGraphicsRunningProcesses(handle)
        memory: dict[int, int] = {}
        for process in processes:
            if process.usedGpuMemory is None:
                return None
            memory[process.pid] = max(memory.get(process.pid, 0), int(process.usedGpuMemory))
        return memory

    def _doing(self, index: int, handle: Any) -> DeviceActivity:
        nvml, use, used = self._nvml, None, None
        memory_of: dict[int, int] = {}
        use_of: dict[int, float] = {}
        with suppress(nvml.NVMLError):
            used = int(nvml.nvmlDeviceGetMemoryInfo(handle).used)
        with suppress(nvml.NVMLError):
            use = nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
        with suppress(nvml.NVMLError):
            for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle):
                memory_of[process.pid] = int(process.usedGpuMemory or 0)
        with suppress(nvml.NVMLError):
            now_us = int(time.time() * 1e6)  # the driver stamps its samples with the wall clock
            since_us = self._seen_us.get(index, now_us)
            if not now_us - _SAMPLES_US < since_us < now_us:  # the first reading, or a changed wall clock
                since_us = self._seen_us[index] = now_us - _SAMPLES_US
            for sample in nvml.nvmlDeviceGetProcessUtilization(handle, since_us):
                use_of[sample.pid] = max(use_of.get(sample.pid, 0.0), sample.smUtil / 100)
                self._seen_us[index] = max(self._seen_us.get(index, 0), sample.timeStamp)
        is_part = self._boards[index] is not handle
        mean = None if is_part else self._means.read(index, handle)
        sensors = self._sensors(self._boards[index])
        return DeviceActivity(index, use, used, memory_of, use_of, *sensors, mean)

    def _sensors(self, board: Any) -> tuple[int | None, float | None, int | None]:
        """Return the temperature, power and memory errors of a board, as far as it measures them."""
        nvml = self._nvml
        temperature, power, errors = None, None, None
        with suppress(nvml.NVMLError):
            temperature = int(nvml.nvmlDeviceGetTemperature(board, nvml.NVML_TEMPERATURE_GPU))
        with suppress(nvml.NVMLError):
            power = nvml.nvmlDeviceGetPowerUsage(board) / 1000
        with suppress(nvml.NVMLError):
            uncorrected, volatile = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
            errors = int(nvml.nvmlDeviceGetTotalEccErrors(board, uncorrected, volatile))
        return temperature, power, errors

    def _parts(self, handle: Any) -> list[Any]:
        nvml = self._nvml
        try:
            current, _ = nvml.nvmlDeviceGetMigMode(handle)
            if current != nvml.NVML_DEVICE_MIG_ENABLE:
                return []
            most = nvml.nvmlDeviceGetMaxMigDeviceCount(handle)
        except nvml.NVMLError:
            return []
        parts = []
        for index in range(most):
            with suppress(nvml.NVMLError):
                parts.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))
        return parts

    def _are_linked(self, first: Device, other: Device) -> bool:
        nvml = self._nvml
        try:
            status = nvml.nvmlDeviceGetP2PStatus(
                self._handles[first.index], self._handles[other.index], nvml.NVML_P2P_CAPS_INDEX_NVLINK
            )
        except nvml.NVMLError:
            return False
        return bool(status == nvml.NVML_P2P_STATUS_OK)

    def _are_near(self, first: Device, other: Device) -> bool:
        try:
            level = self._nvml.nvmlDeviceGetTopologyCommonAncestor(
                self._handles[first.index], self._handles[other.index]
            )
        except self._nvml.NVMLError:
            return False
        return bool(level <= _SHARED_SWITCH)


def nvml_driver() -> Nvml | None:
    """Return the NVIDIA driver of this machine; None if there is none."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return Nvml(pynvml)


def virtual_gpus(count: int, memory: int = _VIRTUAL_MEMORY) -> tuple[Device, ...]:
    """Return virtual GPUs, for trying Weir out."""
    return tuple(Device(index, str(index), f"virtual-{index}", "virtual", memory) for index in range(count))


def _sets(devices: list[Device], are_close: Any) -> list[tuple[int, ...]]:
    """Group the devices that are close to one another, directly or through others."""
    sets: list[tuple[int, ...]] = []
    left = list(devices)
    while left:
        near = [left.pop(0)]
        for one in near:
            close = [other for other in left if are_close(one, other)]
            left = [other for other in left if other not in close]
            near += close
        sets.append(tuple(sorted(device.index for device in near)))
    return sets


def _text(text: str | bytes) -> str:
    return text.decode() if isinstance(text, bytes) else text
