"""Device files of GPUs, and the kernel's rules that keep a pod to its own.

Version 1 of control groups has a controller for devices. Version 2 asks a program instead, of the type
BPF_PROG_TYPE_CGROUP_DEVICE (linux/bpf.h). Both refuse the GPUs that the pod doesn't hold, and nothing else:
which other devices a job needs, such as InfiniBand, is not for Weir to guess.
"""

import ctypes
import os
import stat
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from weir.local.cgroups import Cgroups

_BPF_OF = {"aarch64": 280, "x86_64": 321, "ppc64le": 361, "s390x": 351}
_PROG_LOAD, _PROG_ATTACH = 5, 8
_CGROUP_DEVICE_PROGRAM, _CGROUP_DEVICE_HOOK, _ALLOW_MULTI = 15, 6, 2
_ATTRIBUTES = 128
_LOAD, _AND, _MOVE, _EXIT, _IF_EQUAL, _IF_OTHER = 0x61, 0x57, 0xB7, 0x95, 0x15, 0x55
_CHARACTER_DEVICE = 2

DeviceNumber = tuple[int, int]
"""Major and minor number of a device file."""

_syscall = ctypes.CDLL(None, use_errno=True).syscall


class DeviceRules:
    """Rules for the GPUs of this machine. `files`: the device files of each GPU, in the order of the GPUs."""

    def __init__(self, files: Sequence[Sequence[str]]) -> None:
        self._files = tuple(tuple(each) for each in files)

    def way(self, groups: Cgroups) -> str:
        """Return the means of the kernel that holds GPUs apart; empty if there is none or no GPU."""
        if not self._files:
            return ""
        return "cgroup v1" if groups.devices else "cgroup v2" if groups.unified else ""

    def denied(self, held: Sequence[int]) -> list[DeviceNumber]:
        """Return the devices that a pod with these GPUs may not open."""
        own = {number for at in held if at < len(self._files) for number in _numbers(self._files[at])}
        others = {number for each in self._files for number in _numbers(each)}
        return sorted(others - own)


def deny(group: str, denied: Sequence[DeviceNumber], *, unified: bool) -> None:
    """Keep the processes of a control group from opening devices.

    Raises:
        OSError: the kernel doesn't allow it.
    """
    if unified:
        _attach(group, _program(denied))
        return
    for major, minor in denied:
        fd = os.open(f"{group}/devices.deny", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, f"c {major}:{minor} rwm".encode())
        finally:
            os.close(fd)


def nvidia_files() -> list[list[str]]:
    """Return the device files of NVIDIA's GPUs in the order of their bus; none without a driver.

    Instances of a GPU in MIG mode share the file of the GPU, and each has files of its own for its access.
    """
    try:
        import pynvml as nvml

        nvml.nvmlInit()
    except (ImportError, OSError):
        return []
    except Exception:  # noqa: BLE001 - NVMLError exists only with the library
        return []
    found: list[list[str]] = []
    for at in range(nvml.nvmlDeviceGetCount()):
        board = nvml.nvmlDeviceGetHandleByIndex(at)
        minor = nvml.nvmlDeviceGetMinorNumber(board)
        files = [f"/dev/nvidia{minor}", *_render_files(str(nvml.nvmlDeviceGetPciInfo(board).busId))]
        instances = _instances(nvml, board)
        found += [[*files, *_access_files(minor, *each)] for each in instances] or [files]
    return found


def _instances(nvml: Any, board: Any) -> list[tuple[int, int]]:
    """Return the numbers of the GPU and compute instances of a GPU in MIG mode."""
    found = []
    with suppress(Exception):  # a GPU without MIG refuses each of these in a way of its own
        for at in range(nvml.nvmlDeviceGetMaxMigDeviceCount(board)):
            with suppress(Exception):
                part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(board, at)
                found.append(
                    (nvml.nvmlDeviceGetGpuInstanceId(part), nvml.nvmlDeviceGetComputeInstanceId(part))
                )
    return found


def _access_files(minor: int, instance: int, compute: int) -> list[str]:
    """Return the files that open a MIG instance, which the driver lists below /proc."""
    above = f"/proc/driver/nvidia/capabilities/gpu{minor}/mig/gi{instance}"
    found = []
    for path in (f"{above}/access", f"{above}/ci{compute}/access"):
        with suppress(OSError, ValueError, IndexError), open(path, encoding="ascii") as file:
            found.append(f"/dev/nvidia-caps/nvidia-cap{int(file.readline().split(':')[1])}")
    return found


def _render_files(bus: str) -> list[str]:
    """Return the files of the kernel's own graphics interface for the GPU at a place of the bus."""
    place = bus.strip("b'\0").lower()[-12:]
    return [f"/dev/dri/by-path/pci-{place}-{kind}" for kind in ("card", "render")]


def _numbers(files: Sequence[str]) -> list[DeviceNumber]:
    found = []
    for path in files:
        with suppress(OSError):
            status = os.stat(path)
            if stat.S_ISCHR(status.st_mode):
                found.append((os.major(status.st_rdev), os.minor(status.st_rdev)))
    return found


def _program(denied: Sequence[DeviceNumber]) -> bytes:
    """Return a program that returns 0 for these character devices, and 1 for everything else."""
    checks = [
        line
        for major, minor in denied
        for line in (
            _line(_IF_OTHER, 3, skip=1, value=major),
            _line(_IF_EQUAL, 4, skip=-1, value=minor),  # to the refusal, once its place is known
        )
    ]
    lines = [
        _line(_LOAD, 2, source=1, skip=0),
        _line(_AND, 2, value=0xFFFF),
        _line(_LOAD, 3, source=1, skip=4),
        _line(_LOAD, 4, source=1, skip=8),
        _line(_IF_OTHER, 2, skip=len(checks), value=_CHARACTER_DEVICE),
        *checks,
        _line(_MOVE, 0, value=1),
        _line(_EXIT, 0),
    ]
    refusal = len(lines)
    lines += [_line(_MOVE, 0, value=0), _line(_EXIT, 0)]
    for at, line in enumerate(lines):
        if line[0] == _IF_EQUAL:
            lines[at] = line[:2] + struct.pack("=h", refusal - at - 1) + line[4:]
    return b"".join(lines)


def _line(code: int, target: int, *, source: int = 0, skip: int = 0, value: int = 0) -> bytes:
    """Return an instruction of a BPF program."""
    return struct.pack("=BBhI", code, target | source << 4, skip, value)


def _attach(group: str, program: bytes) -> None:
    """Attach a program to a control group, as long as that exists."""
    licence = ctypes.create_string_buffer(b"")
    text = ctypes.create_string_buffer(program, len(program))
    load = struct.pack(
        "=IIQQ", _CGROUP_DEVICE_PROGRAM, len(program) // 8, ctypes.addressof(text), ctypes.addressof(licence)
    )
    loaded = _bpf(_PROG_LOAD, load)
    try:
        place = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _bpf(_PROG_ATTACH, struct.pack("=IIII", place, loaded, _CGROUP_DEVICE_HOOK, _ALLOW_MULTI))
        finally:
            os.close(place)
    finally:
        os.close(loaded)


def _bpf(command: int, attributes: bytes) -> int:
    number = _BPF_OF.get(os.uname().machine)
    if number is None:
        raise OSError(38, "no system call bpf is known for this processor")
    given = ctypes.create_string_buffer(attributes, _ATTRIBUTES)
    answer: int = _syscall(number, command, given, _ATTRIBUTES)
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer
