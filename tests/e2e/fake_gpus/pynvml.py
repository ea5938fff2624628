# ruff: noqa: N802 - the names are the driver's
"""A driver of GPUs whose use a test writes into a file, in the place of `pynvml` for a pool of its own.

The file is JSON: the use of each GPU in percent by its index; null: the driver doesn't measure it. Below the key
`memory`, the bytes of a GPU's memory that processes use, by its index and their ids.
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


def nvmlDeviceGetMemoryInfo(handle: int) -> SimpleNamespace:
    """Return the memory: the driver's own, and that of the processes."""
    return SimpleNamespace(total=MEMORY, used=(1 << 30) + sum(_memory(handle).values()))


def nvmlDeviceGetComputeRunningProcesses(handle: int) -> list[SimpleNamespace]:
    """Return the processes that the test wrote; without any, as in a container that sees none."""
    return [SimpleNamespace(pid=int(pid), usedGpuMemory=used) for pid, used in _memory(handle).items()]


def _memory(handle: int) -> dict[str, int]:
    written = json.loads(Path(os.environ["FAKE_GPUS"]).read_text())
    found: dict[str, int] = written.get("memory", {}).get(str(handle), {})
    return found


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
