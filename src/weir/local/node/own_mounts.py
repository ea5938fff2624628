"""Mounts of a pod's own, in which it can't open device files of other GPUs.

They are the fallback if control groups can't separate devices. A process keeps files that it opened before,
and a process of the same user outside of the pod isn't restricted. Mounts of the machine still appear in the
pod's.
"""

import ctypes
import os
from collections.abc import Sequence

from weir.local.node.forked import fork, wait_for

_NEW_MOUNTS = 0x00020000
_NO_DEVICES, _REMOUNT, _BIND, _RECURSIVE, _RECEIVES = 4, 32, 4096, 16384, 1 << 19
_libc = ctypes.CDLL(None, use_errno=True)


def close_devices(files: Sequence[str]) -> None:
    """Give this process mounts of its own, in which it can't open these device files.

    Each file is mounted over itself with the option `nodev`. The kernel lets only root remove such a mount,
    also in a user namespace.

    Raises:
        OSError: the kernel doesn't allow it.
    """
    check_call(_libc.unshare(_NEW_MOUNTS))
    _mount("", "/", _RECURSIVE | _RECEIVES)
    for path in files:
        _mount(path, path, _BIND)
        _mount("", path, _REMOUNT | _BIND | _NO_DEVICES)


def can_close_devices() -> bool:
    """Return True if this process may close devices, as a child process has tried."""
    return wait_for(fork(lambda: close_devices([os.devnull])))


def _mount(source: str, target: str, flags: int) -> None:
    check_call(_libc.mount(source.encode(), target.encode(), None, ctypes.c_ulong(flags), None))


def check_call(result: int) -> None:
    """Raise the error of a call of the C library that returned another value than 0."""
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
