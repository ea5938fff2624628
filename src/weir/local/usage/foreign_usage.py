"""Processes on the GPUs that this pool didn't start."""

import os
import pwd
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from weir.local.machine.devices import DeviceActivity
from weir.local.records import pod_files

AGE_S_MIN = 5.0
"""Minimum age; younger processes may belong to a pod that started during the reading."""
COMMAND_LENGTH_MAX = 200
_COMMAND_BYTES_MAX = 4096
_MARK = b"WEIR_POD_DIRECTORY="
_SERVICES = ("nvidia-cuda-mps",)
"""Names of processes that work for others on a device."""
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ForeignProcess:
    """A process outside the pool that uses a device.

    `command` is its command line, another user's text: bounded, and without characters that can't be
    printed. Arguments may hold secrets, so it is for administrators alone.
    """

    device: int
    pid: int
    user: str
    program: str
    command: str = field(default="", compare=False)

    @property
    def sentence(self) -> str:
        """Return the process with its program, user and pid."""
        return f"{self.program} of {self.user} (pid {self.pid}), outside Weir"


def foreign_processes(
    doing: Iterable[DeviceActivity], own: Collection[int], directories: Collection[str]
) -> tuple[ForeignProcess, ...]:
    """Return one foreign process for each device that has any.

    Args:
        doing: the activity of the devices.
        own: the processes of the pool's pods.
        directories: of the starts of pods that aren't over; a process that names one belongs to it.
    """
    on_devices = {activity.index: sorted(activity.memory_of) for activity in doing}
    pids = {pid for on in on_devices.values() for pid in on}
    if any(pod_files.stat_of(pid) is None for pid in pids):
        return ()  # one ended just now, or the driver counts processes of another PID namespace
    foreign = {pid for pid in pids if pid not in own and _is_foreign(pid, directories)}
    processes = []
    for index, on in sorted(on_devices.items()):
        pid = next((pid for pid in on if pid in foreign), None)
        if pid is not None:
            processes.append(ForeignProcess(index, pid, _user(pid), _program(pid), _command(pid)))
    return tuple(processes)


def _is_foreign(pid: int, directories: Collection[str]) -> bool:
    if _program(pid).startswith(_SERVICES) or _age_s(pid) < AGE_S_MIN:
        return False
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return True  # a process of another user
    marks = [word.removeprefix(_MARK).decode(errors="replace") for word in words if word.startswith(_MARK)]
    return not any(mark in directories for mark in marks)


def _age_s(pid: int) -> float:
    started = pod_files.started_ticks(pid)
    if started is None:
        return 0.0
    with open("/proc/uptime", encoding="ascii") as file:
        return float(file.read().split()[0]) - started / _TICKS_A_SECOND


def _user(pid: int) -> str:
    try:
        number = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return "an unknown user"
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _program(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            name = file.read().decode(errors="replace").strip()
    except OSError:
        return "a process"
    return _printable(name) or "a process"


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(_COMMAND_BYTES_MAX).rstrip(b"\0").split(b"\0")
    except OSError:
        return ""
    command = _printable(" ".join([word.decode(errors="replace") for word in words]))
    return command if len(command) <= COMMAND_LENGTH_MAX else command[: COMMAND_LENGTH_MAX - 1] + "…"


def _printable(text: str) -> str:
    return "".join([character if character.isprintable() else "?" for character in text])
