# ruff: noqa: N802 - the names are the driver's
"""A driver of GPUs whose use a test writes into a file, in the place of `pynvml` for a pool of its own.

The file is JSON: the use of each GPU in percent by its index; null: the driver doesn't measure it.
"""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

COUNT, MEMORY = 8, 16 << 30
NVML_DEVICE_MIG_ENABLE = 1


class NVMLError(Exception):
    """An error of the driver."""


def nvmlInit() -> None:
    """Begin."""


def nvmlDeviceGetCount() -> int:
    """Return the number of GPUs."""
    return COUNT


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    """Return a GPU."""
    return index


def nvmlDeviceGetUUID(handle: int) -> str:
    """Return the id of a GPU."""
    machine = os.environ.get("FAKE_GPUS_ID")
    return f"GPU-{machine}-{handle}" if machine else f"GPU-{handle}"


def nvmlDeviceGetMinorNumber(handle: int) -> int:
    """Return the number of the device file."""
    return handle


def nvmlDeviceGetName(_: int) -> str:
    """Return the model."""
    return "Fake"


def nvmlDeviceGetMemoryInfo(_: int) -> SimpleNamespace:
    """Return the memory."""
    return SimpleNamespace(total=MEMORY, used=1 << 30)


def nvmlDeviceGetComputeRunningProcesses(_: int) -> list[object]:
    """Return the processes: the driver doesn't see them from here, as in a container."""
    return []


def nvmlDeviceGetUtilizationRates(handle: int) -> SimpleNamespace:
    """Return the use that the test wrote."""
    use = json.loads(Path(os.environ["FAKE_GPUS"]).read_text()).get(str(handle), 0)
    if use is None:
        raise NVMLError
    return SimpleNamespace(gpu=use)


def __getattr__(name: str) -> Any:
    """Return a call that the driver refuses, or a constant."""

    def unsupported(*_: object) -> None:
        raise NVMLError(name)

    if name.startswith("nvml"):
        return unsupported
    if name.startswith("NVML"):
        return 0
    raise AttributeError(name)
