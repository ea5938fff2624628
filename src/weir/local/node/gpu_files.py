"""`python -I PATH`: print the GPUs of NVIDIA and their device files as JSON, with the rights of any user."""

import json
from contextlib import suppress
from typing import Any


def nvidia_gpus() -> list[tuple[str, list[str]]]:
    """Return the id and the device files of NVIDIA's GPUs in the order of their bus; none without a driver.

    Instances of a GPU in MIG mode share the file of the GPU, and each has files of its own for its access.
    An instance has no id: the driver limits the memory of whole GPUs alone.
    """
    try:
        import pynvml as nvml

        nvml.nvmlInit()
    except (ImportError, OSError):
        return []
    except Exception:  # noqa: BLE001 - NVMLError exists only with the library
        return []
    gpus: list[tuple[str, list[str]]] = []
    for index in range(nvml.nvmlDeviceGetCount()):
        board = nvml.nvmlDeviceGetHandleByIndex(index)
        minor = nvml.nvmlDeviceGetMinorNumber(board)
        files = [f"/dev/nvidia{minor}", *_render_files(str(nvml.nvmlDeviceGetPciInfo(board).busId))]
        instances = [("", [*files, *_access_files(minor, *numbers)]) for numbers in _instances(nvml, board)]
        uuid = nvml.nvmlDeviceGetUUID(board)
        gpus += instances or [(uuid if isinstance(uuid, str) else uuid.decode(), files)]
    return gpus


def _instances(nvml: Any, board: Any) -> list[tuple[int, int]]:
    """Return the numbers of the GPU and compute instances of a GPU in MIG mode."""
    instances = []
    with suppress(Exception):  # a GPU without MIG refuses these calls with various errors
        for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(board)):
            with suppress(Exception):
                part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(board, index)
                instances.append(
                    (nvml.nvmlDeviceGetGpuInstanceId(part), nvml.nvmlDeviceGetComputeInstanceId(part))
                )
    return instances


def _access_files(minor: int, instance: int, compute: int) -> list[str]:
    """Return the files that open a MIG instance, which the driver lists below /proc."""
    above = f"/proc/driver/nvidia/capabilities/gpu{minor}/mig/gi{instance}"
    files = []
    for path in (f"{above}/access", f"{above}/ci{compute}/access"):
        with suppress(OSError, ValueError, IndexError), open(path, encoding="ascii") as file:
            files.append(f"/dev/nvidia-caps/nvidia-cap{int(file.readline().split(':')[1])}")
    return files


def _render_files(bus: str) -> list[str]:
    """Return the files of the kernel's own graphics interface for the GPU at a place of the bus."""
    place = bus.strip("b'\0").lower()[-12:]
    return [f"/dev/dri/by-path/pci-{place}-{kind}" for kind in ("card", "render")]


if __name__ == "__main__":
    print(json.dumps(nvidia_gpus()))
