"""Control groups, where the kernel allows them: limits of a pod, and control of all its processes.

Supports version 2, version 1 and both side by side. Controllers that are missing or not writable are left
out; without any, a pod is an ordinary process group. Groups lie below the pool's own group and exist only
as long as their pods.

Standard library only: the node process makes groups and its supervisors watch them.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

_TRIES = 20
_WANTED = ("memory", "cpu", "pids")
_GPU_MEMORY = "dmem"
"""Controller of version 2 for memory of devices, since Linux 6.14. The driver sets its files."""
_OWN = "weir-pool"
"""Group of the pool itself inside a version 2 group that has subgroups: such a group can't have processes."""
_SERVICE = ".service"
"""End of the name of a service's group. The pool doesn't divide it. systemd puts the pool into it again at
a restart, and the kernel refuses that as long as jobs are below. From version 254 on, systemd starts it in
a group below by `DelegateSubgroup`. With earlier ones the groups of pods lie beside it. There systemd has
enabled the controllers for the service, and touches no group that isn't its own."""

Words = tuple[str, dict[str, str], str]
"""A stored group: its path, the contents of its files, and the controllers that its parent hands down."""


class Limits(NamedTuple):
    """Limits of a pod's control groups; 0: none."""

    memory: int = 0  # bytes
    cpu_milli: int = 0  # share when the processors are busy
    pids: int = 0  # limit of processes and threads together
    gpu_memory: int = 0  # bytes of each GPU, if the driver has limits


class Cgroup:
    """Makes a control group of a pod in one hierarchy, and ends the processes in it."""

    __slots__ = ("_files", "_hands_down", "_parent", "path")

    def __init__(self, path: str, files: dict[str, str], hands_down: str) -> None:
        self.path = path
        self._parent = path.rpartition("/")[0]
        self._files = files
        self._hands_down = hands_down

    def make(self) -> bool:
        """Create the control group; return True if that was allowed. Unknown limits are left out."""
        for _ in range(_TRIES):  # the last pod of the pool may be removing the parent
            try:
                with suppress(FileExistsError):
                    os.mkdir(self._parent)
                    if self._hands_down:
                        _try_to_set(f"{self._parent}/cgroup.subtree_control", self._hands_down)
                with suppress(FileExistsError):
                    os.mkdir(self.path)
            except FileNotFoundError:
                continue
            except OSError:
                return False
            for name, value in self._files.items():
                _try_to_set(f"{self.path}/{name}", value)
            return True
        return False

    def join(self) -> bool:
        """Move this process into the group; return True if that was allowed."""
        return _try_to_set(f"{self.path}/cgroup.procs", "0")

    def add(self, pid: int) -> bool:
        """Move a process into the group; return True if that was allowed."""
        return _try_to_set(f"{self.path}/cgroup.procs", str(pid))

    def kill(self) -> None:
        """Kill all processes in the group."""
        if not _try_to_set(f"{self.path}/cgroup.kill", "1"):
            for pid in self.processes():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def processes(self) -> list[int]:
        """Return the ids of the group's processes."""
        return [int(pid) for pid in text_of(f"{self.path}/cgroup.procs").split()]

    def remove(self) -> None:
        """Remove the control group, and that of the pool if no other group is left in it."""
        with suppress(OSError):
            os.rmdir(self.path)
            os.rmdir(self._parent)


