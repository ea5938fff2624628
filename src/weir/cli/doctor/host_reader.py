"""Facts of the host: control groups, the clock, limits, file systems and home directories."""

import ctypes
import os
import pwd
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from weir.cli.doctor.facts import GroupFacts, Groups, HomeFacts, HostFacts, UserHome
from weir.cli.doctor.time_limit import NotInTime, within
from weir.cli.install.host import Host

_UNSYNCHRONISED, _ERROR = 0x40, 5
_TIMEX_BYTES, _STATUS_AT = 512, 40
_PEOPLE_FROM, _PEOPLE_MAX = 1000, 100
_OVERFLOW_UID = 65534
_HOME_S_MAX = 3.0
_FIRST_FILES = 1000
_LIMIT = re.compile(r"^(Max open files|Max processes|Max locked memory) +(\S+)", re.MULTILINE)


def group_facts(root: Path = Path("/")) -> GroupFacts:
    """Return the facts of control groups and the kernel."""
    controllers: set[str] = set()
    unified, older, read_only = False, False, False
    for _, point, kind, options in mounts(root):
        if kind == "cgroup2":
            unified = True
            with suppress(OSError):
                text = (root / point.lstrip("/") / "cgroup.controllers").read_text("ascii")
                controllers.update(text.split())
        elif kind == "cgroup":
            older = True
            controllers.update(options.split(","))
        if kind in ("cgroup", "cgroup2"):
            read_only = read_only or "ro" in options.split(",")
    kind_found: Groups = "none"
    if unified or older:
        kind_found = "hybrid" if unified and older else "v2" if unified else "v1"
    numbers = re.findall(r"\d+", os.uname().release)
    kernel = (int(numbers[0]), int(numbers[1])) if len(numbers) > 1 else (0, 0)
    return GroupFacts(
        kind=kind_found,
        controllers=frozenset(controllers),
        kernel=kernel,
        writable=False if read_only else None,
    )


def mounts(root: Path = Path("/")) -> Iterator[tuple[str, str, str, str]]:
    """Yield device number, mount point, type and options of each mount."""
    with suppress(OSError):
        for line in (root / "proc/self/mountinfo").read_text("utf-8", "replace").splitlines():
            before, _, after = line.partition(" - ")
            fields, words = before.split(), [*after.split(), "", "", ""]
            if len(fields) > 5:
                yield fields[2], _unescaped(fields[4]), words[0], f"{fields[5]},{words[2]}"


def host_facts(host: Host, node_pid: int | None) -> HostFacts:
    """Return systemd, the clock, and the limits of the node process, else of this one."""
    text, whose = "", "this shell"
    for pid, name in ((node_pid, "the service"), (os.getpid(), whose)):
        with suppress(OSError):
            text, whose = Path(f"/proc/{pid}/limits").read_text("ascii"), name
            break
    limits: dict[str, int | None] = {
        name: None if value == "unlimited" else int(value) for name, value in _LIMIT.findall(text)
    }
    return HostFacts(
        systemd=host.systemd_version(),
        clock_synchronised=clock_synchronised(),
        limits_of=whose,
        files_max=limits.get("Max open files"),
        processes_max=limits.get("Max processes"),
        locked_bytes_max=limits.get("Max locked memory"),
    )


def clock_synchronised() -> bool | None:
    """Return True if the kernel reports a synchronised clock; None if it reports nothing."""
    buffer = ctypes.create_string_buffer(_TIMEX_BYTES)  # larger than this structure on any processor
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(buffer)
    except (AttributeError, OSError):
        return None
    if state < 0:
        return None
    status = int.from_bytes(buffer.raw[_STATUS_AT : _STATUS_AT + 4], "little")
    return state != _ERROR and not status & _UNSYNCHRONISED


def home_facts(home: Path) -> HomeFacts:
    """Return the facts of a pool's home, or of the directory that it would be made in."""
    place = next((directory for directory in (home, *home.parents) if _exists(directory)), Path("/"))
    status = os.statvfs(place)
    kind, options = _file_system(place)
    writable = None
    if os.geteuid() == 0 or (_exists(home) and home.stat().st_uid == os.geteuid()):
        writable = os.access(place, os.W_OK)
    return HomeFacts(
        path=str(home),
        file_system=kind,
        read_only="ro" in options.split(","),
        writable=writable,
        free_bytes=status.f_bavail * status.f_frsize,
        free_files=status.f_favail if status.f_files else None,
        written_s=_newest_s(home),
        now_s=time.time(),
    )


def people() -> tuple[UserHome, ...]:
    """Return the home directories of people, as far as root can look into them."""
    homes: list[UserHome] = []
    for user in pwd.getpwall():
        if _PEOPLE_FROM <= user.pw_uid != _OVERFLOW_UID and len(homes) < _PEOPLE_MAX:
            homes.append(_home_of(user))
    return tuple(homes)


def _home_of(user: pwd.struct_passwd) -> UserHome:
    path = Path(user.pw_dir)
    kind, options = _file_system(path)
    problem = ""
    try:
        within(_HOME_S_MAX, lambda: os.scandir(path).close())
    except NotInTime:
        problem = "timed out"
    except OSError as error:
        problem = error.strerror or str(error)
    return UserHome(user=user.pw_name, path=str(path), file_system=kind, options=options, problem=problem)


def _file_system(path: Path) -> tuple[str, str]:
    """Return type and options of the mount that a path lies on, without touching the path."""
    best, mount = -1, ("", "")
    for _, point, kind, options in mounts():
        if kind != "autofs" and Path(point) in (path, *path.parents) and len(point) >= best:
            best, mount = len(point), (kind, options)
    return mount


def _exists(path: Path) -> bool:
    """Return True if this user can see that a path exists."""
    try:
        path.stat()
    except OSError:
        return False
    return True


def _newest_s(home: Path) -> float | None:
    newest = None
    with suppress(OSError):
        for path in islice(home.iterdir(), _FIRST_FILES):
            with suppress(OSError):
                newest = max(newest or 0.0, path.lstat().st_mtime)
    return newest


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
