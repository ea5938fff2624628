# ruff: noqa: N801, N802, N803, N816 - the names are the driver's
"""A driver with one GPU and limits for its memory, in the place of `pynvml` for a pool with its own interpreter.

It keeps limits in the file of `STATE`, which only root can write, for groups of cgroup v2 that exist.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

STATE = Path(__file__).with_name("driver.json")
UUID, MEMORY = "GPU-0f", 16 << 30
NVML_TEMPERATURE_GPU = NVML_MEMORY_ERROR_TYPE_UNCORRECTED = NVML_VOLATILE_ECC = 0
NVML_DEVICE_MIG_ENABLE = nvmlEventTypeXidCriticalError = 1
_UNLIMITED = (1 << 64) - 1


class NVMLError(Exception):
    """An error of the driver."""

    def __init__(self, value: int) -> None:
        super().__init__({3: "Not Supported", 4: "Insufficient Permissions", 6: "Not Found"}[value])
        self.value = value


@contextmanager
def changed(file: Path) -> Iterator[dict[str, Any]]:
    """Change the state in a file, one process at a time, so that a reader sees it before or after."""
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = json.loads(file.read_text())
        yield state
        beside = file.with_suffix(".new")
        beside.write_text(json.dumps(state))
        beside.chmod(0o644)
        beside.rename(file)


class c_nvmlSetMemoryLimits_v1_t:
    """Limits to set."""

    def __init__(self, nameSpace: bytes, softLimit: int, hardLimit: int, currentUsed: int = 0) -> None:
        self.nameSpace, self.softLimit, self.hardLimit = nameSpace.decode(), softLimit, hardLimit
        self.currentUsed = currentUsed


c_nvmlGetMemoryLimits_v1_t = c_nvmlSetMemoryLimits_v1_t


def nvmlInit() -> None:
    """Begin."""


def nvmlDeviceGetCount() -> int:
    """Return the number of GPUs."""
    return 1


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    """Return a GPU."""
    return index


def nvmlDeviceGetHandleByUUID(uuid: str) -> int:
    """Return the GPU."""
    if uuid != UUID:
        raise NVMLError(6)
    return 0


def nvmlDeviceGetMinorNumber(_: int) -> int:
    """Return the number of the device file, which this machine doesn't have."""
    return 250


def nvmlDeviceGetPciInfo(_: int) -> SimpleNamespace:
    """Return the place on the bus."""
    return SimpleNamespace(busId="00000000:07:00.0")


def nvmlDeviceGetUUID(_: int) -> str:
    """Return the id."""
    return UUID


def nvmlDeviceGetName(_: int) -> str:
    """Return the model."""
    return "Fake"


def nvmlDeviceGetMemoryInfo(_: int) -> SimpleNamespace:
    """Return the memory."""
    return SimpleNamespace(total=MEMORY, used=0)


def nvmlDeviceGetComputeRunningProcesses(_: int) -> list[object]:
    """Return the processes."""
    return []


def nvmlDeviceSetMemoryLimits_v1(_: int, limits: c_nvmlSetMemoryLimits_v1_t) -> None:
    """Set a limit."""
    if os.geteuid() != 0:
        raise NVMLError(4)
    with changed(STATE) as state:
        if not Path(limits.nameSpace, "cgroup.controllers").exists():
            raise NVMLError(6)
        if state["refuses"]:
            raise NVMLError(3)
        state["limits"][limits.nameSpace] = limits.hardLimit


def nvmlDeviceGetMemoryLimits_v1(_: int, limits: c_nvmlSetMemoryLimits_v1_t) -> None:
    """Return a limit in the structure."""
    state = json.loads(STATE.read_text())
    if not Path(limits.nameSpace).exists():
        raise NVMLError(6)
    limits.hardLimit = state["limits"].get(limits.nameSpace, _UNLIMITED)


def _unsupported(*_: object) -> None:
    raise NVMLError(3)


nvmlDeviceGetMigMode = nvmlDeviceGetMaxMigDeviceCount = nvmlDeviceGetUtilizationRates = _unsupported
nvmlDeviceGetProcessUtilization = nvmlDeviceGetTemperature = nvmlDeviceGetPowerUsage = _unsupported
nvmlDeviceGetTotalEccErrors = nvmlDeviceGetRemappedRows = nvmlEventSetCreate = _unsupported
nvmlDeviceGetP2PStatus = nvmlDeviceGetTopologyCommonAncestor = _unsupported