class Cgroups(NamedTuple):
    """Places where control groups of the pool's pods can be made; an empty one: there is none.

    `apart`: name of the group of the node process and of supervisors below the pool's; empty: they are where
    the server is.
    """

    pool: str
    memory: str = ""  # path in cgroup v1
    cpu: str = ""  # path in cgroup v1
    unified: str = ""  # path in cgroup v2
    controllers: str = ""  # controllers that cgroup v2 delegates here
    pids: str = ""  # path in cgroup v1
    devices: str = ""  # path in cgroup v1
    apart: str = ""

    def __bool__(self) -> bool:
        return bool(self.memory or self.cpu or self.pids or self.unified)

    def of_pod(self, pod: str, limits: Limits) -> list[Words]:
        """Return the control groups of a pod.

        If supervisors have a service of their own, a pod has at least one control group, even without limits.
        """
        words: list[Words] = []
        if self.memory and limits.memory:
            words.append(self._in(self.memory, pod, {"memory.limit_in_bytes": str(limits.memory)}))
        if self.cpu and limits.cpu_milli:
            shares = str(max(2, limits.cpu_milli * 1024 // 1000))
            words.append(self._in(self.cpu, pod, {"cpu.shares": shares}))
        if self.pids and (limits.pids or self.apart):
            words.append(self._in(self.pids, pod, {"pids.max": str(limits.pids)} if limits.pids else {}))
        if self.devices:
            words.append(self._in(self.devices, pod, {}))
        if self.unified:
            words.append(self._unified_of_pod(pod, limits))
        return words

    def all_of_pod(self, pod: str) -> list[Words]:
        """Return every control group that a pod may have, for any limits."""
        return self.of_pod(pod, Limits(memory=1, cpu_milli=1, pids=1))

    def path(self, base: str, pod: str) -> str:
        """Return the path of a pod's group below one of the places."""
        return f"{base}/{self.pool}/{pod.replace('/', '.')}"

    def supervisors(self) -> list[str]:
        """Return the groups of supervisors that are apart."""
        bases = (self.memory, self.cpu, self.pids, self.devices, self.unified)
        return [f"{base}/{self.pool}/{self.apart}" for base in bases if base and self.apart]

    def make_supervisors(self) -> None:
        """Make the separate groups of supervisors; the groups of pods are made beside them.

        Raises:
            OSError: a group can't be made.
        """
        for group in self.supervisors():
            os.makedirs(group, exist_ok=True)
        if self.unified and self.apart:
            _try_to_set(f"{self.unified}/{self.pool}/cgroup.subtree_control", self._hands_down())

    def _hands_down(self) -> str:
        return " ".join(f"+{name}" for name in self.controllers.split())

    def _unified_of_pod(self, pod: str, limits: Limits) -> Words:
        controllers = self.controllers.split()
        files: dict[str, str] = {}
        if "memory" in controllers and limits.memory:
            files |= {"memory.max": str(limits.memory), "memory.oom.group": "1"}
        if "pids" in controllers and limits.pids:
            files["pids.max"] = str(limits.pids)
        if "cpu" in controllers and limits.cpu_milli:
            files["cpu.weight"] = str(min(10_000, max(1, limits.cpu_milli // 10)))
        return self._in(self.unified, pod, files, self._hands_down())

    def _in(self, base: str, pod: str, files: dict[str, str], hands_down: str = "") -> Words:
        return self.path(base, pod), files, hands_down


def usable_cgroups(pool: str, apart: str = "", *, gpu_memory: bool = False) -> Cgroups:
    """Return the control groups that this process may use: below its own, or beside that of a service.

    `apart` names a separate group for supervisors; without it they stay in the group of this process.
    `gpu_memory`: let version 2 groups limit the memory of GPUs if the kernel can.
    """
    places: dict[str, str] = {}
    for names, base in _own():
        if _may_make(base, pool):
            places.update(dict.fromkeys(names, base))
    memory, cpu, pids = (places.get(name, "") for name in _WANTED)
    unified = places.get("", "")
    if gpu_memory:
        _offer(unified, _GPU_MEMORY)
    controllers = _handed_down(unified) if unified else ""
    if apart and unified.endswith(_SERVICE) and not controllers and not os.path.isdir(f"{unified}/{pool}"):
        unified = os.path.dirname(unified)
        controllers = _handed_down(unified)
    if (memory or cpu) and not controllers:
        unified = ""  # v2 without controllers limits nothing, and v1 lists the processes as well
    devices = places.get("devices", "") if apart else ""
    return Cgroups(pool, memory, cpu, unified, controllers, pids, devices, apart)


def _own() -> Iterator[tuple[list[str], str]]:
    """Yield the groups of this process, as directories, with their controllers; version 2 has none ("")."""
    mounts: dict[str, tuple[str, str]] = {}  # mount points by controller
    for line in text_of("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, (kind, _, options) = before.split(), [*after.split(), "", "", ""][:3]
        if kind == "cgroup2":
            mounts.setdefault("", (fields[3], fields[4]))
        elif kind == "cgroup":
            for option in options.split(","):
                mounts.setdefault(option, (fields[3], fields[4]))
    for line in text_of("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        names = controllers.split(",")
        if names[0] not in mounts:
            continue
        root, mounted = mounts[names[0]]
        below = path.removeprefix(root if root != "/" else "")
        if not controllers:  # a service manager may have put the pool into this group itself
            below = below.removesuffix(f"/{_OWN}")
        yield names, f"{mounted}/{below.strip('/')}".rstrip("/")


def _may_make(base: str, pool: str) -> bool:
    """Return True if this process can make groups at a path."""
    trial = Cgroup(f"{base}/{pool}-{os.getpid()}", {}, "")
    made = trial.make()
    trial.remove()
    return made


def _offer(base: str, controller: str) -> None:
    """Enable a controller that systemd doesn't know in every version 2 group above this one."""
    for end, character in enumerate(base):
        if character == "/" and end:
            _try_to_set(f"{base[:end]}/cgroup.subtree_control", f"+{controller}")


def _handed_down(base: str) -> str:
    """Return the wanted controllers that a version 2 group delegates; enable them if needed."""
    offered = text_of(f"{base}/cgroup.controllers").split()
    wanted = [name for name in (*_WANTED, _GPU_MEMORY) if name in offered]
    wanted += {"io"}.intersection(offered if wanted else ())  # sets no limit, counts the bytes of disks
    handed = f"{base}/cgroup.subtree_control"
    if any(name not in text_of(handed).split() for name in wanted):
        line = " ".join(f"+{name}" for name in wanted)
        alone = text_of(f"{base}/cgroup.procs").split() == [str(os.getpid())]
        if not _try_to_set(handed, line) and alone and not base.endswith(_SERVICE):
            # Only our process is in the group: move it one below, so that controllers can be enabled
            with suppress(OSError):
                os.mkdir(f"{base}/{_OWN}")
            if _try_to_set(f"{base}/{_OWN}/cgroup.procs", "0"):
                _try_to_set(handed, line)
    return " ".join(name for name in wanted if name in text_of(handed).split())


def set_file(path: str, value: str) -> None:
    """Write a value into a file of the kernel, such as one of a control group.

    Raises:
        OSError: the kernel refuses the value.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)


def _try_to_set(path: str, value: str) -> bool:
    try:
        set_file(path, value)
    except OSError:
        return False
    return True


def text_of(path: str) -> str:
    """Return the text of a file; empty if it can't be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
