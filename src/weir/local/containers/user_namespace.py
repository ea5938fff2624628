"""User namespace of a container: one user id, the submitter's own, which is root in it.

It needs no set-uid program and no subordinate ids, so it works without new privileges. A process in it can
do nothing to the machine that its user couldn't do outside: root in the container is the submitter.
"""

import ctypes
import os
from collections.abc import Mapping

NEW_MOUNTS, _NEW_USERS = 0x0002_0000, 0x1000_0000
_BIND, _RECURSIVE, _PRIVATE, _READ_ONLY = 4096, 16384, 1 << 18, 1
_NO_SET_UID, _NO_DEVICES = 2, 4
_PROC, _DETACH = b"/proc", 2
RUN = "/run/lock"
"""Mount point for the runtime's state: it exists on every system, and no job has files there."""
_HYBRID = "/sys/fs/cgroup/unified"
_libc = ctypes.CDLL(None, use_errno=True)


def enter_own() -> None:
    """Enter a new user namespace and a new mount namespace, as root of both.

    Raises:
        OSError: the kernel or its administrator doesn't allow it.
    """
    uid, gid = os.geteuid(), os.getegid()
    check_call(_libc.unshare(_NEW_USERS | NEW_MOUNTS))
    for name, line in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        fd = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, line.encode())
        finally:
            os.close(fd)
    _keep_mounts()


def enter_own_mounts() -> None:
    """Enter a new mount namespace: no other process of the container sees its further mounts.

    Raises:
        OSError: the kernel doesn't allow it.
    """
    check_call(_libc.unshare(NEW_MOUNTS))
    _keep_mounts()


def _keep_mounts() -> None:
    check_call(_libc.mount(None, b"/", None, _RECURSIVE | _PRIVATE, None))


def replace_files(texts: Mapping[str, bytes]) -> None:
    """Show files with these texts at the paths in this mount namespace, which has to be this process's own.

    No other process reaches them while they are made: they lie in a file system over /proc, since that is a
    mount point in each container, which can't be moved.

    Raises:
        OSError: the files can't be made or mounted.
    """
    check_call(_libc.mount(b"none", _PROC, b"tmpfs", _NO_SET_UID | _NO_DEVICES, b"mode=755"))
    try:
        for number, (path, text) in enumerate(texts.items()):
            made = _PROC + b"/%d" % number
            fd = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            with os.fdopen(fd, "wb") as file:
                file.write(text)
            check_call(_libc.mount(made, path.encode(), None, _BIND, None), path)
    finally:
        check_call(_libc.umount2(_PROC, _DETACH))


def mount_run_directory() -> None:
    """Give this mount namespace an empty directory for the state of its runtime, at a short path.

    The directory disappears with the last process of the namespace.

    Raises:
        OSError: the directory can't be mounted.
    """
    check_call(_libc.mount(b"none", RUN.encode(), b"tmpfs", _NO_SET_UID | _NO_DEVICES, b"mode=700"), RUN)


def hide_unused_groups() -> None:
    """Hide version 2 of control groups in this mount namespace if version 1 is used beside it.

    crun refuses to start where it has controllers. Containers of pods need none: they stay in the groups of
    their pod.

    Raises:
        OSError: version 2 can't be hidden.
    """
    if os.path.isdir(_HYBRID):
        check_call(_libc.mount(b"none", _HYBRID.encode(), b"tmpfs", _READ_ONLY, None), _HYBRID)


def check_call(result: int, path: str | None = None) -> None:
    """Raise the error of a call of the C library that failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
