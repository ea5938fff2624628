"""Rules of the kernel that keep a pod to the device files of its own GPUs.

Version 1 of control groups has a controller for devices. Version 2 asks a program instead, of the type
BPF_PROG_TYPE_CGROUP_DEVICE (linux/bpf.h). Where neither is allowed, a pod gets mounts of its own. All
refuse the GPUs that the pod doesn't hold, and nothing else. Weir can't guess which other devices a job
needs, such as InfiniBand.
"""

import ctypes
import os
import stat
import struct
from collections.abc import Sequence
from contextlib import suppress

from weir.local.cgroups import Cgroup, Cgroups, set_file
from weir.local.node.own_mounts import can_close_devices, check_call

_BPF_OF = {"aarch64": 280, "x86_64": 321, "ppc64le": 361, "s390x": 351}
_PROG_LOAD, _PROG_ATTACH = 5, 8
_CGROUP_DEVICE_PROGRAM, _CGROUP_DEVICE_HOOK, _ALLOW_MULTI = 15, 6, 2
_ATTRIBUTES = 128
_LOAD, _AND, _MOVE, _EXIT, _IF_EQUAL, _IF_OTHER = 0x61, 0x57, 0xB7, 0x95, 0x15, 0x55
_CHARACTER_DEVICE = 2

_NO_DEVICE = (0, 0)
_TRIAL = "trial"
MOUNTS = "mount namespace"

DeviceNumber = tuple[int, int]
"""Major and minor number of a device file."""

_syscall = ctypes.CDLL(None, use_errno=True).syscall


class DeviceRules:
    """Rules for the GPUs of this machine. `files`: the device files of each GPU, in the order of the GPUs."""

    def __init__(self, files: Sequence[Sequence[str]]) -> None:
        self._files = tuple(tuple(paths) for paths in files)

    def means(self, groups: Cgroups) -> str:
        """Return the mechanism of the kernel that separates GPUs here; empty without one or without GPUs."""
        if not self._files:
            return ""
        for base, name in ((groups.devices, "cgroup v1"), (groups.unified, "cgroup v2")):
            trial = Cgroup(f"{base}/{groups.pool}/{_TRIAL}", {}, "")
            try:
                if base and trial.make():
                    deny(trial.path, [_NO_DEVICE], unified=base == groups.unified)
                    return name
            except OSError:
                continue
            finally:
                trial.remove()
        return MOUNTS if can_close_devices() else ""

    def denied(self, devices: Sequence[int]) -> list[DeviceNumber]:
        """Return the devices that a pod with these GPUs may not open."""
        own = {
            number for index in devices if index < len(self._files) for number in _numbers(self._files[index])
        }
        others = {number for paths in self._files for number in _numbers(paths)}
        return sorted(others - own)

    def files(self, denied: Sequence[DeviceNumber]) -> list[str]:
        """Return the device files with these numbers."""
        every = {os.path.realpath(path) for paths in self._files for path in paths}
        return sorted(path for path in every if set(_numbers([path])) & set(denied))


def deny(group: str, denied: Sequence[DeviceNumber], *, unified: bool) -> None:
    """Keep the processes of a control group from opening devices.

    Raises:
        OSError: the kernel doesn't allow it.
    """
    if unified:
        _attach(group, _program(denied))
        return
    for major, minor in denied:
        set_file(f"{group}/devices.deny", f"c {major}:{minor} rwm")


def _numbers(files: Sequence[str]) -> list[DeviceNumber]:
    numbers = []
    for path in files:
        with suppress(OSError):
            status = os.stat(path)
            if stat.S_ISCHR(status.st_mode):
                numbers.append((os.major(status.st_rdev), os.minor(status.st_rdev)))
    return numbers


def _program(denied: Sequence[DeviceNumber]) -> bytes:
    """Return a program that returns 0 for these character devices, and 1 for everything else."""
    most = 2 * len(denied)
    checks = [
        line
        for index, (major, minor) in enumerate(denied)
        for line in (
            _line(_IF_OTHER, 3, skip=1, value=major),
            _line(_IF_EQUAL, 4, skip=most - 2 * index, value=minor),  # to the last two lines
        )
    ]
    lines = [
        _line(_LOAD, 2, source=1, skip=0),
        _line(_AND, 2, value=0xFFFF),
        _line(_LOAD, 3, source=1, skip=4),
        _line(_LOAD, 4, source=1, skip=8),
        _line(_IF_OTHER, 2, skip=most, value=_CHARACTER_DEVICE),
        *checks,
        _line(_MOVE, 0, value=1),
        _line(_EXIT, 0),
        _line(_MOVE, 0, value=0),
        _line(_EXIT, 0),
    ]
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
    check_call(min(answer, 0))
    return answer
