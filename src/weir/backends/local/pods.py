"""The directory of one start of a pod: what is written there, and whether its supervisor lives.

A directory's files are written whole (beside it, synced, renamed) or not at all. The lock in it is
held by the supervisor for as long as it lives, so nobody has to trust a process id. Whoever else
takes the lock must say how the start ended before letting go of it.

Needs the standard library only, and little of it: supervisors are forked from an interpreter that
has to stay small.
"""

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress

START, LOCK, RUNNING, STOP, NOTES, EXIT, LOG = (
    "start.json",
    "lock",
    "running.json",
    "stop.json",
    "notes.jsonl",
    "exit.json",
    "log",
)

_encoded = json.JSONEncoder(separators=(",", ":")).encode

_CLOCK_TICKS_AT = 19
"""Where /proc/PID/stat says when the process started, counted after the name."""


def write(directory: str, name: str, value: Mapping[str, object], *, synced: bool = True) -> None:
    """Put a file there whole, or raise OSError and leave what was there."""
    path = f"{directory}/{name}"
    beside = f"{path}.new"
    text = _encoded(value).encode()
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            written = 0
            while written < len(text):
                written += os.write(fd, text[written:])
            if synced:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(beside, path)
    except OSError:
        with suppress(OSError):
            os.unlink(beside)
        raise


def read(directory: str, name: str) -> dict[str, object] | None:
    """What a file there says; None if it isn't there or isn't whole."""
    try:
        fd = os.open(f"{directory}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        text = b""
        while more := os.read(fd, 1 << 16):
            text += more
    finally:
        os.close(fd)
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def has(directory: str, name: str) -> bool:
    """Whether a file is there."""
    return os.access(f"{directory}/{name}", os.F_OK)


def take_lock(directory: str) -> int | None:
    """The lock, held until the returned descriptor is closed; None if its supervisor lives."""
    fd = os.open(f"{directory}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except OSError:
        os.close(fd)
        raise
    return fd


class Born:
    """Which process: its id, when it was started, and since which start of the machine that counts."""

    __slots__ = ("boot", "pid", "ticks")

    def __init__(self, pid: int, ticks: int, boot: str) -> None:
        self.pid = pid
        self.ticks = ticks
        self.boot = boot

    @classmethod
    def of(cls, pid: int) -> "Born | None":
        """A process there is now."""
        ticks = started_ticks(pid)
        return None if ticks is None else cls(pid, ticks, boot())

    def lives(self) -> bool:
        """Whether this very process is still there."""
        return self.boot == boot() and started_ticks(self.pid) == self.ticks


def sign(lock: int) -> None:
    """Write into a lock held by this process who that is."""
    me = Born.of(os.getpid())
    assert me is not None
    text = f"{me.pid} {me.ticks} {me.boot}\n".encode()
    os.pwrite(lock, text, 0)
    os.ftruncate(lock, len(text))


def signed(directory: str) -> Born | None:
    """Who signed the lock last; None if nobody did."""
    try:
        fd = os.open(f"{directory}/{LOCK}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        words = os.read(fd, 256).decode(errors="replace").split()
    finally:
        os.close(fd)
    if len(words) != 3 or not (words[0].isdigit() and words[1].isdigit()):
        return None
    return Born(int(words[0]), int(words[1]), words[2])


_boot = ""


def boot() -> str:
    """Names this start of the machine; empty where that can't be known."""
    global _boot  # noqa: PLW0603 - it never changes while we run
    if not _boot:
        _boot = (_read_short("/proc/sys/kernel/random/boot_id") or b"-").decode().strip() or "-"
    return _boot


def stat_of(pid: int) -> list[bytes] | None:
    """The fields of /proc/PID/stat from the state on; None if the process is gone."""
    text = _read_short(f"/proc/{pid}/stat")
    return text[text.rindex(b")") + 2 :].split() if text else None


def started_ticks(pid: int) -> int | None:
    """When a process was started, in the kernel's ticks; None if it is gone."""
    fields = stat_of(pid)
    return int(fields[_CLOCK_TICKS_AT]) if fields else None


def processes() -> list[int]:
    """The ids of all processes."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def descendants(root: int) -> list[int]:
    """The processes below one, parents before their children."""
    children: dict[int, list[int]] = {}
    for pid in processes():
        fields = stat_of(pid)
        if fields:
            children.setdefault(int(fields[1]), []).append(pid)
    found = [root]
    for pid in found:
        found += children.get(pid, ())
    return found[1:]


def _read_short(path: str) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, 4096)
    except OSError:
        return None
    finally:
        os.close(fd)
