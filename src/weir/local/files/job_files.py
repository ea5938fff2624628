"""Open files that a job may have changed: without links, without waiting, with a bound on their size.

A job may replace a file by a link, a FIFO, a device, a socket, a directory, a huge file or another file
system. So every file is opened below a root, without waiting, without following a link and without leaving
the root's file system. It counts only if it is a regular file. `pod_records` checks the content.

Standard library only, and little of it: the interpreter that forks supervisors has to stay small.
"""

import ctypes
import errno
import os
import stat
from contextlib import suppress
from typing import NamedTuple

_OPENAT2 = 437
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x01, 0x02, 0x04, 0x08
_RESOLVE = _NO_XDEV | _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_PROC, _STATFS_LONGS = 0x9FA0, 64
_TRIES = 3
_MODE = 0o600
_SHORT = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR))
_SHORT_OF_DISK = _SHORT | {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS}
_REASONS = {
    errno.ELOOP: "is a link, or lies below one",
    errno.EXDEV: "lies on another file system",
    errno.ENXIO: "is a socket or a device",
    errno.ENODEV: "is a device",
    errno.ENOTDIR: "lies below a file that is not a directory",
    errno.EISDIR: "is a directory",
    errno.EACCES: "may not be opened",
    errno.EPERM: "may not be opened",
    errno.EAGAIN: "is locked by its job",
}
_KINDS = (
    (stat.S_ISDIR, "is a directory"),
    (stat.S_ISFIFO, "is a FIFO"),
    (stat.S_ISSOCK, "is a socket"),
    (stat.S_ISCHR, "is a device"),
    (stat.S_ISBLK, "is a device"),
)


class UnreadableFile(NamedTuple):
    """A file that isn't read, and why."""

    name: str
    why: str

    @property
    def sentence(self) -> str:
        """Return the refusal as a sentence for people."""
        return f"{self.name} {self.why}."


class _OpenHow(ctypes.Structure):
    """The argument of openat2."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_OpenHow), ctypes.c_size_t)


def is_shortage(failure: OSError) -> bool:
    """Return True if a write failed because the machine is short of something: trying again may help."""
    return failure.errno in _SHORT_OF_DISK


def open_file(directory: str, name: str, flags: int = os.O_RDONLY) -> int | UnreadableFile | None:
    """Open a regular file in the directory of a start; None if it doesn't exist.

    `directory` ends in UID/START-GROUP-INDEX; only its parents above these two may be links.

    Raises:
        OSError: the machine lacks memory or file descriptors.
    """
    fd = _open(directory, name, flags | _SAFE)
    return _regular(fd, name) if isinstance(fd, int) else fd


def read_whole(directory: str, name: str, most: int) -> bytes | UnreadableFile | None:
    """Return the content of a file, if it has at most `most` bytes; None if it doesn't exist.

    Raises:
        OSError: the machine lacks memory or file descriptors.
    """
    fd = open_file(directory, name)
    return _content(fd, name, most) if isinstance(fd, int) else fd


def read_at(directory_fd: int | None, name: str, most: int) -> bytes | UnreadableFile | None:
    """Return the content of a file of an open directory, as `read_whole` does; without one `name` is a path.

    The answer is None if there is no such file.

    Directories of a path may be links, so files in /proc aren't read either: they could reveal facts about
    this process.

    Raises:
        OSError: the machine lacks memory or file descriptors.
    """
    try:
        fd = os.open(name, os.O_RDONLY | _SAFE, dir_fd=directory_fd)
    except FileNotFoundError:
        return None
    except OSError as failure:
        return _unreadable(name, failure)
    if _is_of_proc(fd):
        os.close(fd)
        return UnreadableFile(name, "lies in /proc")
    regular = _regular(fd, name)
    return _content(regular, name, most) if isinstance(regular, int) else regular


def _regular(fd: int, name: str) -> int | UnreadableFile:
    """Return the descriptor of a regular file; close it if it is of another kind."""
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    return UnreadableFile(
        name, next((why for is_kind, why in _KINDS if is_kind(mode)), "is not a regular file")
    )


def _is_of_proc(fd: int) -> bool:
    # The first member of the structure is the type of the file system
    status = (ctypes.c_long * _STATFS_LONGS)()
    return _libc.fstatfs(fd, status) < 0 or status[0] == _PROC


def _content(fd: int, name: str, most: int) -> bytes | UnreadableFile:
    """Return the content of an open file of at most `most` bytes, and close the file."""
    try:
        text = b""
        while len(text) <= most and (block := os.read(fd, most + 1 - len(text))):
            text += block
    except OSError as failure:
        return _unreadable(name, failure)
    finally:
        os.close(fd)
    return text if len(text) <= most else UnreadableFile(name, f"has more than {most:,} bytes")


def open_directory(directory: str) -> int | UnreadableFile | None:
    """Open the directory of a start; the descriptor stays valid if the name changes.

    Raises:
        OSError: the machine lacks memory or file descriptors.
    """
    return _open(directory, "", os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def make_file(directory_fd: int, name: str, text: bytes, mode: int = _MODE) -> None:
    """Make a file in an open directory, unless something of that name exists or it can't be made."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE
    with suppress(OSError):
        fd = os.open(name, flags, mode, dir_fd=directory_fd)
        try:
            os.fchmod(fd, mode)  # regardless of the umask
            os.write(fd, text)
        finally:
            os.close(fd)


