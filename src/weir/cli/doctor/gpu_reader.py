"""Facts of GPUs: the bus, the driver through NVML, and the device files."""

import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from weir.cli.doctor.facts import GpuFacts
from weir.cli.doctor.time_limit import NotInTime, within

_NVIDIA, _DISPLAY, _ACCELERATOR = "0x10de", ("0x0300", "0x0302"), "0x1200"
_DRIVER_S_MAX = 15.0


def gpu_facts() -> GpuFacts:
    """Return the facts of this machine's GPUs."""
    on_bus = _on_bus(Path("/sys/bus/pci/devices"))
    try:
        import pynvml
    except ImportError:
        return GpuFacts(on_bus=on_bus, problem="nvidia-ml-py isn't installed: pip install 'weir[server]'")
    try:
        return within(_DRIVER_S_MAX, lambda: _asked(pynvml, on_bus, Path("/")))
    except NotInTime:
        return GpuFacts(on_bus=on_bus, problem=f"it hasn't answered for {_DRIVER_S_MAX:.0f} s")
    except Exception as error:  # noqa: BLE001 - NVMLError exists only with the library
        return GpuFacts(on_bus=on_bus, problem=str(error))


def _asked(nvml: Any, on_bus: int, root: Path) -> GpuFacts:
    nvml.nvmlInit()
    try:
        count = int(nvml.nvmlDeviceGetCount())
        paths, not_persistent = ["/dev/nvidiactl", "/dev/nvidia-uvm"], 0
        for index in range(count):
            board = nvml.nvmlDeviceGetHandleByIndex(index)
            paths.append(f"/dev/nvidia{nvml.nvmlDeviceGetMinorNumber(board)}")
            with suppress(nvml.NVMLError):
                not_persistent += nvml.nvmlDeviceGetPersistenceMode(board) == 0
        driver = nvml.nvmlSystemGetDriverVersion()
        return GpuFacts(
            on_bus=on_bus,
            gpus=count,
            driver=driver.decode() if isinstance(driver, bytes) else str(driver),
            not_persistent=not_persistent,
            files=tuple((path, _mode(root / path.lstrip("/"))) for path in paths),
        )
    finally:
        nvml.nvmlShutdown()


def _mode(path: Path) -> int | None:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None


def _on_bus(devices: Path) -> int:
    """Return the number of NVIDIA's GPUs on the bus."""
    count = 0
    with suppress(OSError):
        for device in devices.iterdir():
            with suppress(OSError):
                kind = (device / "class").read_text("ascii")
                is_gpu = kind.startswith((*_DISPLAY, _ACCELERATOR))
                count += is_gpu and (device / "vendor").read_text("ascii").strip() == _NVIDIA
    return count
