# ruff: noqa: N801, N802, N816 - the names are the driver's
"""A driver of GPUs whose use a test writes into a file, in the place of `pynvml` for a pool of its own.

The file is JSON: the use of each GPU in percent by its index; null: the driver doesn't measure it. Below the key
`memory`, the bytes of a GPU's memory that processes use, by its index and their ids. Limits of memory are kept
in a file beside it, by control group and GPU; below `no_limits`, the driver refuses them.
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


class c_nvmlSetMemoryLimits_v1_t:
    """Limits to set, or those that were set."""

    def __init__(self, group: bytes, _: int, hard: int, used: int = 0) -> None:
        self.group, self.hardLimit, self.currentUsed = group.decode(), hard, used


c_nvmlGetMemoryLimits_v1_t = c_nvmlSetMemoryLimits_v1_t


def nvmlDeviceGetHandleByUUID(uuid: str) -> int:
    """Return a GPU."""
    return next(each for each in range(COUNT) if nvmlDeviceGetUUID(each) == uuid)


def nvmlDeviceSetMemoryLimits_v1(handle: int, limits: c_nvmlSetMemoryLimits_v1_t) -> None:
    """Keep the limit of a control group that exists."""
    if _written().get("no_limits") or not Path(limits.group).is_dir():
        raise NVMLError("Not Supported")
    kept = _limits()
    kept[f"{limits.group} {handle}"] = limits.hardLimit
    file = limits_file(Path(os.environ["FAKE_GPUS"]))
    file.with_suffix(".new").write_text(json.dumps(kept))
    file.with_suffix(".new").rename(file)


def nvmlDeviceGetMemoryLimits_v1(handle: int, limits: c_nvmlGetMemoryLimits_v1_t) -> None:
    """Fill in the limit of a control group."""
    limits.hardLimit = _limits().get(f"{limits.group} {handle}", 2**64 - 1)


def limits_file(uses: Path) -> Path:
    """Return the file of the limits."""
    return uses.with_name("limits.json")


def _limits() -> dict[str, int]:
    file = limits_file(Path(os.environ["FAKE_GPUS"]))
    found: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
    return found


def _memory(handle: int) -> dict[str, int]:
    found: dict[str, int] = _written().get("memory", {}).get(str(handle), {})
    return found


def _written() -> Any:
    return json.loads(Path(os.environ["FAKE_GPUS"]).read_text())


def nvmlDeviceGetUtilizationRates(handle: int) -> SimpleNamespace:
    """Return the use that the test wrote."""
    use = _written().get(str(handle), 0)
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
