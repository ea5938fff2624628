"""Faults of GPUs, as NVIDIA's driver reports them: lost, in need of a reset, damaged memory, errors (Xid).

Xid numbers and their meanings are from NVIDIA's "XID Errors" documentation. Only errors after which a GPU
can't be trusted are listed: many others are caused by programs.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

_LOST, _RESET_REQUIRED = 15, 16
"""NVML_ERROR_GPU_IS_LOST and NVML_ERROR_RESET_REQUIRED."""
_STATES = {
    _LOST: "it has fallen off the bus",
    _RESET_REQUIRED: "it needs a reset",
}
_XIDS = {
    48: "an uncorrectable memory error",
    64: "a page of its memory couldn't be retired",
    74: "an error of NVLink",
    79: "it has fallen off the bus",
    95: "an uncontained memory error",
    119: "its system processor doesn't answer",
    120: "its system processor failed",
    140: "an unrecovered memory error",
}
_EVENTS_MAX = 1000


class FaultWatch:
    """Watch for faults of GPUs, by index. Used by one thread at a time."""

    def __init__(self, library: Any, handles: Mapping[int, Any]) -> None:
        self._nvml = library
        self._handles = handles
        self._xids: dict[int, int] = {}  # last grave XID by GPU
        self._events: Any = None

    def faults(self) -> dict[int, str]:
        """Return the fault of each GPU that can't be trusted."""
        self._read_events()
        faults = {}
        for index, handle in self._handles.items():
            if fault := self._fault(handle):
                faults[index] = fault
            elif index in self._xids:
                faults[index] = f"{_XIDS[self._xids[index]]} (Xid {self._xids[index]})"
        return faults

    def _fault(self, handle: Any) -> str:
        nvml = self._nvml
        try:
            nvml.nvmlDeviceGetMemoryInfo(handle)
        except nvml.NVMLError as error:
            return _STATES.get(getattr(error, "value", 0), "")
        with suppress(nvml.NVMLError):
            uncorrected, volatile = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
            count = int(nvml.nvmlDeviceGetTotalEccErrors(handle, uncorrected, volatile))
            if count:
                return f"{count:,} uncorrectable memory error{'' if count == 1 else 's'}"
        with suppress(nvml.NVMLError, AttributeError):
            if nvml.nvmlDeviceGetRemappedRows(handle)[3]:
                return "a damaged row of its memory couldn't be replaced"
        return ""

    def _read_events(self) -> None:
        """Record grave errors since the last call; a driver without events reports none."""
        nvml = self._nvml
        with suppress(nvml.NVMLError, AttributeError):
            if self._events is None:
                grave = nvml.nvmlEventTypeXidCriticalError
                self._events = nvml.nvmlEventSetCreate()
                for handle in self._handles.values():
                    with suppress(nvml.NVMLError):
                        nvml.nvmlDeviceRegisterEvents(handle, grave, self._events)
            for _ in range(_EVENTS_MAX):
                event = nvml.nvmlEventSetWait_v2(self._events, 0)  # raises NVMLError when none is left
                self._note(event)

    def _note(self, event: Any) -> None:
        xid = int(event.eventData)
        if xid not in _XIDS:
            return
        uuid = self._nvml.nvmlDeviceGetUUID(event.device)
        for index, handle in self._handles.items():
            with suppress(self._nvml.NVMLError):
                if self._nvml.nvmlDeviceGetUUID(handle) == uuid:
                    self._xids[index] = xid
