"""Limits of the driver for the memory that a control group may use of a GPU.

The driver keeps them for a group of cgroup v2 until the group is removed. It counts all memory of the device
but managed memory. Only root may set them. A limit counts only once it was read back as set.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

_STEP = 2 << 20
"""Size of the driver's pages: limits are multiples of it, so that the driver rounds none of them."""
_TEXT_MAX = 200


class NotLimited(Exception):
    """The memory of a GPU isn't limited; the text says why."""


def driver_library() -> Any:
    """Return the loaded library NVML.

    Raises:
        NotLimited: NVML can't be used.
    """
    try:
        import pynvml as nvml

        nvml.nvmlInit()
    except Exception as failure:  # noqa: BLE001 - NVMLError exists only with the library
        raise NotLimited(f"NVML can't be used: {failure}"[:_TEXT_MAX]) from None
    return nvml


def limit_memory(nvml: Any, group: str, gpus: Sequence[str], memory: int) -> None:
    """Let a control group use at most `memory` bytes of each of these GPUs, named by their ids.

    A limit that is set already stays.

    Raises:
        NotLimited: the driver has no limits, refuses this one or reports another one, or more memory is in
        use.
    """
    if not group or not gpus or not all(gpus):
        raise NotLimited(
            "no group of cgroup v2" if not group else "the driver limits whole GPUs of NVIDIA only"
        )
    memory -= memory % _STEP
    try:
        for gpu in gpus:
            board = nvml.nvmlDeviceGetHandleByUUID(gpu)
            if _read(nvml, board, group).hardLimit != memory:
                wanted = nvml.c_nvmlSetMemoryLimits_v1_t(group.encode(), 0, memory)
                nvml.nvmlDeviceSetMemoryLimits_v1(board, wanted)
            if (read := _read(nvml, board, group)).hardLimit != memory or read.currentUsed > memory:
                raise NotLimited(
                    "the driver shows another limit than the one set, or more memory was in use already"
                )
    except AttributeError:
        raise NotLimited("the library of the driver has no such limits") from None
    except nvml.NVMLError as refusal:
        raise NotLimited(f"the driver refuses: {refusal}"[:_TEXT_MAX]) from None


def _read(nvml: Any, board: Any, group: str) -> Any:
    """Return the limit of a group, and the bytes in use; no limit if it can't be read."""
    read = nvml.c_nvmlGetMemoryLimits_v1_t(group.encode(), 0, 1, 0)  # not in whole pages
    with suppress(nvml.NVMLError):
        nvml.nvmlDeviceGetMemoryLimits_v1(board, read)
    return read