def is_written(directory: str, name: str) -> bool:
    """Return True if something has this name, but not for an empty file."""
    try:
        status = os.lstat(f"{directory}/{name}")
    except OSError:
        return False
    return status.st_size > 0 or not stat.S_ISREG(status.st_mode)


def _unreadable(name: str, failure: OSError) -> UnreadableFile:
    """Return why a file isn't read, or raise if the machine is short of something."""
    if failure.errno in _SHORT:
        raise failure
    return UnreadableFile(name, _REASONS.get(failure.errno or 0) or f"can't be read ({failure.strerror})")


def _open(directory: str, name: str, flags: int) -> int | UnreadableFile | None:
    root, uid, start = directory.rsplit("/", 2)
    path = f"{uid}/{start}/{name}" if name else f"{uid}/{start}"
    mode = _MODE if flags & os.O_CREAT else 0
    for _ in range(_TRIES):
        try:
            return _below(root, path, flags, mode)
        except FileNotFoundError:
            return None
        except BlockingIOError:
            continue  # the kernel also reports this for a concurrent rename
        except OSError as failure:
            return _unreadable(name or start, failure)
    return UnreadableFile(name or start, _REASONS[errno.EAGAIN])


def _below(root: str, path: str, flags: int, mode: int) -> int:
    directory_fd = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return (
            _openat2(directory_fd, path, flags, mode)
            if _HAS_OPENAT2
            else _step_by_step(directory_fd, path, flags, mode)
        )
    finally:
        os.close(directory_fd)


def _openat2(directory_fd: int, path: str, flags: int, mode: int) -> int:
    how = _OpenHow(flags, mode, _RESOLVE)
    fd: int = _syscall(_OPENAT2, directory_fd, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return fd


def _step_by_step(directory_fd: int, path: str, flags: int, mode: int) -> int:
    """Open without openat2: directory by directory."""
    device = os.fstat(directory_fd).st_dev
    *above, last = path.split("/")
    opened: list[int] = []
    try:
        for name in above:
            directory_fd = os.open(
                name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory_fd
            )
            opened.append(directory_fd)
            if os.fstat(directory_fd).st_dev != device:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
        return os.open(last, flags | os.O_NOFOLLOW, mode, dir_fd=directory_fd)
    finally:
        for fd in opened:
            os.close(fd)


def _has_openat2() -> bool:
    """Return True if the kernel, and a sandbox around this process, allow openat2."""
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(_openat2(root, ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, 0))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


_HAS_OPENAT2 = _has_openat2()
